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
    Opened(RequestId, OpenRelay),
    Closed(RequestId),
    Unreachable(RequestId, String),
    /// A channel over Ethernet frames has failed.
    ChannelFailed(u32, String),
}

/// A relay, as its control connection has it. An express is stopped when this is dropped: also
/// within an event that the control connection no longer takes.
pub(super) struct OpenRelay {
    pub(super) handle: RelayHandle,
    pub(super) kind: Kind,
}

impl Drop for OpenRelay {
    fn drop(&mut self) {
        if self.kind == Kind::Express {
            self.handle.stop();
        }
    }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mpbond_net::relay::{Relay, RelayEnd, RelayOptions};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    async fn connections() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap()).await;
        (listener.accept().await.unwrap().0, there.unwrap())
    }

    /// The control connection ends between the relay's event and its own next turn.
    #[tokio::test]
    async fn an_express_ends_with_a_control_connection_that_has_not_heard_of_it() {
        for (kind, ends) in [(Kind::Express, true), (Kind::Regular, false)] {
            let (pipe, _primary) = connections().await;
            let (hs, _proxy) = connections().await;
            let relay = Relay::new(pipe, hs, RelayOptions::default()).unwrap();
            let (control, happened) = mpsc::unbounded_channel();
            let handle = relay.handle();
            let opened = Event::Opened(RequestId(1), OpenRelay { handle, kind });
            assert!(control.send(opened).is_ok());
            drop(happened);
            let end = timeout(Duration::from_millis(100), relay.run()).await;
            assert_eq!(matches!(end, Ok(RelayEnd::Stopped)), ends, "{kind:?}");
        }
    }
}
