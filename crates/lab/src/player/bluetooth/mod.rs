//! A Bluetooth link in real time: byte streams between Unix sockets of programs on two hosts.
//!
//! The player listens on a socket for the near host, a wearable. Each connection becomes a channel
//! of the link ([`mpbond_sim::link::Rfcomm`]) to the socket on which a program of the far host, a
//! phone, listens. The model says when bytes arrive; they go from socket to socket then. What it
//! has no room for stays in the sending program's socket.

mod channel;
mod port;

#[cfg(test)]
mod tests;

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::Duration;

use mpbond_radio::machine::BluetoothParameters;

pub(super) use port::Port;

/// A Bluetooth link, ready to be played.
pub struct PlayedBluetooth {
    /// Name of the link.
    pub name: String,
    /// Socket to which programs of the near host connect.
    pub listener: UnixListener,
    /// Socket on which the program of the far host listens.
    pub to: PathBuf,
    /// Radio of the near host.
    pub wearable: BluetoothParameters,
    /// Radio of the far host.
    pub phone: BluetoothParameters,
    /// Strength of the signal in dBm, from each time after the beginning of a transfer on. Before
    /// the first one it is [`mpbond_sim::link::NEAR_DBM`]. Losses by strength are assumed (ADR
    /// 0023).
    pub signal: Vec<(Duration, f64)>,
}
