//! Tickets that authorize relay connections, and classification of connections to a helper's port.

use std::fmt;
use std::io;
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use subtle::ConstantTimeEq;
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use crate::pipe::PipeStream;
use crate::tls::{Label, Peeked};

/// Lifetime of an unused ticket. The primary opens the relay at once; the rest allows for a short
/// outage of the pipe.
pub const TICKET_LIFETIME: Duration = Duration::from_secs(10);
/// Maximum number of unused tickets. A primary opens a handful of relays at a time; further
/// requests are refused.
const MAX_OUTSTANDING: usize = 64;
const TICKET_BYTES: usize = 32;
const RELAY_MAGIC: [u8; 4] = *b"MPR1";
/// Length of the preamble of a relay connection in octets.
pub const RELAY_PREAMBLE_BYTES: usize = RELAY_MAGIC.len() + TICKET_BYTES;
/// A TLS ClientHello begins with the record type "handshake".
const TLS_HANDSHAKE: u8 = 0x16;

/// Bearer token for one relay. A secret: never logged.
#[derive(Clone)]
pub struct Ticket([u8; TICKET_BYTES]);

impl Ticket {
    /// The ticket with these octets.
    pub const fn from_bytes(octets: [u8; TICKET_BYTES]) -> Self {
        Self(octets)
    }
}

impl PartialEq for Ticket {
    /// Compares in constant time.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Ticket {}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(..)")
    }
}

impl Serialize for Ticket {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        use fmt::Write;
        let mut text = String::with_capacity(2 * TICKET_BYTES);
        for byte in self.0 {
            write!(text, "{byte:02x}").map_err(serde::ser::Error::custom)?;
        }
        s.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Ticket {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        let bad = || serde::de::Error::custom("a ticket must be 64 hexadecimal digits");
        if text.len() != 2 * TICKET_BYTES || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let mut octets = [0; TICKET_BYTES];
        for (at, octet) in octets.iter_mut().enumerate() {
            let pair = text.get(2 * at..2 * at + 2).ok_or_else(bad)?;
            *octet = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
        }
        Ok(Self(octets))
    }
}

/// Unused tickets of a helper's process, each with the request that it authorizes.
#[derive(Debug)]
pub struct TicketBook<T> {
    /// The first octets of each ticket.
    label: Label,
    outstanding: Vec<(Ticket, Instant, T)>,
}

impl<T> TicketBook<T> {
    /// The book of the process with this label.
    pub fn new(label: Label) -> Self {
        Self {
            label,
            outstanding: Vec::new(),
        }
    }

    /// Issues a ticket for `what`, valid until [`TICKET_LIFETIME`] after `now`. `None` when too
    /// many tickets are unused or the random source fails.
    pub fn issue(&mut self, what: T, now: Instant) -> Option<Ticket> {
        self.expire(now);
        if self.outstanding.len() >= MAX_OUTSTANDING {
            return None;
        }
        let mut octets = [0; TICKET_BYTES];
        let (label, secret) = octets.split_at_mut(self.label.0.len());
        label.copy_from_slice(&self.label.0);
        SystemRandom::new().fill(secret).ok()?;
        let ticket = Ticket(octets);
        self.outstanding
            .push((ticket.clone(), now + TICKET_LIFETIME, what));
        Some(ticket)
    }

    /// Removes expired tickets.
    pub fn expire(&mut self, now: Instant) {
        self.outstanding.retain(|(_, expires, _)| *expires > now);
    }

    /// Consumes `ticket` and returns what it authorizes.
    ///
    /// Every ticket is compared in constant time, so that timing does not help guessing.
    pub fn redeem(&mut self, ticket: &Ticket, now: Instant) -> Option<T> {
        self.expire(now);
        let mut found = None;
        for (at, (known, _, _)) in self.outstanding.iter().enumerate() {
            if known == ticket {
                found = Some(at);
            }
        }
        found.map(|at| self.outstanding.swap_remove(at).2)
    }

    /// Revokes all tickets for which `gone` returns true.
    pub fn revoke(&mut self, gone: impl Fn(&T) -> bool) {
        self.outstanding.retain(|(_, _, what)| !gone(what));
    }
}

/// The preamble of a relay connection: magic number and ticket.
pub fn relay_preamble(ticket: &Ticket) -> [u8; RELAY_PREAMBLE_BYTES] {
    let mut out = [0; RELAY_PREAMBLE_BYTES];
    let (magic, rest) = out.split_at_mut(RELAY_MAGIC.len());
    magic.copy_from_slice(&RELAY_MAGIC);
    rest.copy_from_slice(&ticket.0);
    out
}

