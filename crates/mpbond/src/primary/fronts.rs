//! Fronts: listeners for applications' connections, which go into the session or past it.

use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::Context as _;
use bytes::Bytes;
use mpbond_intercept as intercept;
use mpbond_intercept::{Front, FrontConfig, Intercepted, Protocol, Refusal};
use mpbond_manager::Admission;
use mpbond_session::{Destination, OpenError, StreamClass};
use tracing::{debug, info, warn};

use super::repeatable::is_repeatable;
use super::state::Primary;
use super::{direct, rescue};
use crate::config::OnProxyLoss;
use crate::driver::{Client, Driver};

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
    let Some(driver) = usable_session(&primary).await else {
        return without_proxy(&primary, connection).await;
    };
    // The application is told that it is connected, so that its first bytes travel with the OPEN
    // and no connection costs an additional round trip (ADR 0004). A refusal by the destination
    // shows as a reset.
    let early = connection.take_early();
    let peer = connection.peer();
    let client = match connection.accepted().await {
        Ok(client) => client,
        Err(e) => return debug!(%peer, error = %e, "client left"),
    };
    // It may have retired meanwhile.
    let driver = primary.driver.borrow().clone().unwrap_or(driver);
    match driver.open(to.clone(), StreamClass::Bulk, early, Client::new(client)) {
        Ok(stream) => {
            debug!(%peer, %to, %stream, "stream opened");
            rescue::watch(&primary, stream, asked, is_repeatable);
        }
        // The client was told that it is connected. Dropping its socket resets it.
        Err(e @ (OpenError::Limit | OpenError::Closed)) => {
            warn!(%peer, %to, error = %e, "connection reset");
        }
    }
}

/// The session, once it has a path that works; `None` if none has worked for too long.
pub(super) async fn usable_session(primary: &Rc<Primary>) -> Option<Driver> {
    let mut changed = primary.changed.subscribe();
    primary.manage_with_facts(|_, _| ());
    loop {
        let admission = primary.manager.borrow().admission(primary.clock.now());
        match admission {
            Admission::Session => return primary.driver.borrow().clone(),
            Admission::WithoutProxy => return None,
            Admission::Wait(until) => {
                let until = primary.clock.instant(until);
                let _ = tokio::time::timeout_at(until, changed.changed()).await;
            }
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
            direct::serve(&primary.resolver, connection, &to).await;
        }
    }
}

/// An interceptor's destination in the session's type.
pub(super) fn destination(to: &intercept::Destination) -> Destination {
    match to {
        intercept::Destination::Addr(a) => Destination::Addr(*a),
        intercept::Destination::Name { host, port } => Destination::Name {
            host: host.clone(),
            port: *port,
        },
    }
}

/// Early data of a connection without any.
pub(super) const NO_EARLY: Bytes = Bytes::new();
