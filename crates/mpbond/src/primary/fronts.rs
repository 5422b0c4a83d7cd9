//! Where applications' connections come in, and which way they go.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use mpbond_intercept as intercept;
use mpbond_intercept::{Front, FrontConfig, Intercepted, Protocol, Refusal};
use mpbond_session::{Destination, OpenError, StreamClass};
use socket2::{Domain, Socket, Type};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tracing::{debug, info, warn};

use super::Primary;
use super::repeatable::is_repeatable;
use super::rescue::rescue;
use crate::config::OnProxyLoss;
use crate::driver::Client;

/// A destination reached without the proxy has to answer within this.
pub(super) const DIRECT_WITHIN: Duration = Duration::from_secs(10);

/// Opens the configured fronts.
pub(super) fn start(primary: &Rc<Primary>) -> anyhow::Result<()> {
    let fronts = [
        (&primary.config.socks5, Protocol::Socks5, "SOCKS5"),
        (&primary.config.http, Protocol::Http, "HTTP proxy"),
    ];
    for (address, protocol, name) in fronts {
        if let Some(address) = address {
            let local = open(primary, address.listen, protocol, name)?;
            info!(address = %local, "{name} front");
        }
    }
    Ok(())
}

/// Opens one front; returns its address.
pub(super) fn open(
    primary: &Rc<Primary>,
    address: SocketAddr,
    protocol: Protocol,
    name: &str,
) -> anyhow::Result<SocketAddr> {
    let mut front = Front::bind(address, FrontConfig::new(protocol))
        .with_context(|| format!("{name} front on {address}"))?;
    let local = front.local_addr();
    let primary = Rc::clone(primary);
    tokio::task::spawn_local(async move {
        loop {
            let connection = front.accept().await;
            tokio::task::spawn_local(serve(Rc::clone(&primary), connection));
        }
    });
    Ok(local)
}

async fn serve(primary: Rc<Primary>, mut connection: Intercepted) {
    let asked = connection.destination().clone();
    let to = destination(&asked);
    let Some(driver) = primary.usable_session().await else {
        return without_proxy(&primary, connection).await;
    };
    // The application is told to go ahead at once, so that its first bytes travel with the OPEN
    // and no connection costs a round trip more than without us. A destination that refuses
    // shows as a reset.
    let early = connection.take_early();
    let peer = connection.peer();
    let client = match connection.accepted().await {
        Ok(client) => client,
        Err(e) => return debug!(%peer, error = %e, "client left"),
    };
    match driver.open(to.clone(), StreamClass::Bulk, early, Client::new(client)) {
        Ok(stream) => {
            debug!(%peer, %to, %stream, "stream opened");
            rescue(&primary, &driver, stream, &asked, is_repeatable).await;
        }
        // The client has been told yes and is reset now, as its socket is dropped.
        Err(e @ (OpenError::Limit | OpenError::Closed)) => {
            warn!(%peer, %to, error = %e, "connection reset");
        }
    }
}

/// No path to the proxy works.
async fn without_proxy(primary: &Primary, connection: Intercepted) {
    let to = connection.destination().clone();
    match primary.config.on_proxy_loss {
        OnProxyLoss::Fail => {
            warn!(%to, "no path to the proxy: connection refused");
            connection.refused(Refusal::ProxyLost).await;
        }
        OnProxyLoss::Direct => {
            warn!(%to, "no path to the proxy: connection goes direct, over one path");
            direct(connection, &to).await;
        }
    }
}

async fn direct(connection: Intercepted, to: &intercept::Destination) {
    let mut origin = match tokio::time::timeout(DIRECT_WITHIN, connect(to)).await {
        Ok(Ok(origin)) => origin,
        Ok(Err(e)) => {
            info!(%to, error = %e, "destination not reached");
            let refusal = match e.kind() {
                std::io::ErrorKind::ConnectionRefused => Refusal::ConnectionRefused,
                std::io::ErrorKind::NotFound => Refusal::NameNotFound,
                _ => Refusal::HostUnreachable,
            };
            return connection.refused(refusal).await;
        }
        Err(_) => return connection.refused(Refusal::TimedOut).await,
    };
    match connection.accepted().await {
        Ok(mut client) => {
            if let Err(e) = copy_bidirectional(&mut client, &mut origin).await {
                debug!(%to, error = %e, "direct connection broke");
            }
        }
        Err(e) => debug!(%to, error = %e, "client left"),
    }
}

/// A connection past our own interception.
pub(super) async fn connect(to: &intercept::Destination) -> std::io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = match to {
        intercept::Destination::Addr(a) => vec![*a],
        intercept::Destination::Name { host, port } => {
            lookup_host((host.as_str(), *port)).await?.collect()
        }
    };
    let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
    for address in addresses {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM.nonblocking().cloexec(),
            None,
        )?;
        // Needs CAP_NET_ADMIN, as interception does; without interception nothing needs it.
        if let Err(e) = socket.set_mark(super::transparent::OWN_MARK) {
            debug!(error = %e, "can't mark a direct connection");
        }
        match TcpSocket::from_std_stream(socket.into())
            .connect(address)
            .await
        {
            Ok(tcp) => return Ok(tcp),
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// The session's word for an interceptor's destination.
pub(super) fn destination(to: &intercept::Destination) -> Destination {
    match to {
        intercept::Destination::Addr(a) => Destination::Addr(*a),
        intercept::Destination::Name { host, port } => Destination::Name {
            host: host.clone(),
            port: *port,
        },
    }
}

/// Early data of a connection that has none.
pub(super) const NO_EARLY: Bytes = Bytes::new();
