//! When a daemon is to stop.

use tokio::signal::unix::{Signal, SignalKind, signal as listen};

/// SIGINT and SIGTERM from now on: none that comes before it is waited for is lost.
#[derive(Debug)]
pub(crate) struct Stop(Option<(Signal, Signal)>);

impl Stop {
    /// Begins to listen. Has to be called within a runtime.
    pub(crate) fn listen() -> Self {
        let int = listen(SignalKind::interrupt());
        let term = listen(SignalKind::terminate());
        Self(int.ok().zip(term.ok()))
    }

    /// Waits for one of them; returns which.
    pub(crate) async fn wait(&mut self) -> &'static str {
        match &mut self.0 {
            Some((int, term)) => tokio::select! {
                _ = int.recv() => "SIGINT",
                _ = term.recv() => "SIGTERM",
            },
            // Without handlers the signals end the process by themselves.
            None => std::future::pending().await,
        }
    }
}

/// Waits for SIGINT or SIGTERM; returns which.
pub(crate) async fn signal() -> &'static str {
    Stop::listen().wait().await
}
