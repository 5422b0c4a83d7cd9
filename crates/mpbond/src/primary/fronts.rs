//! Fronts: listeners for applications' connections, which go into the session or past it.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use mpbond_intercept as intercept;
use mpbond_intercept::dns::Family;
use mpbond_intercept::{Front, FrontConfig, Intercepted, Protocol, Refusal};
use mpbond_manager::Admission;
use mpbond_session::{Destination, OpenError, StreamClass};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, info, warn};

use super::clients::Ends;
use super::reach::Reach;
use super::repeatable::is_repeatable;
use super::state::Primary;
use super::{confirmed, direct, rescue};
use crate::config::{FrontAddress, OnProxyLoss, read_credentials};
use crate::driver::{Client, Driver, Place};
use crate::quota::Full;
use crate::upgrade::Listeners;

/// Maximum number of clients that are being refused for one of these reasons; others are closed
/// without an answer.
pub(super) const MAX_REFUSALS: usize = 256;

/// Time for which a client waits where the proxy takes no more streams.
const WAIT_FOR_ROOM: Duration = Duration::from_secs(10);

/// Interval at which a closed front is looked at for handshakes under way.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Opens the configured fronts, or takes their listeners over.
pub(super) fn open_all(primary: &Primary, own: &mut Listeners) -> anyhow::Result<Vec<Front>> {
    let mut opened = Vec::new();
    let fronts = [
        (&primary.config.socks5, Protocol::Socks5, "SOCKS5"),
        (&primary.config.http, Protocol::Http, "HTTP proxy"),
    ];
    for (address, protocol, name) in fronts {
        if let Some(FrontAddress {
            listen,
            credentials,
        }) = address
        {
            let mut config = FrontConfig::new(protocol);
            config.credentials = credentials.as_deref().map(read_credentials).transpose()?;
            let front = match own.inherit(*listen)? {
                Some(listener) => Front::with_listener(listener, config),
                None => Front::bind(*listen, config),
            };
            let front = front.with_context(|| format!("{name} front on {listen}"))?;
            if let Some(listener) = front.listener() {
                own.offer(*listen, listener)?;
            }
            info!(address = %front.local_addr(), "{name} front");
            opened.push(front);
        }
    }
    Ok(opened)
}

/// Opens one front; returns its address.
pub(super) fn open(
    primary: &Rc<Primary>,
    address: SocketAddr,
    config: FrontConfig,
    name: &str,
) -> anyhow::Result<SocketAddr> {
    let front =
        Front::bind(address, config).with_context(|| format!("{name} front on {address}"))?;
    let local = front.local_addr();
    run(primary, front);
    Ok(local)
}

/// Serves a front's clients until another process has taken over.
pub(super) fn run(primary: &Rc<Primary>, mut front: Front) {
    let primary = Rc::clone(primary);
    tokio::task::spawn_local(async move {
        let _busy = Rc::clone(&primary.busy);
        let mut handed_over = primary.handed_over.subscribe();
        let begin = |connection| {
            let (primary, busy) = (Rc::clone(&primary), Rc::clone(&primary.busy));
            tokio::task::spawn_local(async move {
                serve(primary, connection).await;
                drop(busy);
            });
        };
        loop {
            tokio::select! {
                connection = front.accept() => begin(connection),
                _ = handed_over.wait_for(|over| *over) => break,
            }
        }
        front.close();
        while !front.is_idle() {
            if let Ok(connection) = timeout(LOOK_EVERY, front.accept()).await {
                begin(connection);
            }
        }
    });
}

