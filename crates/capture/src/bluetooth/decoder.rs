//! Events of a log, one after another.

use std::collections::{HashMap, HashSet};

use mpbond_units::Timestamp;

use super::hci::{HciKind, hci};
use super::l2cap::{Assembler, Channels, PSM_RFCOMM, SIGNALLING};
use super::link_id::LinkId;
use super::rfcomm::{RfcommFrame, rfcomm};
use crate::record::Record;
use crate::source::u16_at;

/// Mask of a handle: twelve bits.
const HANDLE: u16 = 0x0fff;

// Commands: group and number (volume 4, part E, section 7.2).
const SNIFF_MODE: u16 = 0x0803;
const EXIT_SNIFF_MODE: u16 = 0x0804;

// Events (section 7.7).
const CONNECTION_COMPLETE: u8 = 0x03;
const DISCONNECTION_COMPLETE: u8 = 0x05;
const COMMAND_STATUS: u8 = 0x0f;
const COMPLETED_PACKETS: u8 = 0x13;
const MODE_CHANGE: u8 = 0x14;
const SYNCHRONOUS_COMPLETE: u8 = 0x2c;
const LE_META: u8 = 0x3e;
const LE_CONNECTION: u8 = 0x01;
const LE_ENHANCED_CONNECTION: u8 = 0x0a;

/// Event of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening<'a> {
    /// A connection was made; new ones are Active.
    Connected {
        /// Connection.
        link: LinkId,
        /// Whether it is Low Energy or voice, which have no modes.
        without_modes: bool,
    },
    /// A connection ended.
    Disconnected(LinkId),
    /// The host requested Sniff or its end; not reported when the command was truncated.
    Asked {
        /// Connection.
        link: LinkId,
        /// `true` to enter Sniff, `false` to leave it.
        sniff: bool,
    },
    /// The controller answered the host's oldest request of this kind that has no answer yet.
    Answered {
        /// Controller.
        adapter: u16,
        /// `true` to enter Sniff, `false` to leave it.
        sniff: bool,
        /// Whether the controller accepted it; the mode changes later.
        accepted: bool,
    },
    /// The mode of a connection changed.
    Mode {
        /// Connection.
        link: LinkId,
        /// Mode: 0 Active, 1 Hold, 2 Sniff, 3 Park.
        mode: u8,
        /// Interval in slots of 0.625 ms.
        interval_slots: u16,
    },
    /// A requested change of the mode of a connection failed: the mode stays.
    Unchanged(LinkId),
    /// Asynchronous (ACL) packet.
    Acl {
        /// Connection.
        link: LinkId,
        /// Whether it came from the other end.
        received: bool,
        /// Length according to its header, regardless of truncation.
        bytes: u16,
        /// Whether the log has all of it. Some loggers truncate payloads without a mark.
        whole: bool,
    },
    /// Reassembled L2CAP packet.
    L2cap {
        /// Connection.
        link: LinkId,
        /// Whether it came from the other end.
        received: bool,
        /// Channel.
        channel: u16,
        /// Service of the channel, if its opening was seen.
        service: Option<u16>,
    },
    /// RFCOMM frame.
    Rfcomm {
        /// Connection.
        link: LinkId,
        /// Whether it came from the other end.
        received: bool,
        /// Whether the opening of its channel was seen; otherwise it was recognized by its form.
        channel_known: bool,
        /// Frame.
        frame: RfcommFrame<'a>,
    },
    /// The controller reports the number of packets that it has sent.
    Completed,
}

/// Decoder of a log.
#[derive(Default)]
pub struct Decoder {
    /// Current connection of each handle.
    connections: HashMap<(u16, u16), u32>,
    /// Handles with traffic since their last end.
    used: HashSet<(u16, u16)>,
    /// Direction of the last ACL packet of each handle, in captures that do not give it.
    last_received: HashMap<(u16, u16), bool>,
    assembler: Assembler,
    channels: Channels,
}

