//! Room for clients' connections: a place in the session, or what becomes of a client without one.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use mpbond_intercept as intercept;
use mpbond_intercept::{Intercepted, Refusal};
use mpbond_manager::Admission;
use mpbond_policy::Multipath;
use mpbond_session::{Destination, PathSet};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};

use super::direct;
use super::waiting::For;
use crate::config::OnProxyLoss;
use crate::driver::{Driver, Place};
use crate::primary::rules::{paths::Permitted, ruling::Ruling};
use crate::primary::state::Primary;

/// Time for which a client waits where the proxy takes no more streams.
const WAIT_FOR_ROOM: Duration = Duration::from_secs(10);

/// Time for which the paths of a connection may have gone before it is refused.
const PATHS_BACK_WITHIN: Duration = Duration::from_secs(5);

/// Room for a client's connection.
pub(in crate::primary) enum Room {
    /// In the session.
    Free(Place),
    /// None in the session.
    Full,
    /// The proxy lacks the address family of the destination.
    OutOfReach,
    /// No path to the proxy works.
    WithoutProxy,
    /// The policy does not permit it now, for this reason.
    NotPermitted(&'static str),
}

/// Takes a place in the session for a connection to this destination, once the session has a path
/// that works and that the ruling lets it use, and takes another stream. It has waited since then,
/// and waits for a radio that is awake for so long.
pub(in crate::primary) async fn place(
    primary: &Rc<Primary>,
    client: SocketAddr,
    to: &intercept::Destination,
    ruling: &Ruling,
    (since, for_radio): (Instant, Duration),
) -> Room {
    // From when it is known that there is none.
    let mut deadline = None;
    let waiting = primary.waiting.enter(since, client, to, ruling);
    let mut changed = primary.changed.subscribe();
    loop {
        waiting.waits_for(For::Session, None);
        let driver = usable_session(primary).await;
        // Asking the manager counts as a change.
        changed.borrow_and_update();
        // Another policy, or another state of links, may permit it, or let it wait longer.
        let (wait_until, reason) = match primary.permitted(ruling) {
            Permitted::Now => (None, ""),
            Permitted::After(delay) => (Some(since + delay), "no path that it may use works"),
            Permitted::Never(reason) => (Some(since), reason),
        };
        let Some(driver) = driver.filter(|_| wait_until.is_none()) else {
            let Some(wait_until) = wait_until else {
                return Room::WithoutProxy;
            };
            waiting.waits_for(For::Path, Some(wait_until));
            let has_changed = timeout_at(wait_until, changed.changed()).await.is_ok();
            let in_time = has_changed && Instant::now() < wait_until;
            match in_time && ruling.is_current(primary) {
                true => continue,
                false => return Room::NotPermitted(reason),
            }
        };
        let radio_until = since + for_radio;
        waiting.waits_for(For::Radio, Some(radio_until));
        if primary.waits_for_radio(ruling, radio_until).await {
            match ruling.is_current(primary) {
                true => continue,
                false => return Room::NotPermitted("the policy has changed"),
            }
        }
        // Another session may be with another proxy process.
        if is_out_of_reach(primary, to) {
            return Room::OutOfReach;
        }
        let is_free = primary.paths_for(ruling, Multipath::Aggregate, None) == PathSet::ALL;
        if !is_free && !driver.obeys_paths() {
            let reason = "the proxy is too old to keep it to the paths that it may use";
            return Room::NotPermitted(reason);
        }
        if let Some(place) = driver.reserve() {
            return Room::Free(place);
        }
        let deadline = *deadline.get_or_insert_with(|| Instant::now() + WAIT_FOR_ROOM);
        waiting.waits_for(For::Room, Some(deadline));
        if timeout_at(deadline, primary.room.notified()).await.is_err() {
            return Room::Full;
        }
    }
}

/// Refuses a client for which there is no room, before it is told that it is connected.
pub(in crate::primary) async fn no_room(primary: &Primary, connection: Intercepted, reason: &str) {
    let (peer, to) = (connection.peer(), connection.destination().clone());
    debug!(%peer, %to, reason, "connection refused");
    if primary.crowded.is_due() {
        warn!(%peer, %to, reason, "connections are refused");
    }
    if let Ok(_share) = primary.refusals.take(()) {
        connection.refused(Refusal::TooMany).await;
    }
}

/// Waits until no path of a ruling has worked for some time, in which a lost one would be back.
pub(super) async fn loses_paths(primary: &Rc<Primary>, ruling: &Ruling) {
    if !ruling.is_restricted() {
        return std::future::pending().await;
    }
    let mut changed = primary.changed.subscribe();
    loop {
        // The sender is there as long as the primary.
        let change = changed.changed();
        match primary.permitted(ruling) {
            Permitted::Now => drop(change.await),
            Permitted::After(_) | Permitted::Never(_) => {
                if !comes_back(primary, ruling, Instant::now() + PATHS_BACK_WITHIN).await {
                    return;
                }
            }
        }
    }
}

/// Whether a path of a ruling works before the deadline.
async fn comes_back(primary: &Rc<Primary>, ruling: &Ruling, deadline: Instant) -> bool {
    let mut changed = primary.changed.subscribe();
    while primary.permitted(ruling) != Permitted::Now {
        if timeout_at(deadline, changed.changed()).await.is_err() {
            return false;
        }
    }
    true
}

/// Refuses a client that the policy does not permit now.
pub(in crate::primary) async fn not_permitted(
    primary: &Primary,
    connection: Intercepted,
    ruling: &Ruling,
    reason: &str,
) {
    let (peer, to) = (connection.peer(), connection.destination().clone());
    let rule = ruling.rule_name().unwrap_or("default");
    debug!(%peer, %to, rule, reason, "connection refused");
    if primary.refused_by_rules.is_due() {
        warn!(%peer, %to, rule, reason, "connections are refused by the policy");
    }
    connection.refused(Refusal::NotAllowed).await;
}

/// Whether the proxy lacks the address family of a destination.
fn is_out_of_reach(primary: &Primary, to: &intercept::Destination) -> bool {
    let intercept::Destination::Addr(address) = to else {
        return false;
    };
    primary.families.carried.lacks(address.ip().into())
}

/// The session, once it has a path that works; `None` if none has worked for too long.
pub(in crate::primary) async fn usable_session(primary: &Rc<Primary>) -> Option<Driver> {
    let mut changed = primary.changed.subscribe();
    primary.manage_with_facts(|_, _| ());
    loop {
        let admission = primary.manager.borrow().admission(primary.clock.now());
        match admission {
            Admission::Session => return primary.driver.borrow().clone(),
            Admission::WithoutProxy => return None,
            Admission::Wait(until) => {
                let until = primary.clock.instant(until);
                let _ = timeout_at(until, changed.changed()).await;
            }
        }
    }
}

/// No path to the proxy works.
pub(in crate::primary) async fn without_proxy(
    primary: &Rc<Primary>,
    connection: Intercepted,
    ruling: &Ruling,
) {
    let to = connection.destination().clone();
    match primary.on_proxy_loss.get() {
        OnProxyLoss::Fail => {
            warn!(%to, "no path to the proxy: connection refused");
            connection.refused(Refusal::ProxyLost).await;
        }
        OnProxyLoss::Direct => {
            warn!(%to, "no path to the proxy: connection goes direct, over one path");
            primary.direct.update(|n| n + 1);
            let budget = primary.budget_of(ruling);
            if budget.is_some() {
                primary.watch_limits();
            }
            direct::serve(&primary.resolver, connection, &to, budget).await;
        }
    }
}

/// An interceptor's destination in the session's type.
pub(in crate::primary) fn destination(to: &intercept::Destination) -> Destination {
    match to {
        intercept::Destination::Addr(a) => Destination::Addr(*a),
        intercept::Destination::Name { host, port } => Destination::Name {
            host: host.clone(),
            port: *port,
        },
    }
}

/// Early data of a connection without any.
pub(in crate::primary) const NO_EARLY: Bytes = Bytes::new();
