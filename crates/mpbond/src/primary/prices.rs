//! State of a primary's prices of helpers.

use std::cell::RefCell;
use std::collections::HashMap;

use mpbond_session::{LeastBurst, SubflowId};
use tokio::sync::Notify;

use crate::driver::Handle;
use crate::pricing::Meter;

/// Prices of helpers. For use on one thread.
#[derive(Default)]
pub(super) struct Prices {
    pub(super) meter: RefCell<Meter>,
    /// Sizes in force for subflows of the session in use, up and down.
    pub(super) in_force: RefCell<HashMap<SubflowId, [LeastBurst; 2]>>,
    /// Told at each look at which bytes have moved over a link with a radio.
    pub(super) moved: Notify,
    /// The session that is looked at.
    pub(super) watched: RefCell<Option<Handle>>,
}

impl Prices {
    /// The session is another one.
    pub(super) fn forget_subflows(&self) {
        self.in_force.borrow_mut().clear();
    }
}
