//! Links that a helper lends: counts and rates of their relays (ADR 0041).
//!
//! Own traffic is what passes the interface of the HS-Paths less what relays send and receive
//! there.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mpbond_manager::ledger::{LinkLedger, Passed};
use mpbond_net::pipe::PipeStream;
use mpbond_net::relay::{LentRate, RelayHandle, RelayStats};
use mpbond_net::tcp::TcpInfo;
use mpbond_units::Timestamp;
use tracing::debug;

use crate::addresses::interface_of;
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

/// A link that is lent, as long as it has relays.
pub(super) struct LentLink {
    pub(super) interface: String,
    /// Rates that its relays obey.
    pub(super) rate: Arc<LentRate>,
    counts: RefCell<LinkCounts>,
}

#[derive(Default)]
struct LinkCounts {
    ledgers: [LinkLedger; 2],
    /// Whether there are limits, for the log.
    limited: [bool; 2],
    read: Timestamp,
    /// Bytes of the HS-Paths, and of pipes over the same interface, which are not own traffic.
    hs: Both,
    pipes: Both,
    /// Bytes of `hs` that the proxies have acknowledged: others may wait in a queue of the link, or
    /// were lost there.
    acked: u64,
}

/// The link over which a relay's HS-Path runs.
pub(super) struct OverLink {
    pub(super) link: Rc<LentLink>,
    /// Whether the relay obeys the rates; the few urgent bytes of an express do not wait.
    obeys: bool,
    /// The pipe uses the same interface.
    pipe_too: bool,
    header_bytes: u64,
    /// At the last reading.
    last: Cell<RelayCounts>,
}

#[derive(Clone, Copy, Default)]
struct RelayCounts {
    moved: (u64, u64),
    flowed: Duration,
    hs: Both,
    pipe: Both,
    acked: u64,
}

impl OverLink {
    /// A relay over this link, with its HS-Path from this address.
    pub(super) fn new(link: Rc<LentLink>, hs: IpAddr, pipe: &PipeStream, obeys: bool) -> Self {
        let interface = match pipe {
            PipeStream::Tcp(tcp) => {
                let local = tcp.local_addr().map(|local| local.ip().to_canonical());
                local.ok().and_then(interface_of)
            }
            PipeStream::L2(l2) => Some(l2.interface()),
            PipeStream::Unix(_) => None,
        };
        Self {
            obeys,
            pipe_too: interface.as_ref() == Some(&link.interface),
            header_bytes: header_bytes(hs),
            last: Cell::default(),
            link,
        }
    }

    /// The rates for the relay.
    pub(super) fn rates(&self) -> Option<Arc<LentRate>> {
        self.obeys.then(|| Arc::clone(&self.link.rate))
    }

    fn counts(&self, stats: &RelayStats, flowed: Duration) -> RelayCounts {
        let headers = |segments: Option<u64>| segments.unwrap_or(0) * self.header_bytes;
        let of = |tcp: &TcpInfo| {
            [
                tcp.bytes_received.unwrap_or(0) + headers(tcp.segments_received),
                tcp.bytes_sent.unwrap_or(0) + headers(tcp.segments_sent),
            ]
        };
        RelayCounts {
            moved: (stats.bytes_down, stats.bytes_up),
            flowed,
            hs: of(&stats.hs),
            acked: stats.hs.bytes_acked.unwrap_or(0) + headers(stats.hs.segments_sent),
            pipe: match &stats.pipe {
                _ if !self.pipe_too => Both::default(),
                Some(pipe) => of(pipe),
                // Frames: about as much.
                None => [stats.bytes_up, stats.bytes_down].map(|bytes| bytes / 20 * 21),
            },
        }
    }
}

impl Drop for OverLink {
    /// The link may have no relays any more.
    fn drop(&mut self) {
        self.link.rate.touch();
    }
}

/// Adds what has passed between two counts.
fn add(sum: &mut Both, before: Both, now: Both) {
    for way in 0..2 {
        sum[way] += now[way].saturating_sub(before[way]);
    }
}

impl LentLink {
    pub(super) fn new(interface: String) -> Self {
        Self {
            interface,
            rate: Arc::default(),
            counts: RefCell::default(),
        }
    }

    /// Takes the counts of its relays and of the interface, and sets the rates. Returns whether
    /// relays have moved bytes since the last reading.
    pub(super) fn read(
        &self,
        now: Timestamp,
        relays: &[(&OverLink, &RelayHandle)],
        interfaces: &InterfaceBytes,
    ) -> bool {
        let mut counts = self.counts.borrow_mut();
        let counts = &mut *counts;
        let interval = now.since(std::mem::replace(&mut counts.read, now));
        let (mut moved, mut flows, mut waits) = (false, false, false);
        for (over, handle) in relays {
            let Some(stats) = handle.stats() else {
                continue;
            };
            let new = over.counts(&stats, handle.flowed_down());
            let before = over.last.replace(new);
            add(&mut counts.hs, before.hs, new.hs);
            add(&mut counts.pipes, before.pipe, new.pipe);
            counts.acked += new.acked.saturating_sub(before.acked);
            moved |= new.moved != before.moved;
            // One that flows all the time is all that its path carries, unless the pipe does not
            // take more.
            flows |=
                new.flowed.saturating_sub(before.flowed) >= interval * 4 / 5 && !stats.is_held_up();
            waits |= stats.hs.notsent_bytes > Some(0);
        }
        let all = interfaces.passed(&self.interface);
        let ahead = [0, counts.hs[1].saturating_sub(counts.acked)];
        let paces = [(&self.rate.down, flows), (&self.rate.up, waits)];
        for (way, (pace, backlogged)) in paces.into_iter().enumerate() {
            let is_held_back = pace.take_held_back();
            // No rate where the interface is gone, or has another name.
            let rate = all.and_then(|all| {
                let passed = Passed {
                    all_bytes: all[way].saturating_sub(counts.pipes[way] + ahead[way]),
                    lent_bytes: counts.hs[way] - ahead[way],
                    backlogged: backlogged || is_held_back,
                };
                counts.ledgers[way].handle_reading(now, passed)
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

    use super::*;

    fn over(pipe_too: bool) -> OverLink {
        OverLink {
            link: Rc::new(LentLink::new("gone0".to_owned())),
            obeys: true,
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
        let counts = over(false).counts(&stats(None), Duration::ZERO);
        assert_eq!(counts.hs, [100_000 + 70 * 66, 3_000 + 30 * 66]);
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
            let counts = over(same).counts(&stats(pipe), Duration::ZERO);
            assert_eq!(counts.pipe, counted, "{same} {pipe:?}");
        }
    }

    #[test]
    fn an_interface_that_is_gone_has_no_limits() {
        let link = LentLink::new("gone0".to_owned());
        let rate = mpbond_units::BitRate::from_mbps(1.0);
        link.rate.down.set_rate(Some(rate));
        link.read(Timestamp::ZERO, &[], &InterfaceBytes::of_this_host());
        assert!(
            !format!("{:?}", link.rate).contains("Some(1"),
            "{:?}",
            link.rate
        );
    }
}
