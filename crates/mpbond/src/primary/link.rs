//! A PS-Path: kept up as long as the daemon runs.

use std::rc::Rc;
use std::time::Duration;

use mpbond_net::tcp::{self, TcpOptions};
use mpbond_net::tls::TlsStream;
use mpbond_session::SubflowSetup;
use tokio::time::Instant;
use tracing::info;

use super::{Backoff, Primary};
use crate::config::PathConfig;

/// A TLS handshake that takes longer failed.
pub(super) const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// A path that lasted so long is joined again at once when it is lost.
pub(super) const STEADY: Duration = Duration::from_secs(5);

/// Joins over one of the primary's own links, again and again.
pub(super) async fn keep_path(primary: Rc<Primary>, slot: usize, path: PathConfig) {
    let mut backoff = Backoff::new();
    loop {
        let driver = primary.session().await;
        primary.set_link(slot, "connecting", None);
        match connect(&primary, &path).await {
            Ok(tls) => {
                let setup = SubflowSetup {
                    name: path.name.clone(),
                    backup: path.backup,
                    ..SubflowSetup::default()
                };
                let since = Instant::now();
                let (_, gone) = driver.add_subflow(tls, setup);
                primary.set_link(slot, "up", None);
                primary.usable.send_replace(());
                // Fails when the subflow is dropped: that is the message.
                let _ = gone.await;
                primary.set_link(slot, "waiting", Some("connection lost".to_owned()));
                if since.elapsed() > STEADY {
                    backoff.reset();
                }
            }
            Err(e) => {
                info!(
                    path = path.name,
                    error = format!("{e:#}"),
                    "path not joined"
                );
                primary.set_link(slot, "waiting", Some(format!("{e:#}")));
            }
        }
        backoff.pause(&primary.network).await;
    }
}

async fn connect(primary: &Primary, path: &PathConfig) -> anyhow::Result<TlsStream> {
    let options = TcpOptions {
        source: path.source,
        interface: path.interface.clone(),
        connect_timeout: HANDSHAKE_WITHIN,
        tuning: primary.tuning(),
        ..TcpOptions::to(primary.config.proxy.address)
    };
    let tcp = tcp::connect(&options).await?;
    let deadline = Instant::now() + HANDSHAKE_WITHIN;
    Ok(TlsStream::connect(tcp, &primary.identity, primary.config.proxy.id, deadline).await?)
}