async fn serve(primary: Rc<Primary>, mut connection: Intercepted) {
    // Held until the connection is over.
    let share = match primary.clients.take(Ends::of(&connection)) {
        Ok(share) => share,
        Err(Full::Own) => {
            return no_room(
                &primary,
                connection,
                "its program or address has too many open",
            )
            .await;
        }
        Err(Full::All) => {
            return no_room(&primary, connection, "too many are open").await;
        }
    };
    let asked = connection.destination().clone();
    let to = destination(&asked);
    let place = match place(&primary, &asked).await {
        Room::Free(place) => place,
        Room::Full => {
            let reason = "the proxy takes no more now";
            return no_room(&primary, connection, reason).await;
        }
        Room::OutOfReach => {
            info!(%to, "connection refused: the proxy has no route for this address family");
            return connection.refused(Refusal::HostUnreachable).await;
        }
        Room::WithoutProxy => return without_proxy(&primary, connection).await,
    };
    let reached = primary.reached.borrow().has(Instant::now().into_std(), &to);
    if connection.is_told() && place.is_answered() && !reached {
        return confirmed::serve(&primary, connection, place, share).await;
    }
    // The application is told that it is connected, so that its first bytes travel with the OPEN
    // and the connection costs no additional round trip (ADR 0017).
    let early = connection.take_early();
    let peer = connection.peer();
    let client = match connection.accepted().await {
        Ok(client) => client,
        Err(e) => {
            drop(place);
            primary.room.notify_one();
            return debug!(%peer, error = %e, "client left");
        }
    };
    // The session may have ended meanwhile.
    let place = match place.is_void() {
        true => self::place(&primary, &asked).await,
        false => Room::Free(place),
    };
    let Room::Free(place) = place else {
        warn!(%peer, %to, "connection reset: the session has ended");
        return client.abort();
    };
    let reach = Reach::of(peer.ip());
    match place.open(
        to.clone(),
        StreamClass::Bulk,
        early,
        Client::new(client, share),
    ) {
        Ok(stream) => {
            debug!(%peer, %to, %stream, "stream opened");
            rescue::watch(&primary, stream, asked, is_repeatable, reach);
        }
        // The client was told that it is connected. Dropping its socket resets it.
        Err(e @ (OpenError::Limit | OpenError::Closed)) => {
            warn!(%peer, %to, error = %e, "connection reset");
        }
    }
}

/// Room for a client's connection.
pub(super) enum Room {
    /// In the session.
    Free(Place),
    /// None in the session.
    Full,
    /// The proxy lacks the address family of the destination.
    OutOfReach,
    /// No path to the proxy works.
    WithoutProxy,
}

/// Takes a place in the session for a connection to this destination, once the session has a path
/// that works and takes another stream.
pub(super) async fn place(primary: &Rc<Primary>, to: &intercept::Destination) -> Room {
    let deadline = Instant::now() + WAIT_FOR_ROOM;
    loop {
        let Some(driver) = usable_session(primary).await else {
            return Room::WithoutProxy;
        };
        // Another session may be with another proxy process.
        if is_out_of_reach(primary, to) {
            return Room::OutOfReach;
        }
        if let Some(place) = driver.reserve() {
            return Room::Free(place);
        }
        if timeout_at(deadline, primary.room.notified()).await.is_err() {
            return Room::Full;
        }
    }
}

/// Refuses a client for which there is no room, before it is told that it is connected.
pub(super) async fn no_room(primary: &Primary, connection: Intercepted, reason: &str) {
    let (peer, to) = (connection.peer(), connection.destination().clone());
    debug!(%peer, %to, reason, "connection refused");
    if primary.crowded.is_due() {
        warn!(%peer, %to, reason, "connections are refused");
    }
    if let Ok(_share) = primary.refusals.take(()) {
        connection.refused(Refusal::TooMany).await;
    }
}

/// Whether the proxy lacks the address family of a destination.
fn is_out_of_reach(primary: &Primary, to: &intercept::Destination) -> bool {
    let intercept::Destination::Addr(address) = to else {
        return false;
    };
    let family = match address.ip().to_canonical() {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    };
    !primary.families.has(family)
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
pub(super) async fn without_proxy(primary: &Primary, connection: Intercepted) {
    let to = connection.destination().clone();
    match primary.config.on_proxy_loss {
        OnProxyLoss::Fail => {
            warn!(%to, "no path to the proxy: connection refused");
            connection.refused(Refusal::ProxyLost).await;
        }
        OnProxyLoss::Direct => {
            warn!(%to, "no path to the proxy: connection goes direct, over one path");
            primary.direct.update(|n| n + 1);
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
