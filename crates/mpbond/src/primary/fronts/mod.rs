//! Fronts: listeners for applications' connections, which go into the session or past it.

pub(super) mod carried_families;
pub(super) mod dns;
pub(super) mod families;
mod following;
pub(super) mod local_names;
mod repeatable;
pub(super) mod server_name;
pub(super) mod transparent;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use mpbond_intercept::dns::Family;
use mpbond_intercept::{Front, FrontConfig, Intercepted, Protocol, Reception, Refusal};
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::rules;
use super::state::Primary;
use crate::config::{FrontAddress, read_credentials};
use crate::driver::Client;
use crate::primary::connections::{
    confirmed, direct,
    identity::Identity,
    reach::Reach,
    rescue,
    room::{self, Room, destination, no_room, not_permitted, without_proxy},
};
use crate::primary::rules::{
    classes::{self, Treated},
    ruling::Handling,
};
use crate::quota::Full;
use crate::upgrade::{self, Listeners};
use following::Following;
use repeatable::is_repeatable;

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
            let key = upgrade::at(*listen);
            let front = open(own, key, *listen, config, Reception::Accept);
            let front = front.map_err(|e| match e.kind() {
                io::ErrorKind::AddrInUse => anyhow!(
                    "{name} front on {listen}: another program has this port (`ss -ltnp` shows \
                     it): stop that one, or change `listen`"
                ),
                _ => anyhow!("{name} front on {listen}: {e}"),
            })?;
            info!(address = %front.local_addr(), "{name} front");
            opened.push(front);
        }
    }
    Ok(opened)
}

/// Opens one front, whose clients the kernel treats like this at first, or takes over the listener
/// of this name as it is.
pub(super) fn open(
    own: &mut Listeners,
    name: String,
    address: SocketAddr,
    config: FrontConfig,
    reception: Reception,
) -> io::Result<Front> {
    let front = match own.inherit(&name)? {
        Some(listener) => Front::with_listener(listener, config)?,
        None => {
            let mut front = Front::bind(address, config)?;
            if let Err(error) = front.set_reception(reception) {
                debug!(%error, %address, ?reception, "new clients are not treated like this");
            }
            front
        }
    };
    if let Some(socket) = front.socket() {
        own.offer(name, &socket)?;
    }
    Ok(front)
}

/// Serves a front's clients until another process has taken over, or the primary stops. Where all
/// their destinations are of one family, the kernel refuses them while connections of that family
/// are not carried.
pub(super) fn run(primary: &Rc<Primary>, mut front: Front, family: Option<Family>) {
    let primary = Rc::clone(primary);
    crate::task::spawn_local(async move {
        let _busy = Rc::clone(&primary.busy);
        let mut handed_over = primary.handed_over.subscribe();
        let begin = |connection| {
            let (primary, busy) = (Rc::clone(&primary), Rc::clone(&primary.busy));
            crate::task::spawn_local(async move {
                serve(primary, connection).await;
                drop(busy);
            });
        };
        let mut following = family.map(Following::new);
        loop {
            let next = async {
                match &mut following {
                    Some(following) => following.accept(&mut front, &primary.families).await,
                    None => front.accept().await,
                }
            };
            tokio::select! {
                connection = next => begin(connection),
                _ = handed_over.wait_for(|over| *over) => break,
            }
        }
        front.close();
        debug!(address = %front.local_addr(), "no further clients");
        while !front.is_idle() {
            if let Ok(connection) = timeout(LOOK_EVERY, front.accept()).await {
                begin(connection);
            }
        }
    });
}

async fn serve(primary: Rc<Primary>, mut connection: Intercepted) {
    let identity = Rc::new(Identity::of(&primary.owners, &connection));
    // Held until the connection is over.
    let mut share = match primary.clients.take(&identity) {
        Ok(place) => primary.flows.enter(place, &identity),
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
    let mut ruling = rules::apply(&primary, &connection, &identity).await;
    let since = Instant::now().into();
    let (place, treated) = loop {
        let for_radio = classes::wait_for_radio(&connection, &identity, &ruling);
        let (waits, peer) = ((since, for_radio), connection.peer());
        let room = match ruling.handling {
            Handling::Carry => tokio::select! {
                room = room::place(&primary, peer, &asked, &ruling, waits) => Some(room),
                // It may wait for an hour.
                () = confirmed::left(&connection), if ruling.may_wait() || !for_radio.is_zero() => {
                    return debug!(%to, "client left");
                }
            },
            Handling::Direct | Handling::Refuse => None,
        };
        // It may have waited for a path or for room meanwhile.
        if !ruling.is_current(&primary) {
            if let Some(Room::Free(place)) = room {
                drop(place);
                primary.room.notify_one();
            }
            ruling = rules::apply(&primary, &connection, &identity).await;
            continue;
        }
        ruling.note(&primary, &connection);
        let place = match room {
            None if ruling.handling == Handling::Direct => {
                return direct::serve(&primary.resolver, connection, &asked, None).await;
            }
            None => return connection.refused(Refusal::NotAllowed).await,
            Some(Room::Free(place)) => place,
            Some(Room::Full) => {
                let reason = "the proxy takes no more now";
                return no_room(&primary, connection, reason).await;
            }
            Some(Room::OutOfReach) => {
                info!(%to, "connection refused: the proxy has no route for this address family");
                return connection.refused(Refusal::HostUnreachable).await;
            }
            Some(Room::WithoutProxy) => {
                return without_proxy(&primary, connection, &ruling).await;
            }
            Some(Room::NotPermitted(reason)) => {
                return not_permitted(&primary, connection, &ruling, reason).await;
            }
        };
        let treated = classes::of(&primary, &connection, &identity, &ruling, place.driver());
        let reached = primary.reached.borrow().has(Instant::now(), &to);
        if !connection.is_told() || !place.is_answered() || reached {
            break (place, treated);
        }
        match confirmed::serve(&primary, connection, place, treated, &ruling, share).await {
            Some((again, its)) => (connection, share) = (again, its),
            None => return,
        }
    };
    // The application is told that it is connected, so that its first bytes travel with the OPEN
    // and the connection costs no additional round trip (ADR 0017).
    let Treated {
        treatment,
        multipath,
        watch,
    } = treated;
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
        true => {
            // It is told that it is connected, and waits for no radio any more.
            let room = room::place(&primary, peer, &asked, &ruling, (since, Duration::ZERO)).await;
            Some(room).filter(|_| ruling.is_current(&primary))
        }
        false => Some(Room::Free(place)),
    };
    let Some(Room::Free(place)) = place else {
        warn!(%peer, %to, "connection reset: the session has ended");
        return client.abort();
    };
    let reach = Reach::of(peer.ip());
    let (driver, number) = (place.driver().clone(), share.number());
    let is_restricted = ruling.is_restricted();
    let budget = primary.budget_of(&ruling);
    budget.iter().for_each(|budget| budget.moved(early.len()));
    let client = Client::new(client, watch, budget, share);
    match place.open(to.clone(), treatment, early, client) {
        Ok(stream) => {
            debug!(%peer, %to, %stream, "stream opened");
            let ruling = (&ruling, multipath);
            primary.flows.carried(number, &driver, stream, ruling);
            primary.watch_limits();
            if !is_restricted {
                rescue::watch(&primary, stream, asked, is_repeatable, reach);
            }
        }
        // The client was told that it is connected. Dropping its socket resets it.
        Err(e) => {
            warn!(%peer, %to, error = %e, "connection reset");
        }
    }
}
