//! The player's thread.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use hdrhistogram::Histogram;
use mpbond_sim::link::{Delivered, DropReason, Dropped, Link, LinkChange, LinkConfig, LinkStats};
use mpbond_units::Timestamp;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;

use super::packet_log::{Flow, PacketLog, Record};
use super::{Clock, Conditions, PlayedLink, TimedChange};
use crate::device::Device;
use crate::error::{Doing, Result};
use crate::experiment::Direction;
use crate::sys;

/// Packets read from one device before the others get a turn.
const READ_BURST: usize = 32;
/// The MTU of every device, and a little room.
const PACKET_BYTES: usize = 2048;

pub(super) enum Command {
    Begin(Vec<TimedChange>, Sender<()>),
    Change(TimedChange),
    Conditions(Sender<Conditions>),
    Stats(Sender<Vec<(String, Direction, LinkStats)>>),
    Stop,
}

/// One direction of a link. Its packets come out of the device that has the
/// lane's own number and go into device `to`.
struct Lane {
    name: Arc<str>,
    direction: Direction,
    model: Link<Vec<u8>>,
    /// Brings the model back to what the experiment says.
    restore: LinkChange,
    to: usize,
}

pub(super) struct Engine {
    clock: Clock,
    devices: Vec<Device>,
    lanes: Vec<Lane>,
    /// Changes still to come, the next one last.
    agenda: Vec<(Timestamp, TimedChange)>,
    /// Buffers not in use.
    pool: Vec<Vec<u8>>,
    log: Option<PacketLog>,
    wake: Arc<EventFd>,
    commands: Receiver<Command>,
    lateness_ns: Histogram<u64>,
    lost: u64,
    realtime: bool,
    /// This thread's processor time at the last `Begin`.
    cpu_before: Duration,
}

impl Engine {
    pub fn new(
        links: Vec<PlayedLink>,
        clock: Clock,
        seed: u64,
        log: Option<PacketLog>,
        wake: Arc<EventFd>,
        commands: Receiver<Command>,
    ) -> Self {
        let mut devices = Vec::new();
        let mut lanes = Vec::new();
        for link in links {
            let (near, far) = (devices.len(), devices.len() + 1);
            devices.extend([link.near, link.far]);
            let name: Arc<str> = link.name.into();
            // In the order of the devices: up comes out of the near one.
            for (direction, config, to) in [
                (Direction::Up, link.up, far),
                (Direction::Down, link.down, near),
            ] {
                // Each lane draws its own losses.
                let seed = seed
                    .wrapping_mul(1_000_003)
                    .wrapping_add(lanes.len() as u64);
                lanes.push(Lane {
                    name: name.clone(),
                    direction,
                    restore: restoring(&config),
                    model: Link::starting_at(config, seed, clock.now()),
                    to,
                });
            }
        }
        Self {
            clock,
            devices,
            lanes,
            agenda: Vec::new(),
            pool: Vec::new(),
            log,
            wake,
            commands,
            lateness_ns: lateness_histogram(),
            lost: 0,
            realtime: false,
            cpu_before: Duration::ZERO,
        }
    }

    pub fn run(mut self) -> Result<()> {
        self.realtime = sys::sched::become_fifo().is_ok();
        // Real-time threads have no slack; others would be up to 50 us late.
        nix::sys::prctl::set_timerslack(1).doing("cannot set the timer slack")?;
        loop {
            let now = self.clock.now();
            self.follow_agenda(now);
            self.release();
            let next = self.next_event();
            let ready = self.sleep_until(next)?;
            for device in ready.devices {
                self.take_in(device);
            }
            if ready.command && !self.obey() {
                break;
            }
        }
        self.log.take().map_or(Ok(()), PacketLog::finish)
    }

    fn next_event(&self) -> Option<Timestamp> {
        let lanes = self.lanes.iter().filter_map(|l| l.model.next_event());
        let agenda = self.agenda.last().map(|(at, _)| *at);
        lanes.chain(agenda).min()
    }

