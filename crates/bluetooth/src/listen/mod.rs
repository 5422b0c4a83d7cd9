//! `mpbond bluetooth listen`: from devices to a Unix socket.

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use mpbond_command::Failure;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, SockAddr, Socket, Type};
use tracing::{debug, info, warn};

use crate::activity::Activity;
use crate::address::DeviceAddress;
use crate::channels::Channels;
use crate::connections::Connections;
use crate::radio::RadioArgs;
use crate::reason::reason;
use crate::sys::rfcomm::{self, Security};

/// Connections at a time: those of four devices with eight channels. A connection costs a thread
/// and two sockets.
const MAX_CONNECTIONS: usize = 32;

/// Connections of one channel that wait to be accepted: of as many devices.
const BACKLOG: i32 = 4;

/// Carry each connection of a device as one to a Unix socket.
///
/// On the helper's device: the helper has `listen = ["unix:PATH"]`, and `mpbond bluetooth connect`
/// runs on the primary's device.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond bluetooth listen --socket /run/mpbond/pipe.sock
  mpbond bluetooth listen --socket /run/mpbond/pipe.sock --device 00:1A:7D:DA:71:13
                                     for this device alone")]
pub(crate) struct ListenArgs {
    /// Unix socket of the helper, to connect to.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Address of a device that may connect; several may be given. Otherwise all paired ones.
    #[arg(long, value_name = "ADDRESS")]
    device: Vec<DeviceAddress>,
    #[command(flatten)]
    radio: RadioArgs,
}

impl ListenArgs {
    pub fn run(self) -> Result<ExitCode, Failure> {
        let source = self.radio.start()?;
        let listeners = listeners(self.radio.channels, source, self.radio.security())?;
        info!(
            "connections of {} of channels {} are carried to {}",
            listeners.len(),
            self.radio.channels,
            self.socket.display()
        );
        let target = Target {
            socket: self.socket,
            devices: self.device,
        };
        serve(&listeners, &target).map_err(|e| Failure::run(format_args!("poll: {e}")))
    }
}

/// Sockets that listen on the channels; those that another program has are left out.
fn listeners(
    channels: Channels,
    source: DeviceAddress,
    security: Security,
) -> Result<Vec<Socket>, Failure> {
    let mut listeners = Vec::new();
    for channel in channels.iter() {
        let listener = rfcomm::address(source, channel).and_then(|address| {
            let listener = rfcomm::socket(security)?;
            listener.bind(&address)?;
            listener.listen(BACKLOG)?;
            Ok(listener)
        });
        match listener {
            Ok(listener) => listeners.push(listener),
            Err(e) if e.kind() == ErrorKind::AddrInUse => {
                warn!("channel {channel}: {}", reason(&e));
            }
            Err(e) => {
                return Err(Failure::run(format_args!(
                    "channel {channel}: {}",
                    reason(&e)
                )));
            }
        }
    }
    if listeners.is_empty() {
        return Err(Failure::run(format_args!(
            "other programs listen on all channels ({channels}), or this one runs already: give \
             others by --channels at both devices"
        )));
    }
    Ok(listeners)
}

/// Destination of the connections.
struct Target {
    socket: PathBuf,
    /// Devices that may connect; all, if there are none.
    devices: Vec<DeviceAddress>,
}

impl Target {
    fn admits(&self, device: Option<DeviceAddress>) -> bool {
        self.devices.is_empty() || device.is_some_and(|d| self.devices.contains(&d))
    }
}

/// A connection of a device, for log lines.
struct Line(Option<DeviceAddress>);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(device) => device.fmt(f),
            None => f.write_str("a device without an address"),
        }
    }
}

/// Accepts connections until poll(2) fails.
fn serve<T>(listeners: &[Socket], target: &Target) -> io::Result<T> {
    let connections = Connections::new(MAX_CONNECTIONS, Activity::default());
    loop {
        let mut all: Vec<_> = listeners
            .iter()
            .map(|listener| PollFd::new(listener.as_fd(), PollFlags::POLLIN))
            .collect();
        match poll(&mut all, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        let found = all.iter().map(PollFd::any);
        let found: Vec<bool> = found.map(|any| any == Some(true)).collect();
        for (listener, _) in listeners.iter().zip(found).filter(|(_, any)| *any) {
            match listener.accept() {
                Ok((near, peer)) => start(&connections, near, &peer, target),
                Err(e) if is_temporary(&e) => {}
                Err(e) => connections.not_accepted(&e),
            }
        }
    }
}

/// No connection was there any more.
fn is_temporary(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
    )
}

fn start(connections: &Connections, near: Socket, peer: &SockAddr, target: &Target) {
    let device = rfcomm::device(peer);
    if !target.admits(device) {
        debug!("{}: refused, as no --device names it", Line(device));
        return;
    }
    let socket = target.socket.clone();
    connections.start(near, move |_| {
        let far = connect(&socket).map_err(|e| format!("{}: {e}", socket.display()))?;
        Ok((far, Line(device)))
    });
}

/// Connects to the helper's socket, without waiting for a helper that does not accept.
fn connect(path: &Path) -> io::Result<Socket> {
    let far = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    far.set_nonblocking(true)?;
    far.connect(&SockAddr::unix(path)?).map_err(|e| {
        let text = match e.kind() {
            ErrorKind::NotFound => "there is no such socket: is `mpbond helper` running?",
            ErrorKind::ConnectionRefused => {
                "nobody listens there: `mpbond helper` has ended, or has another `listen`"
            }
            ErrorKind::WouldBlock => "the helper does not accept connections",
            ErrorKind::PermissionDenied => {
                "this user may not connect: run as the helper's user, or share the socket's folder"
            }
            _ => return e,
        };
        io::Error::new(e.kind(), text)
    })?;
    Ok(far)
}

#[cfg(test)]
mod tests;
