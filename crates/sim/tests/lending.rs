//! A link that its owner uses and lends, in virtual time: transfers of both over the same
//! bottleneck. The relay is that of a helper: it reads at the rate of the ledger.

#![allow(clippy::unwrap_used)] // of tests

use std::time::Duration;

use mpbond_manager::ledger::{LinkLedger, Passed, READ_EVERY, Reading, Way};
use mpbond_sim::link::{Link, LinkChange, LinkConfig, Queue, Rate};
use mpbond_sim::tcp::{Config, Segment, Socket};
use mpbond_units::{BitRate, Timestamp};

/// Interval in which the relay reads what it may.
const QUANTUM: Duration = Duration::from_millis(5);
const PING_EVERY: Duration = Duration::from_millis(20);
const DELAY: Duration = Duration::from_millis(20);
const RELAY: u64 = 7;

/// Who sends a packet, and where it goes.
enum Packet {
    Own(Segment),
    Lent(Segment),
    Ping(Timestamp),
}

/// A connection between a server and the lender.
struct Flow {
    server: Socket,
    lender: Socket,
    /// The lender sends.
    is_upload: bool,
    read: u64,
}

impl Flow {
    fn new(is_upload: bool) -> Self {
        let (server, lender) = Socket::pair(Config::default(), Config::default());
        Self {
            server,
            lender,
            is_upload,
            read: 0,
        }
    }

    fn ends(&mut self) -> (&mut Socket, &mut Socket) {
        match self.is_upload {
            true => (&mut self.lender, &mut self.server),
            false => (&mut self.server, &mut self.lender),
        }
    }

    fn write(&mut self, most: u64) -> u64 {
        let (sender, _) = self.ends();
        let room = sender.room().min(usize::try_from(most).unwrap());
        sender.write(&vec![1; room]) as u64
    }

    fn read(&mut self, most: u64) -> u64 {
        let mut read = 0;
        let (_, receiver) = self.ends();
        while read < most
            && let Some(bytes) = receiver.read((most - read) as usize)
        {
            read += bytes.len() as u64;
        }
        self.read += read;
        read
    }
}

/// A link of 20 Mbit/s and 40 ms with a queue of 200 ms.
struct World {
    now: Timestamp,
    down: Link<Packet>,
    up: Link<Packet>,
    own: Flow,
    lent: Flow,
    owner_transfers: bool,
    owner_uploads: bool,
    ledger: LinkLedger,
    /// Whether the relay obeys the ledger.
    yields: bool,
    credit: f64,
    held_back: u64,
    /// Bytes of all and of lent packets, with link headers, down and up.
    passed: [Passed; 2],
    last_up_delay: Duration,
    /// As the kernel smooths it (tcp_rcv_rtt_update).
    round_trip: Option<Duration>,
    is_fresh: bool,
    pings: Vec<(Timestamp, Duration)>,
    next: [Timestamp; 3],
}

fn link(mbps: f64, jitter: Duration) -> Link<Packet> {
    let mut config = LinkConfig::new(Rate::Constant(BitRate::from_mbps(mbps)))
        .with_delay(DELAY)
        .with_queue(Queue::Time(Duration::from_millis(200)));
    config.jitter = jitter;
    Link::new(config, 1)
}

impl World {
    fn new(yields: bool) -> Self {
        Self::with_jitter(yields, Duration::ZERO)
    }

    fn with_jitter(yields: bool, jitter: Duration) -> Self {
        Self::over([link(20.0, jitter), link(5.0, jitter / 4)], false, yields)
    }

    /// The transfers are uploads.
    fn uploading(yields: bool, jitter: Duration) -> Self {
        let links = [50.0, 20.0].map(|mbps| link(mbps, jitter));
        Self::over(links, true, yields)
    }

    fn over([down, up]: [Link<Packet>; 2], is_upload: bool, yields: bool) -> Self {
        Self {
            now: Timestamp::ZERO,
            down,
            up,
            own: Flow::new(is_upload),
            lent: Flow::new(is_upload),
            owner_transfers: false,
            owner_uploads: false,
            ledger: LinkLedger::default(),
            yields,
            credit: 0.0,
            held_back: 0,
            passed: [Passed::default(); 2],
            last_up_delay: DELAY,
            round_trip: None,
            is_fresh: false,
            pings: Vec::new(),
            next: [Timestamp::ZERO; 3],
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let timers = [&self.own, &self.lent].map(|f| {
                let timers = [f.server.next_timeout(), f.lender.next_timeout()];
                timers.into_iter().flatten().min()
            });
            let links = [self.down.next_event(), self.up.next_event()];
            let own = self.next.iter().copied().map(Some);
            let events = timers.into_iter().chain(links).chain(own);
            let next = events.flatten().min().unwrap();
            if next > end {
                self.now = end;
                return;
            }
            self.now = next.max(self.now);
        }
    }

