//! Own traffic before lent, on a link whose capacity is stated (ADR 0041): counts of the relays and
//! of the interface, and the rates at which relays read.
//!
//! Own traffic is what passes the interface less what relays send and receive there.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;

use mpbond_net::pipe::PipeStream;
use mpbond_net::relay::{LentRate, Pace, RelayHandle, RelayStats};
use mpbond_net::tcp::TcpInfo;
use mpbond_policy::lending::{Lending, Passed};
use mpbond_units::{BitRate, Timestamp};
use tracing::debug;

use crate::addresses::interface_of;
use crate::config::Uplink;
use crate::status::{LentStatus, LimitStatus};
use crate::usage::InterfaceBytes;

/// Octets of the headers of a segment: Ethernet, IP, and TCP with time stamps.
const fn header_bytes(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(_) => 14 + 20 + 32,
        IpAddr::V6(_) => 14 + 40 + 32,
    }
}

/// Bytes on the wire down and up.
type Both = [u64; 2];

/// The link that is lent, where a capacity of it is stated.
pub(super) struct LentLink {
    interface: String,
    /// Rates that its relays obey.
    rate: Arc<LentRate>,
    interfaces: InterfaceBytes,
    counts: RefCell<LinkCounts>,
}

struct LinkCounts {
    /// Down and up, where the capacity is stated.
    lendings: [Option<Lending>; 2],
    /// Whether there are limits, for the log.
    limited: [bool; 2],
    /// Bytes of the HS-Paths, and of pipes over the same interface, which are not own traffic.
    hs: Both,
    pipes: Both,
}

/// A relay over the link.
pub(super) struct OverLink {
    /// The pipe uses the same interface.
    pipe_too: bool,
    header_bytes: u64,
    /// At the last reading.
    last: Cell<RelayCounts>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RelayCounts {
    /// Bytes moved down and up in all, and those held.
    moved: Both,
    held: Both,
    hs: Both,
    pipe: Both,
}

impl OverLink {
    fn counts(&self, stats: &RelayStats) -> RelayCounts {
        let headers = |segments: Option<u64>| segments.unwrap_or(0) * self.header_bytes;
        let of = |tcp: &TcpInfo| {
            [
                tcp.bytes_received.unwrap_or(0) + headers(tcp.segments_received),
                tcp.bytes_sent.unwrap_or(0) + headers(tcp.segments_sent),
            ]
        };
        RelayCounts {
            moved: [stats.bytes_down, stats.bytes_up],
            held: [stats.level_down_bytes, stats.level_up_bytes],
            hs: of(&stats.hs),
            pipe: match &stats.pipe {
                _ if !self.pipe_too => Both::default(),
                Some(pipe) => of(pipe),
                // Frames: about as much.
                None => [stats.bytes_up, stats.bytes_down].map(|bytes| bytes / 20 * 21),
            },
        }
    }
}

impl RelayCounts {
    /// Whether it has something to carry, down and up: it has moved bytes, or holds some.
    fn carries_since(&self, before: &Self) -> [bool; 2] {
        [0, 1].map(|way| self.moved[way] != before.moved[way] || self.held[way] > 0)
    }
}

/// Adds what has passed between two counts.
fn add(sum: &mut Both, before: Both, now: Both) {
    for way in 0..2 {
        sum[way] += now[way].saturating_sub(before[way]);
    }
}

impl LentLink {
    /// The link of these settings, if they state a capacity.
    pub(super) fn of(uplink: &Uplink) -> Option<Self> {
        let interface = uplink.interface.clone()?;
        let capacities = [uplink.capacity_down, uplink.capacity_up];
        capacities.iter().any(Option::is_some).then(|| Self {
            interface,
            rate: Arc::default(),
            interfaces: InterfaceBytes::of_this_host(),
            counts: RefCell::new(LinkCounts {
                lendings: capacities.map(|capacity| capacity.map(Lending::new)),
                limited: [false; 2],
                hs: Both::default(),
                pipes: Both::default(),
            }),
        })
    }

    /// A relay over this link, with its HS-Path from this address.
    pub(super) fn carries(&self, hs: IpAddr, pipe: &PipeStream) -> OverLink {
        let interface = match pipe {
            PipeStream::Tcp(tcp) => {
                let local = tcp.local_addr().map(|local| local.ip().to_canonical());
                local.ok().and_then(interface_of)
            }
            PipeStream::L2(l2) => Some(l2.interface()),
            PipeStream::Unix(_) => None,
        };
        OverLink {
            pipe_too: interface.as_ref() == Some(&self.interface),
            header_bytes: header_bytes(hs),
            last: Cell::default(),
        }
    }

    /// The rates that its relays share.
    pub(super) fn rate(&self) -> Arc<LentRate> {
        Arc::clone(&self.rate)
    }

    /// Rates of its relays together, down and up, where own traffic limits them now.
    pub(super) fn limits(&self) -> [Option<BitRate>; 2] {
        [&self.rate.down, &self.rate.up].map(Pace::rate)
    }

    /// Its state for `mpbond status`.
    pub(super) fn status(&self) -> LentStatus {
        LentStatus {
            interface: self.interface.clone(),
            limits: LimitStatus::of(self.limits()),
        }
    }

    /// Waits until a byte passes any of its relays.
    pub(super) async fn woken(&self) {
        self.rate.woken().await;
    }

