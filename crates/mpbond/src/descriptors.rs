//! The limit of open descriptors, and so of connections.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::{debug, warn};

/// Raises the soft limit to the hard one. The usual soft limit of 1,024 protects programs that use
/// select(2), which nothing here does.
pub(crate) fn take_all() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft < hard {
            setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
        }
        Ok(hard)
    });
    match raised {
        Ok(descriptors) => debug!(descriptors, "limit of open descriptors"),
        Err(e) => warn!(error = %e, "cannot raise the limit of open descriptors"),
    }
}
