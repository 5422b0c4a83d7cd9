//! Connections that are confirmed to their applications only when the proxy has reached the
//! destination, so that a refusal arrives with its reason (ADR 0017).

use std::rc::Rc;
use std::time::{Duration, Instant};

use mpbond_intercept::{Intercepted, Refusal};
use mpbond_session::{Destination, ResetCode};
use tokio::time::sleep;
use tracing::{debug, info};

use super::flows::Share;
use super::reach::Reach;
use super::rescue;
use super::room::{self, destination};
use crate::driver::{Answer, Client, Place, refusal};
use crate::primary::rules::{classes::Treated, ruling::Ruling};
use crate::primary::state::Primary;

/// Time after which a proxy that has not answered will not: its own look-ups and attempts take less
/// than half of it.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// Serves a client that waits for a reply. Gives it back if the session has ended before the proxy
/// answered: the next one may reach the destination.
pub(in crate::primary) async fn serve(
    primary: &Rc<Primary>,
    connection: Intercepted,
    place: Place,
    Treated {
        treatment,
        multipath,
        watch,
    }: Treated,
    ruling: &Ruling,
    share: Share,
) -> Option<(Intercepted, Share)> {
    let (peer, asked) = (connection.peer(), connection.destination().clone());
    let to = destination(&asked);
    let driver = place.driver().clone();
    let Ok((stream, answer)) = place.ask(to.clone(), treatment) else {
        return Some((connection, share));
    };
    debug!(%peer, %to, %stream, "stream opened");
    let number = share.number();
    let carried_as = (ruling, multipath);
    primary.flows.carried(number, &driver, stream, carried_as);
    primary.watch_limits();
    if !ruling.is_restricted() {
        // Nothing was said on it.
        rescue::watch(primary, stream, asked, |_| true, Reach::of(peer.ip()));
    }
    let answer = tokio::select! {
        // An answer that is there counts, also if the client has left.
        biased;
        answer = answer => answer.ok(),
        () = left(&connection) => {
            debug!(%peer, %to, "client left");
            driver.refuse(stream, ResetCode::Cancelled);
            return None;
        }
        () = room::loses_paths(primary, ruling) => {
            driver.refuse(stream, ResetCode::Cancelled);
            let reason = "the paths that it may use have gone";
            room::not_permitted(primary, connection, ruling, reason).await;
            return None;
        }
        () = sleep(ANSWERED_WITHIN) => {
            info!(%to, "the proxy does not say whether it reaches the destination");
            driver.refuse(stream, ResetCode::Cancelled);
            connection.refused(Refusal::TimedOut).await;
            return None;
        }
    };
    match answer {
        Some(Answer::Connected) => {
            primary.reached.borrow_mut().add(Instant::now(), to);
            match connection.accepted().await {
                Ok(client) => driver.attach(
                    stream,
                    Client::new(client, watch, primary.budget_of(ruling), share),
                ),
                Err(e) => {
                    debug!(%peer, error = %e, "client left");
                    driver.refuse(stream, ResetCode::Cancelled);
                }
            }
        }
        Some(Answer::Refused(code)) => connection.refused(refusal(code)).await,
        Some(Answer::Unheard) if ruling.is_current(primary) => {
            room::without_proxy(primary, connection, ruling).await;
        }
        // The policy has changed, or the session has ended.
        Some(Answer::Unheard) | None => return Some((connection, share)),
    }
    None
}

/// Waits until the client has closed its connection.
pub(in crate::primary) async fn left(connection: &Intercepted) {
    if connection.has_early() {
        // It may have finished writing.
        return std::future::pending().await;
    }
    match connection.socket().peek(&mut [0]).await {
        Ok(0) | Err(_) => {}
        // An end behind these bytes is not seen.
        Ok(_) => std::future::pending().await,
    }
}

/// A destination was not reached.
pub(in crate::primary) fn not_reached(primary: &Primary, to: &Destination, code: ResetCode) {
    primary.reached.borrow_mut().remove(to);
    let remedy = match code {
        ResetCode::Forbidden => {
            "; the proxy's log names the rule, and [destinations] in its configuration changes it"
        }
        ResetCode::Overloaded => "; the proxy's log tells which limit was reached",
        _ => "",
    };
    if let Some(line) = primary.unreached.line(to.clone(), primary.clock.now()) {
        let left_out = line.left_out;
        info!(%to, left_out, "destination not reached: {code}{remedy}");
    }
}
