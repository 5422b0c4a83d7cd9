//! `mpbond bluetooth listen`: from devices to a Unix socket.

mod pairing;
mod target;

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use mpbond_command::Failure;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{SockAddr, Socket};
use tracing::{debug, info, warn};

use crate::activity::Activity;
use crate::address::DeviceAddress;
use crate::channels::Channels;
use crate::connections::Connections;
use crate::radio::RadioArgs;
use crate::reason::reason;
use crate::socket_file;
use crate::sys::rfcomm::{self, Security};
use pairing::Pairings;
use target::{Line, Target, connect};

/// Connections at a time: those of four devices with eight channels. A connection costs a thread
/// and two sockets.
const MAX_CONNECTIONS: usize = 32;

/// Connections of one channel that wait to be accepted: of as many devices.
const BACKLOG: i32 = 4;

/// Carry each connection of a device as one to a Unix socket.
///
/// On the helper's device: the helper has `listen = ["unix:PATH"]`, and `mpbond bluetooth connect`
/// runs on the primary's device.
///
/// While `mpbond pair --listen unix:PATH` waits here, a channel of its own leads to it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond bluetooth listen --socket /run/mpbond/pipe.sock
  mpbond bluetooth listen --socket /run/mpbond/pipe.sock --device 00:1A:7D:DA:71:13
                                     for this device alone")]
pub(crate) struct ListenArgs {
    /// Unix socket of the helper, to connect to.
    #[arg(long, value_name = "PATH")]
    pub socket: PathBuf,
    /// Address of a device that may connect; several may be given. Otherwise all paired ones.
    #[arg(long, value_name = "ADDRESS")]
    pub device: Vec<DeviceAddress>,
    #[command(flatten)]
    pub radio: RadioArgs,
}

impl ListenArgs {
    pub fn run(self) -> Result<ExitCode, Failure> {
        let source = self.radio.start()?;
        let security = self.radio.security();
        let listeners = listeners(self.radio.channels, source, security)?;
        info!(
            "connections of {} of channels {} are carried to {}",
            listeners.len(),
            self.radio.channels,
            self.socket.display()
        );
        let channel = self.radio.pairing_channel;
        let mut pairings = socket_file::of_pairing(&self.socket)
            .and_then(|socket| Pairings::watch(socket, move || listener(channel, source, security)))
            .inspect_err(|e| warn!("no pairing over {}: {e}", self.socket.display()))
            .ok();
        let target = Target {
            socket: self.socket,
            devices: self.device,
        };
        serve(&listeners, &target, pairings.as_mut())
            .map_err(|e| Failure::run(format_args!("poll: {e}")))
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
        match listener(channel, source, security) {
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

/// A socket that listens on one channel.
fn listener(channel: u8, source: DeviceAddress, security: Security) -> io::Result<Socket> {
    let listener = rfcomm::socket(security)?;
    listener.bind(&rfcomm::address(source, channel)?)?;
    listener.listen(BACKLOG)?;
    Ok(listener)
}

/// Accepts connections until poll(2) fails.
fn serve<T>(
    listeners: &[Socket],
    target: &Target,
    mut pairings: Option<&mut Pairings>,
) -> io::Result<T> {
    let connections = Connections::new(MAX_CONNECTIONS, Activity::default());
    loop {
        let mut all: Vec<_> = listeners
            .iter()
            .map(AsFd::as_fd)
            .chain(pairings.iter().flat_map(|pairings| pairings.descriptors()))
            .map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN))
            .collect();
        match poll(&mut all, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        let found = all.iter().map(PollFd::any);
        let found: Vec<bool> = found.map(|any| any == Some(true)).collect();
        for (listener, _) in listeners.iter().zip(&found).filter(|(_, any)| **any) {
            match listener.accept() {
                Ok((near, peer)) => start(&connections, near, &peer, target),
                Err(e) => connections.not_accepted(&e),
            }
        }
        let has_more = found.iter().skip(listeners.len()).any(|any| *any);
        if let Some(pairings) = pairings.as_mut().filter(|_| has_more) {
            pairings.serve(&connections, target);
        }
    }
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

#[cfg(test)]
mod tests;