    /// Everything that is due now.
    fn settle(&mut self) {
        let now = self.now;
        for flow in [&mut self.own, &mut self.lent] {
            flow.server.handle_timeout(now);
            flow.lender.handle_timeout(now);
        }
        if self.next[0] <= now {
            self.next[0] = now + PING_EVERY;
            let _ = self.up.enqueue(now, 100, Packet::Ping(now));
        }
        if self.next[1] <= now {
            self.next[1] = now + READ_EVERY;
            self.look();
        }
        if self.next[2] <= now {
            self.next[2] = now + QUANTUM;
            self.relay();
        }
        if self.owner_transfers {
            self.own.write(u64::MAX);
        }
        self.own.read(u64::MAX);
        match self.lent.is_upload {
            true => self.lent.read(u64::MAX),
            false => self.lent.write(u64::MAX),
        };
        loop {
            self.transmit();
            if let Some(arrival) = self.down.poll(now) {
                self.passed[0].all_bytes += u64::from(arrival.bytes) + 14;
                match arrival.packet {
                    Packet::Own(segment) => self.own.lender.handle_segment(now, segment),
                    Packet::Lent(segment) => {
                        self.passed[0].lent_bytes += u64::from(arrival.bytes) + 14;
                        let delay = arrival.arrived.since(arrival.enqueued) + self.last_up_delay;
                        self.round_trip = Some(match self.round_trip {
                            Some(old) if delay > old => (old * 7 + delay) / 8,
                            _ => delay,
                        });
                        self.is_fresh = true;
                        self.lent.lender.handle_segment(now, segment);
                        self.limit_window();
                    }
                    Packet::Ping(sent) => self.pings.push((now, now.since(sent))),
                }
            } else if let Some(arrival) = self.up.poll(now) {
                match arrival.packet {
                    Packet::Own(segment) => self.own.server.handle_segment(now, segment),
                    Packet::Lent(segment) => {
                        self.last_up_delay = arrival.arrived.since(arrival.enqueued);
                        self.lent.server.handle_segment(now, segment);
                    }
                    Packet::Ping(sent) => {
                        let _ = self.down.enqueue(now, 100, Packet::Ping(sent));
                    }
                }
            } else {
                return;
            }
        }
    }

    fn transmit(&mut self) {
        let now = self.now;
        while let Some(segment) = self.own.server.poll_transmit(now) {
            let _ = self
                .down
                .enqueue(now, segment.ip_bytes(), Packet::Own(segment));
        }
        while let Some(segment) = self.lent.server.poll_transmit(now) {
            let _ = self
                .down
                .enqueue(now, segment.ip_bytes(), Packet::Lent(segment));
        }
        while let Some(segment) = self.own.lender.poll_transmit(now) {
            self.passed[1].all_bytes += u64::from(segment.ip_bytes()) + 14;
            let _ = self
                .up
                .enqueue(now, segment.ip_bytes(), Packet::Own(segment));
        }
        while let Some(segment) = self.lent.lender.poll_transmit(now) {
            let bytes = u64::from(segment.ip_bytes()) + 14;
            self.passed[1].all_bytes += bytes;
            self.passed[1].lent_bytes += bytes;
            let _ = self
                .up
                .enqueue(now, segment.ip_bytes(), Packet::Lent(segment));
        }
        // An upload without congestion control, a little more than the link carries.
        while self.owner_uploads && self.up.queue_bytes() < 100_000 {
            self.passed[1].all_bytes += 1514;
            let _ = self.up.enqueue(now, 1500, Packet::Ping(now));
        }
    }

    /// The relay reads of a download what it may, and sends as much of an upload.
    fn relay(&mut self) {
        let is_upload = self.lent.is_upload;
        let way = if is_upload { Way::Up } else { Way::Down };
        let rate = self.ledger.lent_rate(way).filter(|_| self.yields);
        let may = rate.map_or(u64::MAX, |rate| {
            let quantum = rate.bytes_per_sec() * QUANTUM.as_secs_f64();
            self.credit = (self.credit + quantum).min(quantum.max(3000.0) + quantum);
            self.credit.max(0.0) as u64
        });
        let (ready, moved) = match is_upload {
            true => (self.lent.lender.room() as u64, self.lent.write(may)),
            false => (self.lent.lender.readable_bytes(), self.lent.read(may)),
        };
        self.held_back += u64::from(ready > may);
        self.credit -= moved as f64;
        self.limit_window();
    }

    fn look(&mut self) {
        let fresh = std::mem::take(&mut self.is_fresh);
        let way = usize::from(self.lent.is_upload);
        self.passed[way].held_back = self.held_back;
        if self.lent.is_upload {
            self.round_trip = self.lent.lender.info().srtt;
        }
        let round_trip = self.round_trip.filter(|_| fresh);
        let reading = Reading {
            down: self.passed[0],
            up: self.passed[1],
            round_trips: round_trip.map(|rtt| (RELAY, rtt)).into_iter().collect(),
        };
        self.ledger.handle_reading(self.now, &reading);
    }

