//! The daemons of one process: one, or those of a device with several roles (`mpbond up`), each on
//! a thread of its own. They start together, give up privileges together and stop together.

use std::sync::Arc;

use tokio::sync::watch;
use tracing::info;

use crate::sandbox::Plan;
use crate::status::SandboxStatus;

/// Reason to stop that is no order of a person.
pub(crate) const FAILURE: &str = "failure of another role";

/// What the daemons of a process have in common; each has a copy.
#[derive(Clone, Debug)]
pub struct Process(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    daemons: usize,
    marks: bool,
    state: watch::Sender<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Privileges that the daemons need which are set up.
    plan: Plan,
    /// Daemons that are set up, that have given up what none of them needs, that can serve, and
    /// that do.
    set_up: usize,
    confined: usize,
    prepared: usize,
    ready: usize,
    /// A daemon has ended with an error, so that the others stop.
    failed: bool,
    /// Signals to stop that the process has received.
    signals: u32,
    /// Reason of the last order to stop.
    reason: &'static str,
}

/// A daemon ended because of the error of another one.
#[derive(Debug, thiserror::Error)]
#[error("stopped, since another role of this device has failed")]
pub struct Stopped;

impl Default for Process {
    /// The process of a single daemon.
    fn default() -> Self {
        Self::new(1, false)
    }
}

impl Process {
    /// A process with so many daemons. `marks`: one of them intercepts connections, so that the
    /// own ones of all bear the mark that interception lets through.
    pub fn new(daemons: usize, marks: bool) -> Self {
        let state = watch::Sender::new(State::default());
        Self(Arc::new(Shared {
            daemons,
            marks,
            state,
        }))
    }

    /// Runs a daemon of this process. When it ends with an error or a panic, the others stop.
    ///
    /// # Errors
    /// Those of the daemon.
    pub fn run<E>(&self, daemon: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        struct Failing<'a>(Option<&'a Process>);
        impl Drop for Failing<'_> {
            fn drop(&mut self) {
                if let Some(process) = self.0 {
                    process.0.state.send_modify(|state| {
                        state.failed = true;
                        state.reason = FAILURE;
                    });
                }
            }
        }
        let mut failing = Failing(Some(self));
        let result = daemon();
        if result.is_ok() {
            failing.0 = None;
        }
        result
    }

    /// Number of its daemons.
    pub(crate) fn daemons(&self) -> usize {
        self.0.daemons
    }

    /// Whether own connections of all daemons bear the mark.
    pub(crate) fn marks(&self) -> bool {
        self.0.marks
    }

    /// Waits until all daemons are set up, confines the calling thread to what all of them need,
    /// and waits until all are confined: what one keeps, an attacker in any of them has. Without a
    /// plan nothing is given up.
    ///
    /// # Errors
    /// Another daemon has failed.
    pub(crate) async fn confine(
        &self,
        plan: Option<Plan>,
    ) -> Result<Option<SandboxStatus>, Stopped> {
        let state = &self.0.state;
        let is_confined = plan.is_some();
        state.send_modify(|state| {
            state.plan.extend(plan.unwrap_or_default());
            state.set_up += 1;
        });
        self.all(|state| state.set_up).await?;
        let whole = is_confined.then(|| state.borrow().plan.clone());
        let entered = whole.map(|plan| plan.enter(self.0.daemons - 1));
        state.send_modify(|state| state.confined += 1);
        self.all(|state| state.confined).await?;
        Ok(entered)
    }

    /// This daemon can serve: waits until all can. Then they take over from a process before, if
    /// there is one: none of them before all can.
    ///
    /// # Errors
    /// Another daemon has failed.
    pub(crate) async fn prepared(&self) -> Result<(), Stopped> {
        self.0.state.send_modify(|state| state.prepared += 1);
        self.all(|state| state.prepared).await
    }

    async fn all(&self, count: fn(&State) -> usize) -> Result<(), Stopped> {
        let mut state = self.0.state.subscribe();
        let are_all = |state: &State| count(state) == self.0.daemons;
        let seen = state.wait_for(|state| state.failed || are_all(state)).await;
        // The sender is there as long as this process.
        match seen.is_ok_and(|state| are_all(&state)) {
            true => Ok(()),
            false => Err(Stopped),
        }
    }

    /// A daemon is ready. Returns whether all are now, which the service manager is told.
    pub(crate) fn ready(&self) -> bool {
        let mut are_all = false;
        self.0.state.send_modify(|state| {
            state.ready += 1;
            are_all = state.ready == self.0.daemons;
        });
        if are_all && self.0.daemons > 1 {
            info!("all roles are ready");
        }
        are_all
    }

    /// The order to stop, for a daemon that begins to listen to signals.
    pub(crate) fn orders(&self) -> Orders {
        Orders {
            state: self.0.state.subscribe(),
            process: self.clone(),
            received: 0,
            obeyed: 0,
        }
    }
}

