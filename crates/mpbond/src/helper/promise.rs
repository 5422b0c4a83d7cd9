//! Connections for which tickets were issued: relays and measurements.

use std::net::SocketAddr;

use mpbond_net::DeviceId;
use mpbond_net::control::{Direction, RequestId};
use mpbond_net::relay::RelayHandle;
use mpbond_net::tcp::TcpError;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::several::Ends;
use crate::config::ProxyAddress;
use crate::quota::Share;

/// A connection for which a ticket was issued.
pub(super) enum Promise {
    Relay(Promised),
    Measurement(Measurement),
}

/// A relay for which a ticket was issued. Its HS-Path is being opened.
pub(super) struct Promised {
    pub(super) primary: DeviceId,
    /// Addresses of the proxy, each with the entry of the configuration that allows it.
    pub(super) proxies: Vec<(SocketAddr, ProxyAddress)>,
    pub(super) request: RequestId,
    pub(super) kind: Kind,
    pub(super) hs: JoinHandle<Result<TcpStream, TcpError>>,
    /// The control connection that asked.
    pub(super) control: mpsc::UnboundedSender<Event>,
    pub(super) ends: Ends,
    /// The primary's share of relays, held until the relay ends.
    pub(super) share: Share<DeviceId>,
}

/// Event of a relay, for the control connection over which it was requested.
pub(super) enum Event {
    Opened(RequestId, RelayHandle, Kind),
    Closed(RequestId),
    Unreachable(RequestId, String),
    /// A channel over Ethernet frames has failed.
    ChannelFailed(u32, String),
}

/// Use of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An ordinary subflow.
    Regular,
    /// An express, idle most of the time: no keep-alive wakes a radio for it. Whether the primary
    /// is gone is detected on the control connection, with which it ends.
    Express,
}

/// A measurement for which a ticket was issued.
pub(super) struct Measurement {
    pub(super) primary: DeviceId,
    pub(super) direction: Direction,
    /// The primary's share of measurements, held until it ends.
    pub(super) share: Share<DeviceId>,
}