    fn sleep_until(&self, next: Option<Timestamp>) -> Result<Ready> {
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = vec![readable(self.wake.as_fd())];
        fds.extend(self.devices.iter().map(|d| readable(d.as_fd())));
        let timeout = next.map(|next| TimeSpec::from(next - self.clock.now()));
        match ppoll(&mut fds, timeout, None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e).doing("the link player cannot sleep"),
        }
        let mut any = fds.iter().map(|fd| fd.any().unwrap_or(false));
        let command = any.next().unwrap_or(false);
        let devices = any
            .enumerate()
            .filter_map(|(device, ready)| ready.then_some(device))
            .collect();
        Ok(Ready { command, devices })
    }

    /// Offers what a host has sent to the link.
    fn take_in(&mut self, device: usize) {
        let lane = device; // see `Lane`
        for _ in 0..READ_BURST {
            let mut packet = self.pool.pop().unwrap_or_default();
            packet.resize(PACKET_BYTES, 0);
            match self.devices[device].read(&mut packet) {
                Ok(length) if length > 0 => {
                    packet.truncate(length);
                    let now = self.clock.now();
                    let bytes = length as u32;
                    let model = &mut self.lanes[lane].model;
                    if let Err(Dropped { packet, reason }) = model.enqueue(now, bytes, packet) {
                        self.log_drop(lane, now, &packet, reason);
                        self.pool.push(packet);
                    }
                }
                _ => {
                    self.pool.push(packet);
                    return;
                }
            }
        }
    }

    /// Hands on every packet that is due.
    fn release(&mut self) {
        for lane in 0..self.lanes.len() {
            let now = self.clock.now();
            while let Some(delivered) = self.lanes[lane].model.poll(now) {
                let late = self.clock.now() - delivered.arrived;
                self.lateness_ns
                    .saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
                let to = self.lanes[lane].to;
                // A device that is down or a queue that is full: the packet is
                // lost as on any network, but not by the model's choice.
                if self.devices[to].write(&delivered.packet).is_err() {
                    self.lost += 1;
                }
                self.log_delivery(lane, &delivered);
                self.pool.push(delivered.packet);
            }
        }
    }

    fn follow_agenda(&mut self, now: Timestamp) {
        while let Some((_, change)) = self.agenda.pop_if(|(at, _)| *at <= now) {
            self.apply(now, &change);
        }
    }

    fn apply(&mut self, now: Timestamp, change: &TimedChange) {
        for lane in &mut self.lanes {
            if *lane.name == *change.link && lane.direction == change.direction {
                lane.model.apply(now, &change.change);
            }
        }
    }

    /// Does what was asked; `false` when it is to stop.
    fn obey(&mut self) -> bool {
        let _ = self.wake.read();
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Begin(changes, done) => {
                    let now = self.clock.now();
                    for lane in &mut self.lanes {
                        lane.model.apply(now, &lane.restore);
                    }
                    self.agenda = changes.into_iter().map(|c| (now + c.at, c)).collect();
                    self.agenda.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
                    self.lateness_ns = lateness_histogram();
                    self.count_lost();
                    self.lost = 0;
                    self.cpu_before = cpu_used();
                    let _ = done.send(());
                }
                Command::Change(change) => self.apply(self.clock.now(), &change),
                Command::Conditions(answer) => {
                    self.count_lost();
                    let _ = answer.send(self.conditions());
                }
                Command::Stats(answer) => {
                    let stats = self
                        .lanes
                        .iter()
                        .map(|l| (l.name.to_string(), l.direction, l.model.stats()))
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

    fn log_delivery(&mut self, lane: usize, delivered: &Delivered<Vec<u8>>) {
        if let Some(log) = &mut self.log {
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
        if let Some(log) = &mut self.log {
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

struct Ready {
    command: bool,
    devices: Vec<usize>,
}

/// Processor time of the calling thread; zero where the kernel does not say.
fn cpu_used() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    clock.now().map(Duration::from).unwrap_or_default()
}

/// The change that makes a link what its configuration says. A schedule or
/// trace starts over with it.
fn restoring(config: &LinkConfig) -> LinkChange {
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

/// Up to ten seconds, to three digits.
fn lateness_histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, 10_000_000_000, 3) {
        Ok(histogram) => histogram,
        Err(_) => unreachable!("the bounds are constants"),
    }
}
