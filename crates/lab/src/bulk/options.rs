//! Options of both ends.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use mpbond_units::BitRate;
use serde::{Deserialize, Serialize};

use super::END_BYTES;
use crate::error::{Error, Result};

/// Transport of a transfer: `tcp`, `udp:BYTES` with the payload of a datagram, or `l2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Transport {
    /// One TCP connection.
    Tcp,
    /// Datagrams of this many bytes.
    Udp(u16),
    /// Ethernet frames between two hosts of one link, by the L2 pipe of the daemons.
    L2,
}

impl Transport {
    /// Sizes of a datagram: more than that of the last one, at most what IPv4 can carry.
    const DATAGRAM: std::ops::RangeInclusive<u16> = END_BYTES as u16 + 1..=65_507;
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "tcp" => return Ok(Self::Tcp),
            "l2" => return Ok(Self::L2),
            _ => {}
        }
        let bytes = text.strip_prefix("udp:").and_then(|b| b.parse().ok());
        match bytes.filter(|bytes| Self::DATAGRAM.contains(bytes)) {
            Some(bytes) => Ok(Self::Udp(bytes)),
            None => Err(format!(
                "\"{text}\" is none of tcp, l2, and udp:BYTES with {} to {} bytes",
                Self::DATAGRAM.start(),
                Self::DATAGRAM.end()
            )),
        }
    }
}

impl TryFrom<String> for Transport {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Transport> for String {
    fn from(transport: Transport) -> Self {
        transport.to_string()
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp => f.write_str("tcp"),
            Self::Udp(bytes) => write!(f, "udp:{bytes}"),
            Self::L2 => f.write_str("l2"),
        }
    }
}

/// Number of copies between file and socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Copies {
    /// `read` and `write` through a buffer of the program.
    #[default]
    Two,
    /// `sendfile` from a file, `splice` into one.
    One,
}

/// Calls by which datagrams are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Datagrams {
    /// One call for each.
    #[default]
    Single,
    /// `sendmmsg`: one call for many.
    Sendmmsg,
    /// Generic segmentation offload: one call for many, which pass through the kernel as one; the
    /// receiver takes many by one call (GRO).
    Gso,
}

/// A file that data comes from or goes into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Path of the file.
    pub path: PathBuf,
    /// Copies between the file and the socket.
    pub copies: Copies,
    /// A receiver continues at the beginning after this many bytes, so that long transfers do not
    /// fill the disk. A sender always does so at the end of its file.
    pub ring_bytes: Option<u64>,
}

/// Options of a sender.
#[derive(Debug, Clone, PartialEq)]
pub struct SendOptions {
    /// The receiver.
    pub to: SocketAddr,
    /// Transport.
    pub transport: Transport,
    /// Calls by which datagrams are sent.
    pub datagrams: Datagrams,
    /// Source; memory when absent.
    pub file: Option<Files>,
    /// Rate of the payload; as fast as possible when absent.
    pub rate: Option<BitRate>,
    /// Interval at which a sender with a rate sends what is due.
    pub tick: Duration,
    /// End after this many bytes.
    pub bytes: Option<u64>,
    /// End after this time.
    pub duration: Option<Duration>,
}

/// Options of a receiver.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiveOptions {
    /// Listening address.
    pub listen: SocketAddr,
    /// Transport.
    pub transport: Transport,
    /// Calls by which datagrams are received.
    pub datagrams: Datagrams,
    /// Destination; data is discarded when absent.
    pub file: Option<Files>,
}

impl SendOptions {
    /// Checks that the options fit together.
    ///
    /// # Errors
    /// [`Error::Experiment`] that names the option.
    pub fn check(&self) -> Result<()> {
        if self.bytes.is_none() && self.duration.is_none() {
            return wrong("a transfer ends after a number of bytes or a time: add one of the two");
        }
        if !(100..=1_000_000).contains(&self.tick.as_micros()) {
            return wrong("the interval of sending is 100 us to 1 s");
        }
        if self.rate.is_some_and(|rate| rate.bps() < 8_000) {
            return wrong("the rate is at least 8 kbit/s");
        }
        check(self.transport, self.datagrams, self.file.as_ref())
    }
}

impl ReceiveOptions {
    /// Checks that the options fit together.
    ///
    /// # Errors
    /// [`Error::Experiment`] that names the option.
    pub fn check(&self) -> Result<()> {
        if self.datagrams == Datagrams::Sendmmsg {
            return wrong("a receiver takes single datagrams, or many by gso");
        }
        check(self.transport, self.datagrams, self.file.as_ref())
    }
}

fn check(transport: Transport, datagrams: Datagrams, file: Option<&Files>) -> Result<()> {
    match transport {
        Transport::Tcp | Transport::L2 if datagrams != Datagrams::Single => {
            return wrong("calls for many datagrams need the transport udp:BYTES");
        }
        Transport::Udp(_) | Transport::L2 if file.is_some_and(|f| f.copies == Copies::One) => {
            return wrong("one copy needs the transport tcp");
        }
        // One segment less would not be many.
        Transport::Udp(bytes) if datagrams == Datagrams::Gso && bytes > MAX_SEGMENT => {
            return wrong(&format!(
                "gso needs datagrams of at most {MAX_SEGMENT} bytes"
            ));
        }
        _ => {}
    }
    match file.and_then(|f| f.ring_bytes) {
        Some(0) => wrong("a ring has at least one byte"),
        _ => Ok(()),
    }
}

/// Maximum size of a segment of which several fit into one call.
const MAX_SEGMENT: u16 = 32_000;

fn wrong(why: &str) -> Result<()> {
    Err(Error::Experiment(why.to_owned()))
}
