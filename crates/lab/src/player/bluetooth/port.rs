//! A Bluetooth link with its channels.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpbond_radio::machine::Band;
use mpbond_sim::link::{NEAR_DBM, Rfcomm, SOCKET_BYTES, packet_loss};
use mpbond_units::Timestamp;
use nix::poll::{PollFd, PollFlags};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use super::PlayedBluetooth;
use super::channel::{Channel, is_passing};
use crate::error::{Doing, Result};

/// Channels of a link: RFCOMM has 30 for each direction of connecting.
const MAX_CHANNELS: usize = 30;
/// Pause after an error of accept(2), such as a lack of descriptors, which may last.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Strength of the signal of devices out of range of each other, in dBm.
const OUT_OF_RANGE_DBM: f64 = -200.0;

/// A link that is played. Times are those of the player's clock.
pub(in super::super) struct Port {
    name: String,
    listener: UnixListener,
    to: PathBuf,
    rfcomm: Rfcomm,
    channels: Vec<Channel>,
    /// Nothing is accepted until then.
    paused: Option<Timestamp>,
    schedule: Vec<(Duration, f64)>,
    /// Pending strengths of the signal, the next one last.
    agenda: Vec<(Timestamp, f64)>,
    dbm: f64,
    /// The devices are in range.
    up: bool,
}

/// Result of a turn.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Turn {
    /// Bytes that arrived at the far and at the near program.
    pub arrived: [u64; 2],
    /// Time since the event of the model that was due first.
    pub late: Option<Duration>,
}

impl Port {
    pub fn new(link: PlayedBluetooth, seed: u64) -> Result<Self> {
        link.listener
            .set_nonblocking(true)
            .doing("cannot prepare the socket of a Bluetooth link")?;
        Ok(Self {
            name: link.name,
            listener: link.listener,
            to: link.to,
            rfcomm: Rfcomm::new(&link.wearable, &link.phone, seed),
            channels: Vec::new(),
            paused: None,
            schedule: link.signal,
            agenda: Vec::new(),
            dbm: NEAR_DBM,
            up: true,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes the link up, or down: silently, or so that both programs see all channels end.
    pub fn set_up(&mut self, now: Timestamp, up: bool, silently: bool, band: Option<&mut Band>) {
        self.up = up;
        self.set_signal(now, band);
        if !up && !silently {
            self.rfcomm.disconnect();
            self.channels.clear();
        }
    }

    /// Begins the schedule of the signal anew.
    pub fn restore(&mut self, now: Timestamp, band: Option<&mut Band>) {
        let agenda = self.schedule.iter();
        self.agenda = agenda.map(|(at, dbm)| (now + *at, *dbm)).rev().collect();
        self.dbm = NEAR_DBM;
        self.set_up(now, true, true, band);
    }

    fn set_signal(&mut self, now: Timestamp, band: Option<&mut Band>) {
        let dbm = if self.up { self.dbm } else { OUT_OF_RANGE_DBM };
        self.rfcomm.handle(now, band);
        self.rfcomm.set_signal(now, dbm);
    }

    fn is_silent(&self) -> bool {
        packet_loss(self.rfcomm.signal_dbm()) >= 1.0
    }

    /// Time of the next turn, unless a socket is ready before.
    pub fn next_event(&self) -> Option<Timestamp> {
        let signal = self.agenda.last().map(|(at, _)| *at);
        let other = signal.into_iter().chain(self.paused);
        self.rfcomm.next_event().into_iter().chain(other).min()
    }

    /// Does everything that is due by `now`. `band` is the one that WiFi of the same antenna uses.
    pub fn turn(&mut self, now: Timestamp, mut band: Option<&mut Band>) -> Turn {
        let mut turn = Turn {
            late: self.rfcomm.next_event().and_then(|at| {
                let due = at <= now;
                due.then(|| now.since(at))
            }),
            ..Turn::default()
        };
        while let Some((at, dbm)) = self.agenda.pop_if(|(at, _)| *at <= now) {
            self.dbm = dbm;
            self.set_signal(at, band.as_deref_mut());
        }
        self.rfcomm.handle(now, band.as_deref_mut());
        while self.rfcomm.poll_request().is_some() {}
        self.accept(now);
        for channel in &mut self.channels {
            let band = band.as_deref_mut();
            channel.turn(now, &mut self.rfcomm, &mut turn.arrived, band);
        }
        // Devices out of range of each other cannot tell that a channel is closed.
        if self.rfcomm.is_lost() {
            self.channels.clear();
        } else if !self.is_silent() {
            let finished = |c: &mut Channel| c.is_finished();
            for channel in self.channels.extract_if(.., finished) {
                self.rfcomm.close(channel.id());
            }
        }
        turn
    }

    fn accept(&mut self, now: Timestamp) {
        self.paused.take_if(|until| *until <= now);
        while self.channels.len() < MAX_CHANNELS && self.paused.is_none() {
            let near = match self.listener.accept() {
                Ok((near, _)) => near,
                Err(e) if is_passing(e.kind()) => break,
                // The listener stays ready: its connection is still there.
                Err(_) => {
                    self.paused = Some(now + ACCEPT_PAUSE);
                    break;
                }
            };
            if self.rfcomm.is_lost() {
                if self.is_silent() {
                    continue;
                }
                self.rfcomm.reconnect();
            }
            // A far program that does not listen refuses the connection.
            let ends = prepared(near).and_then(|near| Ok((near, connect(&self.to)?)));
            if let Ok((near, far)) = ends {
                self.channels
                    .push(Channel::new(self.rfcomm.open(), near, far));
            }
        }
    }

    /// Adds the sockets that a turn waits for.
    pub fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        if self.channels.len() < MAX_CHANNELS && self.paused.is_none() {
            fds.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
        }
        for channel in &self.channels {
            channel.watch(&self.rfcomm, fds);
        }
    }
}

/// A connection to a program, which never blocks.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.connect(&SockAddr::unix(path)?)?;
    prepared(UnixStream::from(socket))
}

/// Bounds what waits in a socket for a program: the receive buffer of a channel.
fn prepared(stream: UnixStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    SockRef::from(&stream).set_send_buffer_size(SOCKET_BYTES as usize)?;
    Ok(stream)
}
