//! Plain transfers without a protocol of their own, for measurements of what networking costs the
//! processor: the applications of "Trimming the Smartphone Network Stack", section 2.1.
//!
//! A sender and a receiver, over TCP, UDP or Ethernet frames, at a constant rate or as fast as
//! possible, from and into files or memory. With one copy, data goes between file and socket inside
//! the kernel (`sendfile(2)`, `splice(2)`); with two, through a buffer of the program.

mod compare;
mod file;
mod frames;
mod options;
mod pace;
mod receive;
mod relay;
mod send;

use std::io;
use std::time::Duration;

use serde::Serialize;

pub use compare::{CompareOptions, Comparer, Comparison, Costs, LEAST_SAVING, compare};
pub use options::{Copies, Datagrams, Files, ReceiveOptions, SendOptions, Transport};
pub use receive::Receiver;
pub use relay::{Relay, RelayBy, RelayOptions};
pub use send::send;

/// Size of a program's buffer, that of common programs (curl, nginx): 64 KiB.
const BUFFER_BYTES: usize = 64 * 1024;
/// Shortest interval of a helper's relay.
const SHORTEST_TICK: Duration = Duration::from_millis(1);
/// Datagram that ends a transfer: these octets, and the number of bytes that were sent. A datagram
/// of data is longer, except the last of a file.
const END: &[u8; 16] = b"mpbond-bulk-end\n";
const END_BYTES: usize = END.len() + size_of::<u64>();

/// Result of one end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Moved {
    /// Bytes sent or received.
    pub bytes: u64,
    /// Time in seconds. Over TCP, from the connection to the end of it; of a sender of datagrams,
    /// from its beginning to the last one; of their receiver, from the first to the last. Over
    /// frames, from the opening of the channel to its end, at the sender to the acknowledgement.
    pub seconds: f64,
    /// Bytes that were sent and did not arrive; receivers of datagrams only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_bytes: Option<u64>,
}

/// The datagram that ends a transfer of `bytes`.
fn end_of(bytes: u64) -> [u8; END_BYTES] {
    let mut end = [0; END_BYTES];
    let (name, number) = end.split_at_mut(END.len());
    name.copy_from_slice(END);
    number.copy_from_slice(&bytes.to_be_bytes());
    end
}

/// The number of bytes sent, if this is the datagram that ends a transfer.
fn is_end(datagram: &[u8]) -> Option<u64> {
    let number = datagram.strip_prefix(END)?;
    Some(u64::from_be_bytes(number.try_into().ok()?))
}

/// The error of a call on a socket, in words where its time-out `patience` ended it.
fn late(e: io::Error, what: &str, patience: Duration, ask: &str) -> io::Error {
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let seconds = patience.as_secs_f64();
            let why = format!("{what} for {seconds} s: {ask}");
            io::Error::new(io::ErrorKind::TimedOut, why)
        }
        _ => e,
    }
}

#[cfg(test)]
mod tests;