    /// As the kernel does for each segment with TCP_WINDOW_CLAMP, and with a receive buffer in
    /// which half as much can wait besides.
    fn limit_window(&mut self) {
        if self.yields
            && let Some(window) = self.ledger.window_bytes(RELAY, 1.0)
        {
            let room = (window / 2 * 3).saturating_sub(self.lent.lender.readable_bytes());
            self.lent.lender.limit_window(window.min(room));
        }
    }

    /// Mbit/s of payload, own and lent, and the 95th percentile of round trips, of a time from now.
    fn measure(&mut self, time: Duration) -> (f64, f64, Duration) {
        let (own, lent, begun) = (self.own.read, self.lent.read, self.now);
        self.pings.clear();
        self.run(time);
        let rate = |bytes| BitRate::over(bytes, self.now.since(begun)).mbps();
        let mut pings: Vec<_> = self.pings.iter().map(|p| p.1).collect();
        pings.sort();
        let at = pings.len() * 95 / 100;
        let measured = (
            rate(self.own.read - own),
            rate(self.lent.read - lent),
            pings[at],
        );
        eprintln!(
            "own {:.2}, lent {:.2} Mbit/s, pings {:?}",
            measured.0, measured.1, measured.2
        );
        measured
    }
}

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Payload of 20 Mbit/s.
const FULL: f64 = 20.0 * 1448.0 / 1500.0;
const IDLE: Duration = Duration::from_millis(40);

#[test]
fn an_idle_lender_lends_97_percent_without_a_queue() {
    let mut world = World::new(true);
    world.run(s(5));
    let (_, lent, ping) = world.measure(s(30));
    assert!(lent >= 0.97 * FULL, "{lent}");
    assert!(ping <= IDLE + Duration::from_millis(20), "{ping:?}");
}

#[test]
fn an_own_download_has_95_percent() {
    for (yields, most) in [(false, 0.7), (true, 1.0)] {
        let mut world = World::new(yields);
        world.run(s(5));
        world.owner_transfers = true;
        world.run(s(6));
        let (own, ..) = world.measure(s(20));
        assert!(own <= most * FULL, "{own}");
        if yields {
            assert!(own >= 0.95 * FULL, "{own}");
        }
        // It is lent again soon.
        world.owner_transfers = false;
        world.run(s(2));
        let (_, lent, _) = world.measure(s(10));
        assert!(lent >= 0.95 * FULL, "{lent}");
    }
}

#[test]
fn an_own_upload_has_95_percent() {
    for (yields, most) in [(false, 0.7), (true, 1.0)] {
        let mut world = World::uploading(yields, Duration::ZERO);
        world.run(s(5));
        let (_, lent, ping) = world.measure(s(10));
        assert!(lent >= 0.97 * FULL, "{lent}");
        assert_eq!(yields, ping <= IDLE + Duration::from_millis(50), "{ping:?}");
        world.owner_transfers = true;
        world.run(s(9));
        let (own, ..) = world.measure(s(20));
        assert!(own <= most * FULL, "{own}");
        if yields {
            assert!(own >= 0.95 * FULL, "{own}");
        }
    }
}

#[test]
fn a_link_that_changes_is_followed() {
    let mut world = World::new(true);
    world.run(s(5));
    for mbps in [5.0, 40.0, 20.0] {
        let change = LinkChange::rate(Rate::Constant(BitRate::from_mbps(mbps)));
        world.down.apply(world.now, &change);
        world.run(s(8));
        let (_, lent, ping) = world.measure(s(10));
        assert!(lent >= 0.95 * FULL * mbps / 20.0, "{lent} of {mbps}");
        assert!(ping <= IDLE + Duration::from_millis(20), "{ping:?}");
    }
}

/// As of a mobile network.
#[test]
fn a_delay_that_varies_is_no_queue() {
    let mut world = World::with_jitter(true, Duration::from_millis(30));
    world.run(s(5));
    let (_, lent, _) = world.measure(s(30));
    assert!(lent >= 0.9 * FULL, "{lent}");
    world.owner_transfers = true;
    world.run(s(6));
    let (own, ..) = world.measure(s(20));
    assert!(own >= 0.95 * FULL, "{own}");
}

#[test]
fn so_it_is_for_uploads() {
    let mut world = World::uploading(true, Duration::from_millis(20));
    world.run(s(5));
    let (_, lent, _) = world.measure(s(30));
    assert!(lent >= 0.85 * FULL, "{lent}");
}

/// An own upload that fills the other direction's queue, and a route that becomes longer.
#[test]
fn a_round_trip_that_is_longer_for_another_reason_is_taken_as_it_is() {
    let mut world = World::new(true);
    world.run(s(5));
    world.owner_uploads = true;
    world.run(s(25));
    let (_, lent, _) = world.measure(s(10));
    assert!(lent >= 0.8 * FULL, "{lent}");
    world.owner_uploads = false;
    world.run(s(3));
    let longer = LinkChange {
        delay: Some(DELAY * 3),
        ..LinkChange::default()
    };
    world.down.apply(world.now, &longer);
    world.run(s(8));
    let (_, lent, _) = world.measure(s(20));
    assert!(lent >= 0.9 * FULL, "{lent}");
}
