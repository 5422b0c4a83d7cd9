//! Thread of the link player.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use hdrhistogram::Histogram;
use mpbond_sim::link::{
    Delivered, DropReason, Dropped, Link, LinkChange, LinkConfig, LinkStats, Models, Seat,
};
use mpbond_units::Timestamp;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;

use super::bluetooth::Port;
use super::clock::Clock;
use super::link::{Emulated, Logs, PlayedLink, TimedChange};
use super::observed::{Conditions, Passed};
use super::packet_log::{Flow, PacketLog, Record};
use super::pcap::{self, Captured, Pcap};
use super::rest::{REST, Rests};
use crate::error::{Doing, Result};
use crate::experiment::Direction;
use crate::network::device::Device;
use crate::sys;

/// Maximum number of packets read from one device before the next device is served and due packets
/// are released: a quarter of a millisecond with eight links full in both directions.
const READ_BURST: usize = 16;
/// MTU of all devices, and spare room.
const PACKET_BYTES: usize = 2048;
/// Maximum number of packets kept for the accounts of a transfer: 160 MB of memory, 6 GB of
/// traffic.
const MAX_PASSED: usize = 4_000_000;

pub(super) enum Command {
    Reset(Sender<()>),
    Begin(Vec<TimedChange>, Sender<()>),
    Change(TimedChange),
    Conditions(Sender<Conditions>),
    Passed(Sender<Vec<Passed>>),
    Stats(Sender<Vec<(String, Direction, LinkStats)>>),
    Stop,
}

/// A direction of a link. Its packets come from the device with the lane's own number and go to
/// device `to`.
struct Lane {
    name: Arc<str>,
    direction: Direction,
    seat: Seat,
    /// Change that restores the model to the experiment's values.
    restore: LinkChange,
    to: usize,
    /// Whether the device at its end has a carrier.
    carrier: bool,
    /// Index of the link's capture in [`Files::pcaps`].
    pcap: usize,
}

/// Logs of packets.
#[derive(Default)]
pub(super) struct Files {
    log: Option<PacketLog>,
    /// One for each link, or none.
    pcaps: Vec<Pcap>,
}

impl Files {
    pub fn create(logs: &Logs, links: &[PlayedLink]) -> Result<Self> {
        let log = logs.packets.as_deref().map(PacketLog::create).transpose()?;
        let mut pcaps = Vec::new();
        if let Some(folder) = &logs.pcap {
            std::fs::create_dir_all(folder).at("make", folder)?;
            for link in links {
                pcaps.push(pcap::create(folder, &link.name)?);
            }
        }
        Ok(Self { log, pcaps })
    }

    fn finish(self) -> Result<()> {
        let pcaps = self.pcaps.into_iter().map(Pcap::finish);
        // All are finished, even after an error.
        let done: Vec<Result<()>> = pcaps.chain(self.log.map(PacketLog::finish)).collect();
        done.into_iter().collect()
    }
}

pub(super) struct Engine {
    clock: Clock,
    devices: Vec<Device>,
    lanes: Vec<Lane>,
    models: Models<Vec<u8>>,
    bluetooth: Vec<Port>,
    /// Pending changes, the next one last.
    agenda: Vec<(Timestamp, TimedChange)>,
    /// Unused packet buffers.
    pool: Vec<Vec<u8>>,
    files: Files,
    passed: Vec<Passed>,
    wake: Arc<EventFd>,
    commands: Receiver<Command>,
    lateness_ns: Histogram<u64>,
    lost: u64,
    realtime: bool,
    /// Processor time of this thread at the last `Begin`.
    cpu_before: Duration,
}

