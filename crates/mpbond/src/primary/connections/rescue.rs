//! Connections taken back from a session whose proxy never heard of them, and connected direct.

use std::rc::Rc;

use mpbond_intercept::Destination;
use mpbond_net::resolve::Resolver;
use mpbond_session::StreamId;
use tokio::io::{AsyncWriteExt as _, copy_bidirectional};
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::direct::{DIRECT_WITHIN, connect};
use super::reach::Reach;
use crate::config::OnProxyLoss;
use crate::driver::{Reclaimed, reset_on_close};
use crate::primary::actions::handles::Rescuable;
use crate::primary::state::Primary;

/// Has the manager watch over a new stream.
pub(in crate::primary) fn watch(
    primary: &Rc<Primary>,
    stream: StreamId,
    to: Destination,
    may_repeat: fn(&[u8]) -> bool,
    reach: Reach,
) {
    let rescuable = Rescuable {
        to,
        may_repeat,
        reach,
        has_look_ups: false,
    };
    watch_this(primary, stream, rescuable);
}

/// The same for a new stream to a resolver, which may be asked twice.
pub(in crate::primary) fn watch_look_ups(primary: &Rc<Primary>, stream: StreamId, to: Destination) {
    let rescuable = Rescuable {
        to,
        may_repeat: |_| true,
        reach: Reach::Any,
        has_look_ups: true,
    };
    watch_this(primary, stream, rescuable);
}

fn watch_this(primary: &Rc<Primary>, stream: StreamId, rescuable: Rescuable) {
    if primary.on_proxy_loss.get() == OnProxyLoss::Direct {
        primary.rescuable.borrow_mut().insert(stream, rescuable);
    }
    primary.manage(|m, now| m.handle_opened(now, stream));
}

/// Tells the manager whether the proxy has heard of a stream.
pub(in crate::primary) fn check(primary: &Primary, stream: StreamId) {
    let driver = primary.driver.borrow();
    let heard = driver.as_ref().is_none_or(|d| !d.is_unheard(stream));
    if heard {
        primary.rescuable.borrow_mut().remove(&stream);
    }
    let now = primary.clock.now();
    let mut manager = primary.manager.borrow_mut();
    manager.handle_stream(now, stream, heard);
}

/// Takes the application's connection back and connects it direct, if that can do no harm.
/// Otherwise it stays with the session.
pub(in crate::primary) fn go_direct(primary: &Primary, stream: StreamId) {
    let driver = primary.driver.borrow().clone();
    let rescuable = primary.rescuable.borrow_mut().remove(&stream);
    let (Some(driver), Some(rescuable)) = (driver, rescuable) else {
        return;
    };
    let Rescuable {
        to,
        may_repeat,
        reach,
        has_look_ups,
    } = rescuable;
    // The system's route may lead over that link. Look-ups are no connections.
    if !has_look_ups && primary.forbids_a_link() {
        return info!(
            %to,
            "the proxy does not answer: connection waits for it, since a cap or a floor excludes \
             a link"
        );
    }
    if driver.reclaim_asked(stream) {
        // Its client waits, and is served without the session.
        return;
    }
    match driver.reclaim(stream, may_repeat) {
        Some(connection) => {
            warn!(%to, "the proxy does not answer: connection goes direct, over one path");
            primary.direct.update(|n| n + 1);
            let (resolver, busy) = (Rc::clone(&primary.resolver), Rc::clone(&primary.busy));
            // The local network may answer them.
            let paused = has_look_ups.then(|| primary.known_names.pause());
            crate::task::spawn_local(async move {
                let _paused = paused;
                direct(resolver, connection, to, reach).await;
                drop(busy);
            });
        }
        None => info!(
            %to,
            "the proxy does not answer: connection waits for it, since what was said on it may \
             not be repeated"
        ),
    }
}

async fn direct(resolver: Rc<Resolver<()>>, connection: Reclaimed, to: Destination, reach: Reach) {
    let Reclaimed { mut socket, said } = connection;
    let reached = timeout(DIRECT_WITHIN, connect(&resolver, &to, reach)).await;
    let result = match reached {
        Ok(Ok(mut origin)) => {
            let result = match origin.write_all(&said).await {
                Ok(()) => copy_bidirectional(&mut socket, &mut origin).await.map(drop),
                Err(e) => Err(e),
            };
            // What is cut short is not complete, at the origin, either.
            result.inspect_err(|_| reset_on_close(&origin))
        }
        Ok(Err(e)) => Err(e),
        Err(e) => Err(e.into()),
    };
    if let Err(e) = result {
        // The application was told that it is connected.
        debug!(%to, error = %e, "direct connection broke");
        socket.abort(None);
    }
}
