//! Terms shared by experiment files and records.

use serde::{Deserialize, Serialize};

/// Role of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The device with the client.
    Primary,
    /// A device that lends its Internet link.
    Helper,
    /// The multipath endpoint in the network, and the router to the origin.
    Proxy,
    /// The HTTP server, which knows nothing of mpbond.
    Origin,
}

/// Direction on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Towards the primary.
    Down,
    /// Away from the primary.
    Up,
}

/// Client program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    /// curl, which keeps no connection between transfers and has no Multipath TCP.
    #[default]
    Curl,
    /// The lab's own client, for all schemes.
    Fetch,
}

/// The client's connection before a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connection {
    /// Opened at the start of the transfer, within its time.
    #[default]
    New,
    /// Open since a warm-up of 64 KiB, and idle since then.
    Kept,
}

/// How the client's connection reaches mpbond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interception {
    /// Not at all: the client connects to the origin.
    #[default]
    None,
    /// Through a SOCKS5 server that the client is configured with.
    Socks5,
    /// Through an HTTP proxy that the client is configured with.
    Http,
    /// Transparently, by kernel rules.
    Transparent,
}

/// The name of a unit variant in files.
pub(crate) fn name_of(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}
