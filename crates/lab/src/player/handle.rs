//! Handle on the thread of the link player.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use mpbond_sim::link::{LinkChange, LinkStats};
use mpbond_units::Timestamp;
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::clock::Clock;
use super::engine::{Command, Engine, Files};
use super::link::{Emulated, Logs, TimedChange};
use super::observed::{Conditions, Passed};
use crate::error::{Doing, Error, Result};
use crate::experiment::Direction;

/// Handle on the thread of the link player.
pub struct Player {
    clock: Clock,
    links: Vec<String>,
    commands: Sender<Command>,
    wake: Arc<EventFd>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Player {
    /// Starts the player. `seed` determines losses and jitter.
    ///
    /// # Errors
    /// When the thread or a log cannot be started.
    pub fn start(links: impl Into<Emulated>, clock: Clock, seed: u64, logs: &Logs) -> Result<Self> {
        let Emulated { links, bluetooth } = links.into();
        let files = Files::create(logs, &links)?;
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let wake = EventFd::from_flags(flags).doing("cannot make an event")?;
        let wake = Arc::new(wake);
        let (commands, receiver) = channel();
        let names = links.iter().map(|link| link.name.clone());
        let names = names.chain(bluetooth.iter().map(|link| link.name.clone()));
        let names = names.collect();
        let links = Emulated { links, bluetooth };
        let engine = Engine::new(links, clock, seed, files, wake.clone(), receiver)?;
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

    /// Time of the player's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Names of the links, in the order of [`Player::start`].
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

    /// Restores links to the experiment's values, and radios to rest.
    ///
    /// # Errors
    /// When the player has stopped.
    pub fn reset(&self) -> Result<()> {
        self.ask(Command::Reset)
    }

    /// Begins a transfer: restores links, starts their schedules and recordings, and resets the
    /// accounts of lateness and packets. Radios keep the state that traffic since [`Player::reset`]
    /// left them in. `changes` follow at their times.
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

    /// Timing of the player since [`Player::begin`].
    ///
    /// # Errors
    /// When the player has stopped.
    pub fn conditions(&self) -> Result<Conditions> {
        self.ask(Command::Conditions)
    }

    /// Packets carried since [`Player::begin`], in order of arrival on each link; at most the first
    /// four million.
    ///
    /// # Errors
    /// When the player has stopped.
    pub fn passed(&self) -> Result<Vec<Passed>> {
        self.ask(Command::Passed)
    }

    /// Counters of each direction of each link since the start.
    ///
    /// # Errors
    /// When the player has stopped.
    pub fn stats(&self) -> Result<Vec<(String, Direction, LinkStats)>> {
        self.ask(Command::Stats)
    }

    /// Stops the player and removes the devices.
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
