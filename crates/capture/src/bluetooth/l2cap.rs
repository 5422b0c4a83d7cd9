//! L2CAP: reassembly of fragments, and services of channels (Bluetooth Core 5.4, volume 3, part A,
//! sections 3.1, 4.2 and 4.3).

use std::collections::HashMap;

use super::link_id::LinkId;
use crate::source::u16_at;

/// Service number of RFCOMM.
pub const PSM_RFCOMM: u16 = 3;

/// Signalling channel.
pub(super) const SIGNALLING: u16 = 1;

/// Maximum number of channels; real links have a few dozen.
const MAX_CHANNELS: usize = 1 << 16;
/// Maximum number of incomplete packets, over all links and directions.
const MAX_PARTIAL: usize = 64;

const HEADER: usize = 4;

/// Link and direction of a fragment.
type Way = (LinkId, bool);

#[derive(Default)]
pub(super) struct Assembler {
    partial: HashMap<Way, (usize, Vec<u8>)>,
    whole: Vec<u8>,
}

impl Assembler {
    /// Processes a fragment; returns the packet (channel, payload) that it completes.
    pub(super) fn push(
        &mut self,
        link: LinkId,
        received: bool,
        first: bool,
        data: &[u8],
    ) -> Option<(u16, &[u8])> {
        let way = (link, received);
        if first {
            self.partial.remove(&way);
            let wanted = length(data);
            if wanted.is_some_and(|wanted| data.len() >= wanted) {
                // The common case needs no buffer.
                let end = wanted.unwrap_or_default();
                self.whole.clear();
                self.whole.extend_from_slice(data.get(..end)?);
                return self.done();
            }
            if self.partial.len() >= MAX_PARTIAL {
                self.partial.clear();
            }
            self.partial
                .insert(way, (wanted.unwrap_or(usize::MAX), data.to_vec()));
            return None;
        }
        let (wanted, kept) = self.partial.get_mut(&way)?;
        kept.extend_from_slice(data);
        if *wanted == usize::MAX {
            *wanted = length(kept).unwrap_or(usize::MAX);
        }
        if kept.len() < *wanted {
            return None;
        }
        let (wanted, kept) = self.partial.remove(&way)?;
        self.whole = kept;
        self.whole.truncate(wanted);
        self.done()
    }

    /// The packet just completed.
    fn done(&self) -> Option<(u16, &[u8])> {
        let channel = u16_at(&self.whole, 2, false);
        Some((channel, self.whole.get(HEADER..)?))
    }

    /// Direction of a link's incomplete packet; `None` without one, or with one in each direction.
    pub(super) fn pending(&self, link: LinkId) -> Option<bool> {
        let [sent, received] = [false, true].map(|way| self.partial.contains_key(&(link, way)));
        (sent != received).then_some(received)
    }

    pub(super) fn forget(&mut self, link: LinkId) {
        self.partial.retain(|(l, _), _| *l != link);
    }
}

/// Length of the packet that begins with `data`, header included; `None` while the header is
/// incomplete.
fn length(data: &[u8]) -> Option<usize> {
    (data.len() >= HEADER).then(|| usize::from(u16_at(data, 0, false)) + HEADER)
}

/// Services of channels whose opening was seen.
#[derive(Default)]
pub(super) struct Channels {
    /// By link, requester (true: the other end) and identifier: service and the requester's
    /// channel.
    asked: HashMap<(LinkId, bool, u8), (u16, u16)>,
    /// By link, direction and channel as named in packets of that direction: service.
    open: HashMap<(LinkId, bool, u16), u16>,
}

impl Channels {
    pub(super) fn service(&self, link: LinkId, received: bool, channel: u16) -> Option<u16> {
        self.open.get(&(link, received, channel)).copied()
    }

    pub(super) fn forget(&mut self, link: LinkId) {
        self.asked.retain(|(l, _, _), _| *l != link);
        self.open.retain(|(l, _, _), _| *l != link);
    }

    /// Processes a packet of the signalling channel, with any number of commands.
    pub(super) fn signal(&mut self, link: LinkId, received: bool, mut data: &[u8]) {
        while data.len() >= 4 {
            let (code, id) = (data[0], data[1]);
            let end = 4 + usize::from(u16_at(data, 2, false));
            let Some(body) = data.get(4..end) else { return };
            self.command(link, received, code, id, body);
            data = data.get(end..).unwrap_or_default();
        }
    }

    fn command(&mut self, link: LinkId, received: bool, code: u8, id: u8, body: &[u8]) {
        let field = |i: usize| u16_at(body, i * 2, false);
        match (code, body.len()) {
            // Connection request: service, the requester's channel.
            (0x02, 4..) if self.asked.len() < MAX_CHANNELS => {
                self.asked
                    .insert((link, received, id), (field(0), field(1)));
            }
            // Response: the responder's channel, the requester's, result (0 success, 1 pending).
            (0x03, 6..) => {
                let asker = !received;
                if field(2) == 1 {
                    return;
                }
                let Some((service, own)) = self.asked.remove(&(link, asker, id)) else {
                    return;
                };
                if field(2) == 0 && own == field(1) && self.open.len() < MAX_CHANNELS {
                    // Packets name the channel of the end that receives them.
                    self.open.insert((link, asker, field(0)), service);
                    self.open.insert((link, received, own), service);
                }
            }
            // Disconnection response: the responder's channel, the requester's.
            (0x07, 4..) => {
                self.open.remove(&(link, !received, field(0)));
                self.open.remove(&(link, received, field(1)));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkId = LinkId {
        adapter: 0,
        handle: 2,
        connection: 0,
    };

    #[test]
    fn fragments_make_a_packet_even_when_the_header_is_split() {
        let packet = b"\x05\x00\x41\x00hello";
        for cut in 1..packet.len() {
            let mut assembler = Assembler::default();
            assert_eq!(assembler.push(LINK, true, true, &packet[..cut]), None);
            // The other direction does not disturb.
            assert_eq!(assembler.push(LINK, false, false, b"zzz"), None);
            let whole = assembler.push(LINK, true, false, &packet[cut..]);
            assert_eq!(whole, Some((0x41, &b"hello"[..])), "cut at {cut}");
        }
        let mut assembler = Assembler::default();
        assert_eq!(assembler.push(LINK, true, false, packet), None, "no start");
    }

    /// Both ends' numbers of a channel lead to its service, until it closes.
    #[test]
    fn channels_are_followed() {
        let mut channels = Channels::default();
        channels.signal(LINK, false, &[2, 9, 4, 0, 3, 0, 0x41, 0]);
        channels.signal(LINK, true, &[3, 9, 8, 0, 0x57, 0, 0x41, 0, 1, 0, 0, 0]);
        assert_eq!(channels.service(LINK, true, 0x41), None, "only pending");
        channels.signal(LINK, true, &[3, 9, 8, 0, 0x57, 0, 0x41, 0, 0, 0, 0, 0]);
        assert_eq!(channels.service(LINK, true, 0x41), Some(PSM_RFCOMM));
        assert_eq!(channels.service(LINK, false, 0x57), Some(PSM_RFCOMM));
        assert_eq!(channels.service(LINK, false, 0x41), None);
        // We asked to close: our number second.
        channels.signal(LINK, true, &[7, 1, 4, 0, 0x57, 0, 0x41, 0]);
        assert_eq!(channels.service(LINK, true, 0x41), None);
        assert_eq!(channels.service(LINK, false, 0x57), None);
    }
}