impl Engine {
    pub fn new(
        emulated: Emulated,
        clock: Clock,
        seed: u64,
        files: Files,
        wake: Arc<EventFd>,
        commands: Receiver<Command>,
    ) -> Result<Self> {
        let mut devices = Vec::new();
        let mut lanes = Vec::new();
        let mut models = Models::default();
        let start = clock.now();
        for (pcap, link) in emulated.links.into_iter().enumerate() {
            let (near, far) = (devices.len(), devices.len() + 1);
            devices.extend([link.near, link.far]);
            let name: Arc<str> = link.name.into();
            // Each lane draws losses from a seed of its own.
            let seed = seed
                .wrapping_mul(1_000_003)
                .wrapping_add(lanes.len() as u64);
            let restores = [restoring(&link.up), restoring(&link.down)];
            let [up, down] = [(link.up, seed), (link.down, seed.wrapping_add(1))]
                .map(|(config, seed)| Link::starting_at(config, seed, start));
            let seats = models.add(&name, &link.shared, up, down);
            // In the order of devices: packets up come from the near one.
            let ends = [(Direction::Up, far), (Direction::Down, near)];
            for (((direction, to), seat), restore) in ends.into_iter().zip(seats).zip(restores) {
                lanes.push(Lane {
                    name: name.clone(),
                    direction,
                    seat,
                    restore,
                    to,
                    carrier: true,
                    pcap,
                });
            }
        }
        let bluetooth = (seed..).zip(emulated.bluetooth);
        let bluetooth = bluetooth.map(|(seed, link)| Port::new(link, seed));
        Ok(Self {
            clock,
            devices,
            lanes,
            models,
            bluetooth: bluetooth.collect::<Result<_>>()?,
            agenda: Vec::new(),
            pool: Vec::new(),
            files,
            passed: Vec::new(),
            wake,
            commands,
            lateness_ns: lateness_histogram(),
            lost: 0,
            realtime: false,
            cpu_before: Duration::ZERO,
        })
    }

    pub fn run(mut self) -> Result<()> {
        self.realtime = sys::sched::become_fifo().is_ok();
        // Real-time threads have no timer slack; others would be up to 50 us late.
        nix::sys::prctl::set_timerslack(1).doing("cannot set the timer slack")?;
        let mut rests = Rests::default();
        loop {
            let now = self.clock.now();
            self.follow_agenda(now);
            let taken = self.take_in_all();
            let released = self.release() + self.play_bluetooth();
            if !self.obey() {
                break;
            }
            if rests.after(now, taken + released) {
                std::thread::sleep(REST);
            } else {
                self.sleep_until(self.next_event())?;
            }
        }
        self.files.finish()
    }

    fn next_event(&self) -> Option<Timestamp> {
        let agenda = self.agenda.last().map(|(at, _)| *at);
        let bluetooth = self.bluetooth.iter().filter_map(Port::next_event);
        let own = self.models.next_event().into_iter().chain(agenda);
        own.chain(bluetooth).min()
    }

