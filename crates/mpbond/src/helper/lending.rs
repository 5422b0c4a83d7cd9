//! Links that a helper lends, with the rates of their relays and the counts of these.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mpbond_manager::ledger::{LinkLedger, Passed, Reading, Way};
use mpbond_net::relay::{LentRate, RelayHandle};
use mpbond_net::tcp::TcpInfo;
use mpbond_units::{BitRate, Timestamp};
use tracing::debug;

use crate::addresses::interface_of;
use crate::status::LentStatus;
use crate::usage::InterfaceBytes;

/// Segments that a relay must have received or sent since the last reading for a round-trip time to
/// be of use.
const SAMPLE_SEGMENTS: u64 = 8;

/// Octets of the headers of a segment: Ethernet, IP, and TCP with time stamps.
const fn header_bytes(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(_) => 14 + 20 + 32,
        IpAddr::V6(_) => 14 + 40 + 32,
    }
}

/// A relay's number in the ledger for its round-trip times as the receiver of data: they are not
/// comparable with those as the sender.
const fn number_as_receiver(relay: u64) -> u64 {
    2 * relay + 1
}

/// Links that are lent, by interface.
#[derive(Default)]
pub(super) struct Lending {
    links: RefCell<BTreeMap<String, Rc<LentLink>>>,
}

/// A link that is lent.
pub(super) struct LentLink {
    interface: String,
    /// Rates that its relays obey.
    pub(super) rate: Arc<LentRate>,
    ledger: RefCell<LinkLedger>,
    /// Counts of relays at the last reading, by number.
    relays: RefCell<BTreeMap<u64, Counts>>,
    /// Bytes lent since the start, down and up, with headers.
    lent: Cell<(u64, u64)>,
}

/// The link over which a relay runs.
pub(super) struct OverLink {
    pub(super) link: Rc<LentLink>,
    /// Whether the relay obeys the rates; the few urgent bytes of an express do not wait.
    obeys: bool,
    /// The pipe uses the same interface.
    pipe_too: bool,
    header_bytes: u64,
}

/// Counts of a relay's connections.
#[derive(Clone, Copy, Default)]
struct Counts {
    /// Bytes on the link, with headers.
    down: u64,
    up: u64,
    segments: u64,
    acked: u64,
}

impl OverLink {
    /// The rates for the relay.
    pub(super) fn rates(&self) -> Option<Arc<LentRate>> {
        self.obeys.then(|| Arc::clone(&self.link.rate))
    }
}

impl Counts {
    fn of(over: &OverLink, hs: &TcpInfo, pipe: Option<&TcpInfo>) -> Self {
        let segments = hs.segments_received.unwrap_or(0) + hs.segments_sent.unwrap_or(0);
        let mut counts = Self {
            segments,
            acked: hs.bytes_acked.unwrap_or(0),
            ..Self::default()
        };
        let pipe = pipe.filter(|_| over.pipe_too);
        for info in std::iter::once(hs).chain(pipe) {
            let passed = |bytes: Option<u64>, segments: Option<u64>| {
                bytes.unwrap_or(0) + segments.unwrap_or(0) * over.header_bytes
            };
            counts.down += passed(info.bytes_received, info.segments_received);
            counts.up += passed(info.bytes_sent, info.segments_sent);
        }
        counts
    }
}

impl LentLink {
    fn new(interface: String) -> Self {
        Self {
            interface,
            rate: Arc::default(),
            ledger: RefCell::default(),
            relays: RefCell::default(),
            lent: Cell::default(),
        }
    }

    /// The next reading is the first one of a time in which relays carry bytes.
    pub(super) fn begin(&self) {
        self.ledger.borrow_mut().handle_idle();
    }

