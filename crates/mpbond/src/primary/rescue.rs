//! New connections that went into a session of which nobody knew that the proxy was gone.

use std::time::Duration;

use mpbond_intercept::Destination;
use mpbond_session::StreamId;
use tokio::io::{AsyncWriteExt as _, copy_bidirectional};
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::fronts::{DIRECT_WITHIN, connect};
use super::{Primary, WAIT_FOR_PATH};
use crate::config::OnProxyLoss;
use crate::driver::{Driver, Reclaimed};

/// How often it is looked whether the proxy has heard of a connection that waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Waits until the proxy has heard of a new stream. Where it does not, and no path works, the
/// connection goes direct after all, if what the application has said may be said twice. Otherwise
/// it stays with the session.
pub(super) async fn rescue(
    primary: &Primary,
    driver: &Driver,
    stream: StreamId,
    to: &Destination,
    may_repeat: fn(&[u8]) -> bool,
) {
    if primary.config.on_proxy_loss != OnProxyLoss::Direct {
        return;
    }
    sleep(WAIT_FOR_PATH).await;
    while driver.is_usable() && driver.is_unheard(stream) {
        sleep(LOOK_EVERY).await;
    }
    if !driver.is_unheard(stream) {
        return;
    }
    match driver.reclaim(stream, may_repeat) {
        Some(connection) => {
            warn!(%to, "the proxy does not answer: connection goes direct, over one path");
            go_direct(connection, to).await;
        }
        None => info!(
            %to,
            "the proxy does not answer: connection waits for it, since what was said on it may \
             not be repeated"
        ),
    }
}

async fn go_direct(connection: Reclaimed, to: &Destination) {
    let Reclaimed { mut socket, said } = connection;
    let reached = timeout(DIRECT_WITHIN, connect(to)).await;
    let result = match reached {
        Ok(Ok(mut origin)) => match origin.write_all(&said).await {
            Ok(()) => copy_bidirectional(&mut socket, &mut origin).await.map(drop),
            Err(e) => Err(e),
        },
        Ok(Err(e)) => Err(e),
        Err(e) => Err(e.into()),
    };
    if let Err(e) = result {
        // It has been told yes.
        debug!(%to, error = %e, "direct connection broke");
        socket.abort();
    }
}
