//! A daemon gives up what it does not need once it is set up, so that whoever takes it over gets
//! little with it: capabilities, the way to more privileges, files, system calls.
//!
//! It is done between opening what only a privileged process can open (listeners, interception
//! rules, the identity) and the first octet from a stranger. The kernel holds a thread and those
//! that it starts later to it, for good: so it has to come before other threads are started. What
//! a kernel is too old for is left out and told; no part keeps a daemon from running.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod calls;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "calls_unknown.rs"]
mod calls;
mod capabilities;
mod files;

use std::path::Path;

use rustix::thread::set_no_new_privs;
use tracing::{info, warn};

pub use capabilities::Need;
pub use files::{Access, Place, for_names};

use crate::status::SandboxStatus;

/// What a daemon goes on needing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What may take a capability, depending on the kernel.
    pub needs: Vec<Need>,
    /// Files and folders; all others are out of reach.
    pub places: Vec<Place>,
}

impl Plan {
    /// Adds what it takes to name congestion control for new connections.
    pub fn congestion(&mut self, name: Option<&str>) {
        self.needs
            .extend(name.map(|name| Need::Congestion(name.to_owned())));
    }

    /// Adds the removal of the status socket at the end.
    pub fn status_socket(&mut self, path: &Path) {
        if let Some(folder) = path.parent() {
            self.places.push(Place::new(folder, Access::Remove));
        }
    }

    /// Confines this thread and those that it will start. For good: there is no way back.
    ///
    /// Whatever fails is a problem in the answer, and has been logged.
    pub fn enter(&self) -> SandboxStatus {
        let mut status = SandboxStatus::default();
        let mut problem = |what: String| {
            warn!("sandbox: {what}");
            status.problems.push(what);
        };
        if let Some(others) = other_threads() {
            problem(format!(
                "{others} threads were started before, and are not confined"
            ));
        }
        // Before files go out of reach: it looks whether they can be read without capabilities.
        let kept = match capabilities::drop_all_but(&self.needs, &self.places) {
            Ok(kept) => kept,
            Err(e) => {
                problem(format!("capabilities are not given up: {e}"));
                capabilities::names(capabilities::held())
            }
        };
        let no_new_privileges = match set_no_new_privs(true) {
            Ok(()) => true,
            Err(e) => {
                problem(format!("no_new_privs is refused: {e}"));
                false
            }
        };
        let landlock_abi = match files::restrict(&self.places) {
            Ok(abi) => Some(abi),
            Err(e) => {
                problem(format!("files are not confined: {e}"));
                None
            }
        };
        let calls_refused = match calls::refuse() {
            Ok(count) => Some(count),
            Err(e) => {
                problem(format!("system calls are not filtered: {e}"));
                None
            }
        };
        let status = SandboxStatus {
            capabilities: kept,
            no_new_privileges,
            landlock_abi,
            calls_refused,
            ..status
        };
        info!("sandbox: {}", status.summary());
        status
    }
}

/// How many threads there are besides this one, if any.
fn other_threads() -> Option<usize> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?.count();
    threads.checked_sub(1).filter(|others| *others > 0)
}

#[cfg(test)]
mod tests;