/// Orders to stop. Each signal is obeyed once by each daemon, also by one that did not listen when
/// it came.
pub(crate) struct Orders {
    state: watch::Receiver<State>,
    process: Process,
    /// Signals that this daemon has received itself.
    received: u32,
    obeyed: u32,
}

impl Orders {
    /// This daemon has received a signal to stop.
    pub(crate) fn signal(&mut self, name: &'static str) {
        self.received += 1;
        let received = self.received;
        self.process.0.state.send_modify(|state| {
            state.signals = state.signals.max(received);
            state.reason = name;
        });
    }

    /// Waits for an order that was not obeyed yet.
    pub(crate) async fn wait(&mut self) -> &'static str {
        let obeyed = self.obeyed;
        let is_new = |state: &State| orders(state) > obeyed;
        let reason = match self.state.wait_for(is_new).await {
            Ok(state) => state.reason,
            // The sender is there as long as the process.
            Err(_) => FAILURE,
        };
        self.obeyed += 1;
        reason
    }
}

fn orders(state: &State) -> u32 {
    state.signals + u32::from(state.failed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_daemon_waits_for_the_others_and_stops_with_the_one_that_fails() {
        let process = Process::new(2, false);
        let waiting = process.confine(None);
        let mut waiting = std::pin::pin!(waiting);
        assert!(
            timeout(Duration::from_millis(20), &mut waiting)
                .await
                .is_err()
        );
        let (one, other) = tokio::join!(waiting, process.confine(None));
        assert!(one.is_ok() && other.is_ok());

        let mut orders = process.orders();
        let early = timeout(Duration::from_millis(20), orders.wait()).await;
        assert!(early.is_err());
        let failed = process.run(|| Err::<(), _>("no address"));
        assert_eq!(failed, Err("no address"));
        assert_eq!(orders.wait().await, FAILURE);

        let process = Process::new(2, false);
        let fails = async {
            let _ = process.run(|| Err::<(), _>(()));
        };
        let (waited, ()) = tokio::join!(process.confine(None), fails);
        assert!(waited.is_err(), "it would wait for ever");
        assert!(
            process.prepared().await.is_err(),
            "it would take over alone"
        );
    }

    #[tokio::test]
    async fn a_signal_is_obeyed_once_by_each_daemon() {
        let process = Process::new(2, false);
        let mut one = process.orders();
        one.signal("SIGTERM");
        // It did not listen when the signal came.
        let mut late = process.orders();
        let mut both = process.orders();
        both.signal("SIGTERM");
        for orders in [&mut one, &mut late, &mut both] {
            assert_eq!(orders.wait().await, "SIGTERM");
            let again = timeout(Duration::from_millis(20), orders.wait()).await;
            assert!(again.is_err(), "obeyed twice");
        }
        both.signal("SIGTERM");
        for orders in [&mut one, &mut late, &mut both] {
            assert_eq!(orders.wait().await, "SIGTERM");
        }
    }
}