/// Number of octets from which [`label_of_opening`] reads any label.
pub const LABELLED_BYTES: usize = RELAY_MAGIC.len() + size_of::<Label>();

/// Reads the label of a relay's ticket in the first octets of a connection to a helper's port.
pub fn label_of_opening(octets: &[u8]) -> Peeked<Label> {
    if !octets.iter().zip(&RELAY_MAGIC).all(|(a, b)| a == b) {
        return Peeked::Whole(None);
    }
    let ticket = octets.get(RELAY_MAGIC.len()..).unwrap_or_default();
    match ticket.first_chunk() {
        Some(label) => Peeked::Whole(Some(Label(*label))),
        None => Peeked::Incomplete,
    }
}

/// Kind of a connection to a helper's port.
#[derive(Debug, PartialEq, Eq)]
pub enum Opening {
    /// A control connection; its ClientHello has not been read.
    Control,
    /// A relay; the payload follows.
    Relay(Ticket),
}

/// Error of classifying a connection to a helper's port.
#[derive(Debug, thiserror::Error)]
pub enum OpeningError {
    /// The socket failed or was closed.
    #[error("connection closed before its preamble was complete: {0}")]
    Io(io::Error),
    /// Neither TLS nor a relay preamble.
    #[error("connection begins neither with TLS nor with a relay preamble")]
    Unknown,
    /// The preamble did not arrive in time.
    #[error("no complete preamble within the deadline")]
    Deadline,
}

impl From<io::Error> for OpeningError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

/// Classifies a new connection without reading past its preamble.
///
/// # Errors
/// When it is neither a control connection nor a relay, or its preamble is late.
pub async fn read_opening(
    pipe: &mut PipeStream,
    deadline: Instant,
) -> Result<Opening, OpeningError> {
    tokio::time::timeout_at(deadline, classify(pipe))
        .await
        .map_err(|_| OpeningError::Deadline)?
}

impl Opening {
    /// Classifies a connection by its first octets; `None` while more are needed. Payload may
    /// follow a relay's preamble.
    ///
    /// # Errors
    /// [`OpeningError::Unknown`] as soon as the octets match neither.
    pub fn of(octets: &[u8]) -> Result<Option<Self>, OpeningError> {
        if octets.first() == Some(&TLS_HANDSHAKE) {
            return Ok(Some(Self::Control));
        }
        if !octets.iter().zip(&RELAY_MAGIC).all(|(a, b)| a == b) {
            return Err(OpeningError::Unknown);
        }
        let preamble = octets.first_chunk::<RELAY_PREAMBLE_BYTES>();
        let ticket = preamble.and_then(|p| p.last_chunk::<TICKET_BYTES>());
        Ok(ticket.map(|ticket| Self::Relay(Ticket(*ticket))))
    }
}

async fn classify(pipe: &mut PipeStream) -> Result<Opening, OpeningError> {
    let mut first = [0; 1];
    if pipe.peek(&mut first).await? == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    if let Some(opening) = Opening::of(&first)? {
        return Ok(opening);
    }
    preamble(pipe).await
}

async fn preamble(pipe: &mut PipeStream) -> Result<Opening, OpeningError> {
    let mut preamble = [0; RELAY_PREAMBLE_BYTES];
    let (magic, ticket) = preamble.split_at_mut(RELAY_MAGIC.len());
    // Other protocols are rejected at the first wrong octet, before the deadline.
    pipe.read_exact(magic).await?;
    Opening::of(magic)?;
    pipe.read_exact(ticket).await?;
    Opening::of(&preamble)?.ok_or(OpeningError::Unknown)
}

/// Reads the preamble of a pipe on which there can only be a relay.
///
/// # Errors
/// When it is none, or late.
pub async fn read_ticket(pipe: &mut PipeStream, deadline: Instant) -> Result<Ticket, OpeningError> {
    match tokio::time::timeout_at(deadline, preamble(pipe)).await {
        Ok(Ok(Opening::Relay(ticket))) => Ok(ticket),
        Ok(Ok(Opening::Control)) => Err(OpeningError::Unknown),
        Ok(Err(e)) => Err(e),
        Err(_) => Err(OpeningError::Deadline),
    }
}