    /// Reads the counters of its relays and of the interface, and sets the rates. Returns the bytes
    /// of relays since the last reading.
    pub(super) fn read<'a>(
        &self,
        now: Timestamp,
        relays: &BTreeMap<u64, (&'a OverLink, &'a RelayHandle)>,
        interfaces: &InterfaceBytes,
    ) -> u64 {
        let mut counts = self.relays.borrow_mut();
        counts.retain(|number, _| relays.contains_key(number));
        drop(counts);
        let mut round_trips = Vec::new();
        let mut busy = Vec::new();
        for (&number, &(over, handle)) in relays {
            let Some(stats) = handle.stats() else {
                continue;
            };
            let counts = Counts::of(over, &stats.hs, stats.pipe.as_ref());
            let (bytes, times) = self.count(number, counts, &stats.hs);
            round_trips.extend(times);
            if bytes > 0 && over.obeys {
                busy.push((number, handle, bytes));
            }
        }
        let moved: u64 = busy.iter().map(|(_, _, bytes)| bytes).sum();
        let Some((received, sent)) = interfaces.passed(&self.interface) else {
            return moved;
        };
        let (lent_down, lent_up) = self.lent.get();
        let passed = |all_bytes, lent_bytes, held_back| Passed {
            all_bytes,
            lent_bytes,
            held_back,
        };
        let reading = Reading {
            down: passed(received, lent_down, self.rate.down.held_back()),
            up: passed(sent, lent_up, self.rate.up.held_back()),
            round_trips,
        };
        let mut ledger = self.ledger.borrow_mut();
        ledger.retain_relays(|number| relays.contains_key(&(number / 2)));
        ledger.handle_reading(now, &reading);
        self.rate.down.set_rate(ledger.lent_rate(Way::Down));
        self.rate.up.set_rate(ledger.lent_rate(Way::Up));
        for &(number, handle, bytes) in &busy {
            let part = (bytes as f64 / moved as f64).max(1.0 / busy.len() as f64);
            let sent = ledger
                .lent_rate(Way::Up)
                .map(|rate| BitRate::from_bytes_per_sec(rate.bytes_per_sec() * part));
            if let Err(error) = handle.limit_sending(sent) {
                debug!(%error, "a relay is not paced");
            }
            if let Some(window) = ledger.window_bytes(number_as_receiver(number), part)
                && let Err(error) = handle.limit_window(window)
            {
                debug!(%error, "the receive window of a relay is not limited");
            }
        }
        moved
    }

    /// Takes the counts of a relay. Returns the bytes since the last reading, and its round-trip
    /// times if they are of that time: as the sender of data, and as the receiver.
    fn count(&self, relay: u64, now: Counts, hs: &TcpInfo) -> (u64, Vec<(u64, Duration)>) {
        let before = self.relays.borrow_mut().insert(relay, now);
        let before = before.unwrap_or_default();
        let (down, up) = self.lent.get();
        let new = [
            now.down - before.down.min(now.down),
            now.up - before.up.min(now.up),
        ];
        self.lent.set((down + new[0], up + new[1]));
        let is_busy = now.segments >= before.segments + SAMPLE_SEGMENTS;
        let as_sender = hs.rtt.filter(|_| is_busy && now.acked > before.acked);
        let as_receiver = hs.receiver_rtt.filter(|_| is_busy);
        let times = [
            (2 * relay, as_sender),
            (number_as_receiver(relay), as_receiver),
        ];
        let times = times
            .into_iter()
            .filter_map(|(key, time)| Some((key, time?)));
        (new[0] + new[1], times.collect())
    }
}

impl Lending {
    /// The link over which a relay's HS-Path runs, from this address; none for the host itself,
    /// which is no link. `begin` is called for a new one.
    pub(super) fn link_of(
        &self,
        hs: IpAddr,
        pipe: Option<IpAddr>,
        obeys: bool,
        begin: impl FnOnce(Rc<LentLink>),
    ) -> Option<OverLink> {
        if hs.is_loopback() {
            return None;
        }
        let interface = interface_of(hs)?;
        let of_pipe = pipe.and_then(|ip| interface_of(ip.to_canonical()));
        let pipe_too = of_pipe.as_ref() == Some(&interface);
        let mut links = self.links.borrow_mut();
        let link = links.entry(interface).or_insert_with_key(|interface| {
            let link = Rc::new(LentLink::new(interface.clone()));
            begin(Rc::clone(&link));
            link
        });
        Some(OverLink {
            link: Rc::clone(link),
            obeys,
            pipe_too,
            header_bytes: header_bytes(hs),
        })
    }

    /// Links with a known capacity, for status.
    pub(super) fn status(&self) -> Vec<LentStatus> {
        let links = self.links.borrow();
        let status = links.values().map(|link| {
            let ledger = link.ledger.borrow();
            let mbps = |way| ledger.capacity(way).map(|rate| rate.mbps());
            let lent = |way| ledger.lent_rate(way).map(|rate| rate.mbps());
            LentStatus {
                interface: link.interface.clone(),
                capacity_down_mbps: mbps(Way::Down),
                capacity_up_mbps: mbps(Way::Up),
                own_down_mbps: ledger.own_rate(Way::Down).mbps(),
                own_up_mbps: ledger.own_rate(Way::Up).mbps(),
                lent_down_mbps: lent(Way::Down),
                lent_up_mbps: lent(Way::Up),
            }
        });
        status.collect()
    }
}
