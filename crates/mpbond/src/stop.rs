//! Signals that stop a daemon.

use tokio::signal::unix::{Signal, SignalKind, signal as listen};

/// Receiver of SIGINT and SIGTERM; none is lost between its creation and the wait.
#[derive(Debug)]
pub(crate) struct Stop(Option<(Signal, Signal)>);

impl Stop {
    /// Installs the handlers. Must be called within a runtime.
    pub(crate) fn listen() -> Self {
        let int = listen(SignalKind::interrupt());
        let term = listen(SignalKind::terminate());
        Self(int.ok().zip(term.ok()))
    }

    /// Waits for a signal, and returns its name.
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

/// Waits for SIGINT or SIGTERM, and returns its name.
pub(crate) async fn signal() -> &'static str {
    Stop::listen().wait().await
}
