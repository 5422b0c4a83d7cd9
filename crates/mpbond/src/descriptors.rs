//! How many connections this process may hold.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::{debug, warn};

/// Takes as many descriptors as the system allows. The usual soft limit of 1 024 is for programs
/// that use select(2), which nothing here does.
pub(crate) fn take_all() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft < hard {
            setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
        }
        Ok(hard)
    });
    match raised {
        Ok(descriptors) => debug!(descriptors, "open at a time, at most"),
        Err(e) => warn!(error = %e, "can't raise the limit of open descriptors"),
    }
}