impl Decoder {
    /// Processes a record and calls `hear` for each event in it. Malformed records and those that
    /// are not HCI have no events; returns whether the record was HCI.
    pub fn push(&mut self, record: &Record<'_>, hear: &mut impl FnMut(Happening<'_>)) -> bool {
        let Some(packet) = hci(record) else {
            return false;
        };
        match packet.kind {
            HciKind::Command => self.command(packet.adapter, packet.data, hear),
            HciKind::Event => self.event(packet.adapter, packet.data, hear),
            HciKind::Acl => self.acl(packet.adapter, packet.received, packet.data, hear),
            HciKind::Sco | HciKind::Iso | HciKind::Other => {}
        }
        true
    }

    fn link(&self, adapter: u16, handle: u16) -> LinkId {
        let handle = handle & HANDLE;
        let connection = self.connections.get(&(adapter, handle));
        LinkId {
            adapter,
            handle,
            connection: connection.copied().unwrap_or_default(),
        }
    }

    /// Connection of a handle, marked as used.
    fn seen(&mut self, adapter: u16, handle: u16) -> LinkId {
        self.used.insert((adapter, handle & HANDLE));
        self.link(adapter, handle)
    }

    fn command(&mut self, adapter: u16, data: &[u8], hear: &mut impl FnMut(Happening<'_>)) {
        let sniff = match u16_at(data, 0, false) {
            SNIFF_MODE => true,
            EXIT_SNIFF_MODE => false,
            _ => return,
        };
        if data.len() >= 5 {
            let link = self.link(adapter, u16_at(data, 3, false));
            hear(Happening::Asked { link, sniff });
        }
    }

    fn event(&mut self, adapter: u16, data: &[u8], hear: &mut impl FnMut(Happening<'_>)) {
        let Some((code, body)) = data.first().zip(data.get(2..)) else {
            return;
        };
        let status = body.first().copied();
        match (*code, body.len()) {
            (CONNECTION_COMPLETE, 11..) if status == Some(0) => {
                // Type 1 is asynchronous, 0 is voice.
                let voice = body.get(9) != Some(&1);
                self.connected(adapter, u16_at(body, 1, false), voice, hear);
            }
            (SYNCHRONOUS_COMPLETE, 3..) if status == Some(0) => {
                self.connected(adapter, u16_at(body, 1, false), true, hear);
            }
            (LE_META, 4..)
                if matches!(status, Some(LE_CONNECTION | LE_ENHANCED_CONNECTION))
                    && body.get(1) == Some(&0) =>
            {
                self.connected(adapter, u16_at(body, 2, false), true, hear);
            }
            (DISCONNECTION_COMPLETE, 4..) if status == Some(0) => {
                let link = self.link(adapter, u16_at(body, 1, false));
                self.assembler.forget(link);
                self.channels.forget(link);
                self.used.remove(&(adapter, link.handle));
                self.connections
                    .insert((adapter, link.handle), link.connection + 1);
                hear(Happening::Disconnected(link));
            }
            (COMMAND_STATUS, 4..) => {
                let sniff = match u16_at(body, 2, false) {
                    SNIFF_MODE => true,
                    EXIT_SNIFF_MODE => false,
                    _ => return,
                };
                hear(Happening::Answered {
                    adapter,
                    sniff,
                    accepted: status == Some(0),
                });
            }
            (MODE_CHANGE, 6..) if status == Some(0) => {
                let link = self.seen(adapter, u16_at(body, 1, false));
                let mode = body.get(3).copied().unwrap_or_default();
                hear(Happening::Mode {
                    link,
                    mode,
                    interval_slots: u16_at(body, 4, false),
                });
            }
            (MODE_CHANGE, 6..) => {
                hear(Happening::Unchanged(
                    self.link(adapter, u16_at(body, 1, false)),
                ));
            }
            (COMPLETED_PACKETS, _) => hear(Happening::Completed),
            _ => {}
        }
    }

    fn connected(
        &mut self,
        adapter: u16,
        handle: u16,
        without_modes: bool,
        hear: &mut impl FnMut(Happening<'_>),
    ) {
        let handle = handle & HANDLE;
        let old = self.link(adapter, handle);
        self.assembler.forget(old);
        self.channels.forget(old);
        // One more than the connections seen, ended or not.
        let used = self.used.remove(&(adapter, handle));
        let connection = old.connection + u32::from(used);
        self.connections.insert((adapter, handle), connection);
        let link = self.seen(adapter, handle);
        hear(Happening::Connected {
            link,
            without_modes,
        });
    }

    /// Direction of an ACL packet in a capture that does not give it: a continuation has that of
    /// the packet which it continues, the later one when both directions have an incomplete one.
    fn direction(&mut self, link: LinkId, boundary: u16) -> bool {
        let last = self.last_received.entry((link.adapter, link.handle));
        let last = last.or_default();
        *last = match boundary {
            1 => self.assembler.pending(link).unwrap_or(*last),
            start => start == 2,
        };
        *last
    }

    fn acl(
        &mut self,
        adapter: u16,
        received: Option<bool>,
        data: &[u8],
        hear: &mut impl FnMut(Happening<'_>),
    ) {
        let Some(payload) = data.get(4..) else { return };
        let head = u16_at(data, 0, false);
        // Packet boundary flag: 1 continues; hosts start with 0 or 2, controllers with 2.
        let boundary = head >> 12 & 3;
        let link = self.seen(adapter, head);
        let received = received.unwrap_or_else(|| self.direction(link, boundary));
        let bytes = u16_at(data, 2, false);
        hear(Happening::Acl {
            link,
            received,
            bytes,
            whole: payload.len() >= usize::from(bytes),
        });
        let Self {
            assembler,
            channels,
            ..
        } = self;
        let whole = assembler.push(link, received, boundary != 1, payload);
        let Some((channel, body)) = whole else { return };
        let service = channels.service(link, received, channel);
        hear(Happening::L2cap {
            link,
            received,
            channel,
            service,
        });
        if channel == SIGNALLING {
            channels.signal(link, received, body);
        } else if service.is_none_or(|s| s == PSM_RFCOMM)
            && let Some(frame) = rfcomm(body)
        {
            hear(Happening::Rfcomm {
                link,
                received,
                channel_known: service.is_some(),
                frame,
            });
        }
    }
}

/// Seconds from `start` to `at`; negative when it is earlier, since clocks of logs occasionally go
/// back.
pub(super) fn seconds(start: Timestamp, at: Timestamp) -> f64 {
    let ns = i128::from(at.as_nanos()) - i128::from(start.as_nanos());
    // To the microsecond, the resolution of the formats.
    (ns as f64 / 1e3).round() / 1e6
}