    /// Ends the limits: what begins next is not held up by what was before.
    pub(super) fn free(&self) {
        self.rate.down.set_rate(None);
        self.rate.up.set_rate(None);
        self.counts.borrow_mut().limited = [false; 2];
    }

    /// Takes the counts of its relays and of the interface, and sets the rates. Returns whether
    /// relays have moved bytes since the last reading.
    pub(super) fn read<'a>(
        &self,
        now: Timestamp,
        relays: impl Iterator<Item = (&'a OverLink, &'a RelayHandle)>,
    ) -> bool {
        let mut counts = self.counts.borrow_mut();
        let counts = &mut *counts;
        let mut moved = false;
        // Relays with something to carry, down and up.
        let mut with_bytes = [0; 2];
        let mut is_counted = [true; 2];
        for (over, handle) in relays {
            let Some(stats) = handle.stats() else {
                continue;
            };
            let new = over.counts(&stats);
            let before = over.last.replace(new);
            add(&mut counts.hs, before.hs, new.hs);
            add(&mut counts.pipes, before.pipe, new.pipe);
            moved |= new.moved != before.moved;
            is_counted[0] &= stats.hs.bytes_received.is_some();
            is_counted[1] &= stats.hs.bytes_sent.is_some();
            for (count, carries) in with_bytes.iter_mut().zip(new.carries_since(&before)) {
                *count += usize::from(carries);
            }
        }
        let all = self.interfaces.passed(&self.interface);
        for (way, pace) in [&self.rate.down, &self.rate.up].into_iter().enumerate() {
            let Some(lending) = &mut counts.lendings[way] else {
                continue;
            };
            // No rate where the interface is gone, or has another name, or where the kernel does
            // not count what relays carry: all of that would be own traffic.
            let rate = all.filter(|_| is_counted[way]).and_then(|all| {
                let passed = Passed {
                    all_bytes: all[way],
                    pipe_bytes: counts.pipes[way],
                    lent_bytes: counts.hs[way],
                };
                lending.handle_reading(now, passed, with_bytes[way])
            });
            if counts.limited[way] != rate.is_some() {
                counts.limited[way] = rate.is_some();
                let (interface, way) = (&self.interface, ["down", "up"][way]);
                debug!(interface, way, ?rate, "rate of relays beside own traffic");
            }
            pace.set_rate(rate);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    fn over(pipe_too: bool) -> OverLink {
        OverLink {
            pipe_too,
            header_bytes: 66,
            last: Cell::default(),
        }
    }

    fn stats(pipe: Option<TcpInfo>) -> RelayStats {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        RelayStats {
            bytes_down: 20_000,
            bytes_up: 1_000,
            level_down_bytes: 0,
            level_up_bytes: 0,
            bound_bytes: 4 << 20,
            since_hs_byte: None,
            since_hs_down: None,
            waited_down: Duration::ZERO,
            waited_up: Duration::ZERO,
            sojourn_down: None,
            sojourn_up: None,
            pipe,
            hs: TcpInfo {
                bytes_received: Some(100_000),
                segments_received: Some(70),
                bytes_sent: Some(3_000),
                segments_sent: Some(30),
                ..TcpInfo::read(&near).unwrap()
            },
        }
    }

    #[test]
    fn bytes_on_the_wire_have_headers() {
        let counts = over(false).counts(&stats(None));
        assert_eq!(counts.hs, [100_000 + 70 * 66, 3_000 + 30 * 66]);
    }

    #[test]
    fn a_relay_has_something_to_carry_if_it_has_moved_or_holds_bytes() {
        let before = over(false).counts(&stats(None));
        assert_eq!(before.carries_since(&before), [false, false]);
        let mut now = before;
        now.moved[1] += 1;
        assert_eq!(now.carries_since(&before), [false, true]);
        let mut held = stats(None);
        held.level_down_bytes = 1;
        let held = over(false).counts(&held);
        assert_eq!(held.carries_since(&held), [true, false]);
    }

    #[test]
    fn a_pipe_counts_if_it_uses_the_same_interface() {
        let hs = stats(None).hs;
        for (same, pipe, counted) in [
            (false, Some(hs), [0, 0]),
            (true, Some(hs), [104_620, 4_980]),
            // Frames.
            (true, None, [1_050, 21_000]),
        ] {
            let counts = over(same).counts(&stats(pipe));
            assert_eq!(counts.pipe, counted, "{same} {pipe:?}");
        }
    }

    #[test]
    fn without_a_stated_capacity_nothing_is_limited() {
        let mut uplink = Uplink {
            interface: Some("gone0".to_owned()),
            ..Uplink::default()
        };
        assert!(LentLink::of(&uplink).is_none());
        uplink.capacity_up = Some(BitRate::from_mbps(5.0));
        assert!(LentLink::of(&uplink).is_some());
    }

    #[test]
    fn an_interface_that_is_gone_has_no_limits() {
        let capacity = BitRate::from_mbps(1.0);
        let uplink = Uplink {
            interface: Some("gone0".to_owned()),
            capacity_down: Some(capacity),
            ..Uplink::default()
        };
        let link = LentLink::of(&uplink).unwrap();
        link.rate.down.set_rate(Some(capacity));
        assert!(format!("{:?}", link.rate).contains("Some("));
        link.read(Timestamp::ZERO, std::iter::empty());
        assert!(
            !format!("{:?}", link.rate).contains("Some("),
            "{:?}",
            link.rate
        );
    }
}
