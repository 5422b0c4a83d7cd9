//! Privileges that a daemon drops once it is set up, so that an attacker in control of it gains
//! little: capabilities, the way to new privileges, files, system calls.
//!
//! It is done between opening what only a privileged process can open (listeners, interception
//! rules, the identity) and the first octet from a stranger. It applies to a thread and those that
//! it starts later, for good, so it must precede other threads. What an old kernel does not support
//! is left out and reported; no part prevents a daemon from running.

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

/// Privileges that a daemon keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Operations that may need a capability, depending on the kernel.
    pub needs: Vec<Need>,
    /// Files and folders; all others are inaccessible.
    pub places: Vec<Place>,
    /// Further ones, as far as they are accessible without capabilities.
    pub further: Vec<Place>,
}

impl Plan {
    /// Adds all that another plan has.
    pub fn extend(&mut self, other: Self) {
        self.needs.extend(other.needs);
        self.places.extend(other.places);
        self.further.extend(other.further);
    }

    /// Adds setting the congestion control of new connections.
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

    /// Confines this thread and those that it will start, for good.
    ///
    /// `others` are threads that do the same for themselves. Failures are logged and listed as
    /// problems in the result.
    pub fn enter(&self, others: usize) -> SandboxStatus {
        let mut status = SandboxStatus::default();
        let mut problem = |what: String| {
            warn!("sandbox: {what}");
            status.problems.push(what);
        };
        if let Some(others) = other_threads(others) {
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
        let program = files::for_backtraces();
        let places = self.places.iter().chain(&self.further).chain(&program);
        let landlock_abi = match files::restrict(places) {
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

/// How many threads there are besides this one and those that are known, if any.
fn other_threads(known: usize) -> Option<usize> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?.count();
    threads.checked_sub(1 + known).filter(|others| *others > 0)
}

#[cfg(test)]
mod tests;