    /// Sleeps until `next`, or until a packet or a command arrives.
    fn sleep_until(&self, next: Option<Timestamp>) -> Result<()> {
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = vec![readable(self.wake.as_fd())];
        fds.extend(self.devices.iter().map(|d| readable(d.as_fd())));
        for port in &self.bluetooth {
            port.watch(&mut fds);
        }
        let timeout = next.map(|next| TimeSpec::from(next - self.clock.now()));
        match ppoll(&mut fds, timeout, None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e).doing("the link player cannot sleep"),
        }
        if fds[0].any().unwrap_or(false) {
            let _ = self.wake.read();
        }
        Ok(())
    }

    /// Passes packets from the hosts to the models; returns their number.
    fn take_in_all(&mut self) -> usize {
        (0..self.devices.len()).map(|d| self.take_in(d)).sum()
    }

    fn take_in(&mut self, device: usize) -> usize {
        let lane = device; // see `Lane`
        let now = self.clock.now();
        for taken in 0..READ_BURST {
            let mut packet = self.pool.pop().unwrap_or_default();
            packet.resize(PACKET_BYTES, 0);
            match self.devices[device].read(&mut packet) {
                Ok(length) if length > 0 => {
                    packet.truncate(length);
                    if self.lanes[lane].direction == Direction::Up {
                        self.capture(lane, now, &packet);
                    }
                    let seat = self.lanes[lane].seat;
                    let bytes = packet.len() as u32;
                    if let Err(Dropped { packet, reason }) =
                        self.models.enqueue(seat, now, bytes, packet)
                    {
                        self.log_drop(lane, now, &packet, reason);
                        self.pool.push(packet);
                    }
                }
                _ => {
                    self.pool.push(packet);
                    return taken;
                }
            }
        }
        READ_BURST
    }

    /// Passes due packets to the hosts; returns their number.
    fn release(&mut self) -> usize {
        let mut packets = 0;
        for lane in 0..self.lanes.len() {
            let now = self.clock.now();
            while let Some(delivered) = self.models.poll(self.lanes[lane].seat, now) {
                let released = self.clock.now();
                let late = released - delivered.arrived;
                self.lateness_ns
                    .saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
                let to = self.lanes[lane].to;
                // The device is down, or its queue is full: a loss that the model did not decide.
                if self.devices[to].write(&delivered.packet).is_err() {
                    // Without a carrier, the experiment decided it.
                    self.lost += u64::from(self.lanes[lane].carrier);
                } else if self.lanes[lane].direction == Direction::Down {
                    self.capture(lane, released, &delivered.packet);
                }
                self.note_passing(lane, &delivered);
                self.log_delivery(lane, &delivered);
                self.pool.push(delivered.packet);
                packets += 1;
            }
        }
        packets
    }

    /// Plays Bluetooth links; returns the number of directions in which bytes arrived.
    fn play_bluetooth(&mut self) -> usize {
        let mut portions = 0;
        for (number, port) in self.bluetooth.iter_mut().enumerate() {
            let now = self.clock.now();
            let turn = port.turn(now, self.models.band(now));
            if let Some(late) = turn.late {
                self.lateness_ns
                    .saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
            }
            for (direction, bytes) in [Direction::Up, Direction::Down]
                .into_iter()
                .zip(turn.arrived)
            {
                if bytes == 0 {
                    continue;
                }
                portions += 1;
                if self.passed.len() < MAX_PASSED {
                    self.passed.push(Passed {
                        link: self.lanes.len() / 2 + number, // see `Emulated`
                        direction,
                        bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
                        departed: now,
                        arrived: now,
                    });
                }
            }
        }
        portions
    }

    fn follow_agenda(&mut self, now: Timestamp) {
        while let Some((_, change)) = self.agenda.pop_if(|(at, _)| *at <= now) {
            self.apply(now, &change);
        }
    }

    fn apply(&mut self, now: Timestamp, change: &TimedChange) {
        for port in &mut self.bluetooth {
            // Both directions go down and up together.
            if port.name() == change.link
                && change.direction == Direction::Down
                && let Some(up) = change.change.up
            {
                port.set_up(now, up, change.carrier.is_none(), self.models.band(now));
            }
        }
        for lane in 0..self.lanes.len() {
            let Lane {
                name,
                direction,
                seat,
                ..
            } = &self.lanes[lane];
            if **name == *change.link && *direction == change.direction {
                self.models.apply(*seat, now, &change.change);
                if let Some(carrier) = change.carrier {
                    self.set_carrier(lane, carrier);
                }
            }
        }
    }

    /// Sets the carrier of the device at the end of `lane`.
    fn set_carrier(&mut self, lane: usize, carrier: bool) {
        let lane = &mut self.lanes[lane];
        if lane.carrier == carrier {
            return;
        }
        match self.devices[lane.to].set_carrier(carrier) {
            Ok(()) => lane.carrier = carrier,
            // The link is down in any case; this reports that the host does not see it.
            Err(e) => eprintln!("mpbond: link {}: cannot set its carrier: {e}", lane.name),
        }
    }

    /// Restores every link to its configuration.
    fn restore(&mut self, now: Timestamp) {
        for port in &mut self.bluetooth {
            port.restore(now, self.models.band(now));
        }
        for lane in 0..self.lanes.len() {
            self.set_carrier(lane, true);
            let lane = &self.lanes[lane];
            self.models.apply(lane.seat, now, &lane.restore);
        }
    }

    /// Handles pending commands; returns `false` on a stop.
    fn obey(&mut self) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Reset(done) => {
                    self.agenda.clear();
                    self.restore(self.clock.now());
                    self.models.rest_radios();
                    let _ = done.send(());
                }
                Command::Begin(changes, done) => {
                    let now = self.clock.now();
                    self.restore(now);
                    self.agenda = changes.into_iter().map(|c| (now + c.at, c)).collect();
                    // Simultaneous changes keep the given order.
                    self.agenda.reverse();
                    self.agenda.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
                    self.lateness_ns = lateness_histogram();
                    self.count_lost();
                    self.lost = 0;
                    self.passed.clear();
                    self.cpu_before = cpu_used();
                    let _ = done.send(());
                }
                Command::Change(change) => self.apply(self.clock.now(), &change),
                Command::Conditions(answer) => {
                    self.count_lost();
                    let _ = answer.send(self.conditions());
                }
                Command::Passed(answer) => {
                    let _ = answer.send(self.passed.clone());
                }
                Command::Stats(answer) => {
                    let stats = self
                        .lanes
                        .iter()
                        .map(|l| (l.name.to_string(), l.direction, self.models.stats(l.seat)))
                        .collect();
                    let _ = answer.send(stats);
                }
                Command::Stop => return false,
            }
        }
        true
    }

    fn count_lost(&mut self) {
        self.lost += self.devices.iter().map(Device::lost).sum::<u64>();
    }

    fn conditions(&self) -> Conditions {
        let at = |q: f64| Duration::from_nanos(self.lateness_ns.value_at_quantile(q));
        Conditions {
            packets: self.lateness_ns.len(),
            lateness_p50: at(0.5),
            lateness_p99: at(0.99),
            lateness_max: Duration::from_nanos(self.lateness_ns.max()),
            lost: self.lost,
            realtime: self.realtime,
            cpu: cpu_used().saturating_sub(self.cpu_before),
        }
    }

    fn note_passing(&mut self, lane: usize, delivered: &Delivered<Vec<u8>>) {
        if self.passed.len() < MAX_PASSED {
            self.passed.push(Passed {
                link: lane / 2, // see `Engine::new`
                direction: self.lanes[lane].direction,
                bytes: delivered.bytes,
                departed: delivered.departed,
                arrived: delivered.arrived,
            });
        }
    }

    /// Captures a packet sent or received by the near host's device.
    fn capture(&mut self, lane: usize, at: Timestamp, packet: &[u8]) {
        if let Some(pcap) = self.files.pcaps.get_mut(self.lanes[lane].pcap) {
            pcap.push(Captured {
                at,
                packet: packet.to_vec(),
            });
        }
    }

    fn log_delivery(&mut self, lane: usize, delivered: &Delivered<Vec<u8>>) {
        if let Some(log) = &mut self.files.log {
            let lane = &self.lanes[lane];
            log.push(Record {
                enqueued: delivered.enqueued,
                departed: Some(delivered.departed),
                link: lane.name.clone(),
                direction: lane.direction,
                bytes: delivered.bytes,
                flow: Flow::of(&delivered.packet),
                dropped: None,
            });
        }
    }

    fn log_drop(&mut self, lane: usize, now: Timestamp, packet: &[u8], reason: DropReason) {
        if let Some(log) = &mut self.files.log {
            let lane = &self.lanes[lane];
            log.push(Record {
                enqueued: now,
                departed: None,
                link: lane.name.clone(),
                direction: lane.direction,
                bytes: packet.len() as u32,
                flow: Flow::of(packet),
                dropped: Some(reason),
            });
        }
    }
}

/// Processor time of the calling thread; zero where the kernel does not report it.
fn cpu_used() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    clock.now().map(Duration::from).unwrap_or_default()
}

/// The change that restores a link to its configuration. Schedules and recordings start over.
pub(crate) fn restoring(config: &LinkConfig) -> LinkChange {
    LinkChange {
        rate: Some(config.rate.clone()),
        delay: Some(config.delay),
        jitter: Some(config.jitter),
        queue: Some(config.queue),
        loss: Some(config.loss),
        burst_loss: Some(config.burst_loss),
        up: Some(true),
    }
}

/// A histogram up to ten seconds, with three digits.
fn lateness_histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, 10_000_000_000, 3) {
        Ok(histogram) => histogram,
        Err(_) => unreachable!("the bounds are constants"),
    }
}
