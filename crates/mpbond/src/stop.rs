//! Signals that stop a daemon, or have it read its configuration again.

use std::io::IsTerminal as _;

use tokio::signal::unix::{Signal, SignalKind, signal as listen};

use crate::process::{Orders, Process};

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

/// Receiver of the signals for a daemon. SIGINT and SIGTERM stop it. SIGHUP has it read its
/// configuration again, unless the terminal at which it was started is gone: that stops it. So does
/// the failure of another daemon of its process.
pub(crate) struct DaemonStop {
    stop: Stop,
    orders: Orders,
    hangup: Option<Signal>,
    at_terminal: bool,
    reload: Box<dyn Fn()>,
}

impl DaemonStop {
    /// Installs the handlers. Must be called within a runtime.
    pub(crate) fn listen(process: &Process, reload: impl Fn() + 'static) -> Self {
        Self {
            stop: Stop::listen(),
            orders: process.orders(),
            hangup: listen(SignalKind::hangup()).ok(),
            at_terminal: std::io::stdin().is_terminal(),
            reload: Box::new(reload),
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
                // It becomes an order for all daemons of the process.
                name = self.stop.wait() => self.orders.signal(name),
                reason = self.orders.wait() => return reason,
                _ = hung_up => {
                    // The kernel makes it unusable before it sends the signal.
                    if self.at_terminal && !std::io::stdin().is_terminal() {
                        return "SIGHUP";
                    }
                    (self.reload)();
                }
            }
        }
    }
}
