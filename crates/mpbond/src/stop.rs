//! When a daemon is to stop.

use tokio::signal::unix::{SignalKind, signal as listen};

/// Waits for SIGINT or SIGTERM; returns which.
pub(crate) async fn signal() -> &'static str {
    let (int, term) = (
        listen(SignalKind::interrupt()),
        listen(SignalKind::terminate()),
    );
    match (int, term) {
        (Ok(mut int), Ok(mut term)) => tokio::select! {
            _ = int.recv() => "SIGINT",
            _ = term.recv() => "SIGTERM",
        },
        // Without handlers the signals end the process by themselves.
        _ => std::future::pending().await,
    }
}
