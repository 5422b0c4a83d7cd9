//! The player: link models in real time, between the hosts' devices.
//!
//! One thread owns both devices of every shaped link. What a host sends comes
//! out of its device, waits in the pure model ([`mpbond_sim::link::Link`]) and
//! goes into the other host's device when the model says so. The thread sleeps
//! in `ppoll` until the next due time or packet, or for a moment where there
//! are many (`rest.rs`); it never spins. It measures how late it released each
//! packet, so that a run on a machine too busy to keep time can be told from a
//! good one.

mod background;
mod engine;
mod packet_log;
pub(crate) mod pcap;
mod rest;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mpbond_sim::link::{LinkChange, LinkConfig, LinkStats, Shared};
use mpbond_units::Timestamp;
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::device::Device;
use crate::error::{Doing, Error, Result};
use crate::experiment::Direction;
use engine::{Command, Engine, Files};

pub(crate) use engine::restoring;

/// A clock of the lab's own: nanoseconds since it was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// What it shows.
    pub fn now(self) -> Timestamp {
        Timestamp::ZERO + self.0.elapsed()
    }
}

/// A shaped link, ready to be played.
pub struct PlayedLink {
    /// Name in the experiment.
    pub name: String,
    /// The near host's device.
    pub near: Device,
    /// The far host's.
    pub far: Device,
    /// The model from far to near.
    pub down: LinkConfig,
    /// The model from near to far.
    pub up: LinkConfig,
    /// What it shares with others, or its directions with each other.
    pub shared: Shared,
}

/// What is written down of every packet.
#[derive(Debug, Clone, Default)]
pub struct Logs {
    /// A file for the packet log, as CSV.
    pub packets: Option<PathBuf>,
    /// A folder, made when absent, for one capture a link (`LINK.pcap`): what
    /// the near host's device sends and receives.
    pub pcap: Option<PathBuf>,
}

/// A change of one direction of a link, so long after [`Player::begin`].
#[derive(Debug, Clone)]
pub struct TimedChange {
    /// When.
    pub at: Duration,
    /// Name of the link.
    pub link: String,
    /// Which direction.
    pub direction: Direction,
    /// What changes.
    pub change: LinkChange,
    /// Whether the device at whose host this direction ends has a carrier from
    /// now on; `None`: as before.
    pub carrier: Option<bool>,
}

/// A packet that a link carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Number of the link, in the order in which they were given.
    pub link: usize,
    /// Which way it went.
    pub direction: Direction,
    /// IP bytes.
    pub bytes: u32,
    /// When its last bit left the queue.
    pub departed: Timestamp,
    /// When it reached the far end.
    pub arrived: Timestamp,
}

/// How well the player kept time since [`Player::begin`].
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// Packets released.
    pub packets: u64,
    /// Median of release time after due time.
    pub lateness_p50: Duration,
    /// Its 99th percentile.
    pub lateness_p99: Duration,
    /// Its maximum.
    pub lateness_max: Duration,
    /// Packets that a device refused, or that came faster than they were read.
    pub lost: u64,
    /// Whether the player ran with real-time priority.
    pub realtime: bool,
    /// Processor time that the player used.
    pub cpu: Duration,
}

/// Handle on the thread that plays the links.
pub struct Player {
    clock: Clock,
    links: Vec<String>,
    commands: Sender<Command>,
    wake: Arc<EventFd>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Player {
    /// Starts playing. `seed` fixes losses and jitter.
    ///
    /// # Errors
    /// When the thread or a log cannot be started.
    pub fn start(links: Vec<PlayedLink>, clock: Clock, seed: u64, logs: &Logs) -> Result<Self> {
        let files = Files::create(logs, &links)?;
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let wake = EventFd::from_flags(flags).doing("cannot make an event")?;
        let wake = Arc::new(wake);
        let (commands, receiver) = channel();
        let names = links.iter().map(|link| link.name.clone()).collect();
        let engine = Engine::new(links, clock, seed, files, wake.clone(), receiver);
        let thread = std::thread::Builder::new()
            .name("link-player".into())
            .spawn(move || engine.run())
            .doing("cannot start the link player")?;
        Ok(Self {
            clock,
            links: names,
            commands,
            wake,
            thread: Some(thread),
        })
    }

    /// What the player's clock shows.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The names of the links, in the order in which they were given.
    pub fn links(&self) -> &[String] {
        &self.links
    }

    fn send(&self, command: Command) -> Result<()> {
        let gone = |_| Error::run("the link player has stopped");
        self.commands.send(command).map_err(gone)?;
        self.wake.write(1).doing("cannot wake the link player")?;
        Ok(())
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T> {
        let (answer, receiver) = channel();
        self.send(command(answer))?;
        let gone = |_| Error::run("the link player has stopped");
        receiver.recv().map_err(gone)
    }

    /// Makes everything as at the start: links as the experiment says, radios
    /// at rest.
    ///
    /// # Errors
    /// When the player has stopped.
    pub fn reset(&self) -> Result<()> {
        self.ask(Command::Reset)
    }

    /// A transfer begins: every link is as the experiment says again, its
    /// schedules and recordings start, and lateness is counted anew. Radios
    /// stay as what has passed since [`Player::reset`] left them. `changes`
    /// follow.
    ///
    /// # Errors
    /// When the player has stopped.
    pub fn begin(&self, changes: Vec<TimedChange>) -> Result<()> {
        self.ask(|done| Command::Begin(changes, done))
    }

    /// Changes one direction of a link now.
    ///
    /// # Errors
    /// When the player has stopped.
    pub fn change(&self, link: &str, direction: Direction, change: LinkChange) -> Result<()> {
        self.send(Command::Change(TimedChange {
            at: Duration::ZERO,
            link: link.to_owned(),
            direction,
            change,
            carrier: None,
        }))
    }

    /// How well time was kept since [`Player::begin`].
    ///
    /// # Errors
    /// When the player has stopped.
    pub fn conditions(&self) -> Result<Conditions> {
        self.ask(Command::Conditions)
    }

    /// The packets that the links carried since [`Player::begin`], in order of
    /// arrival on each; the first four million of them.
    ///
    /// # Errors
    /// When the player has stopped.
    pub fn passed(&self) -> Result<Vec<Passed>> {
        self.ask(Command::Passed)
    }

    /// What each direction of each link did since the start.
    ///
    /// # Errors
    /// When the player has stopped.
    pub fn stats(&self) -> Result<Vec<(String, Direction, LinkStats)>> {
        self.ask(Command::Stats)
    }

    /// Stops playing; the devices go away.
    ///
    /// # Errors
    /// When the player failed, or the packet log could not be written.
    pub fn stop(mut self) -> Result<()> {
        self.send(Command::Stop)?;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            _ => Err(Error::run("the link player panicked")),
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.send(Command::Stop);
    }
}
