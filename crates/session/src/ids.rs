//! Numbers of subflows, streams, sessions and helpers; labels of devices.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

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

/// A device at a proxy, for those who know the ids of both: octets of a hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceLabel(pub [u8; 16]);

impl DeviceLabel {
    /// Label of a device at a proxy, by their ids.
    pub fn new(proxy: &[u8; 32], device: &[u8; 32]) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"mpbond 2 device label");
        hash.update(proxy);
        hash.update(device);
        let mut label = [0; 16];
        let octets = hash.finalize();
        label.copy_from_slice(&octets[..16]);
        Self(label)
    }
}
