//! Numbers of subflows, streams, sessions and helpers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A subflow of a session. The primary numbers them; a number is never used twice in a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SubflowId(pub u32);

impl fmt::Display for SubflowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A stream: one user connection. The primary numbers them from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamId(pub u64);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A session at its proxy: the label of the proxy's process, 4 octets, and 12 random octets.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId(pub [u8; 16]);

impl SessionId {
    /// The id of these parts.
    pub fn new(label: [u8; 4], random: [u8; 12]) -> Self {
        let mut id = [0; 16];
        let (first, rest) = id.split_at_mut(label.len());
        first.copy_from_slice(&label);
        rest.copy_from_slice(&random);
        Self(id)
    }

    /// The label of the process that holds the session.
    pub fn label(&self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.0;
        [a, b, c, d]
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for b in &self.0[..8] {
            write!(f, "{b:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A helper device, numbered by the primary. Subflows of one helper share its HS link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HelperId(pub u32);
