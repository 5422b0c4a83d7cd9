//! Signals that stop a daemon.

use std::io::IsTerminal as _;

use tokio::signal::unix::{Signal, SignalKind, signal as listen};
use tracing::warn;

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

/// Receiver of the signals that stop a daemon: SIGINT, SIGTERM, and SIGHUP of the terminal at which
/// the daemon was started. Without a terminal SIGHUP is logged and ignored: it is customary for
/// "read the configuration again", which would otherwise end the daemon.
#[derive(Debug)]
pub(crate) struct DaemonStop {
    stop: Stop,
    hangup: Option<Signal>,
    at_terminal: bool,
}

impl DaemonStop {
    /// Installs the handlers. Must be called within a runtime.
    pub(crate) fn listen() -> Self {
        Self {
            stop: Stop::listen(),
            hangup: listen(SignalKind::hangup()).ok(),
            at_terminal: std::io::stdin().is_terminal(),
        }
    }

    /// Waits for a signal that stops the daemon, and returns its name.
    pub(crate) async fn wait(&mut self) -> &'static str {
        loop {
            let hung_up = async {
                match &mut self.hangup {
                    Some(hangup) => hangup.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                reason = self.stop.wait() => return reason,
                _ = hung_up => {
                    if self.at_terminal {
                        return "SIGHUP";
                    }
                    warn!("SIGHUP is ignored: restart the daemon to apply a changed configuration");
                }
            }
        }
    }
}
