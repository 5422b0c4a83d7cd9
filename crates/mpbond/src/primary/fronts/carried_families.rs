//! Address families in which new connections are carried, for fronts and stubs.

use std::cell::Cell;
use std::sync::Arc;

use mpbond_intercept::dns::ReachedFamilies;

/// Address families in which new connections are carried.
#[derive(Debug, Default)]
pub(in crate::primary) struct CarriedFamilies {
    /// For fronts and stubs. Not known until there has been a session, or no path to the proxy has
    /// worked for too long.
    pub(in crate::primary) carried: Arc<ReachedFamilies>,
    /// Whether they are those of this host.
    pub(super) are_own: Cell<bool>,
    /// Whether another process has taken the listeners over.
    handed_over: Cell<bool>,
}

impl CarriedFamilies {
    /// Another process treats new clients from now on.
    pub(in crate::primary) fn stop_following(&self) {
        self.handed_over.set(true);
    }

    /// Whether this process treats new clients as the families are carried.
    pub(super) fn are_followed(&self) -> bool {
        !self.handed_over.get()
    }
}
