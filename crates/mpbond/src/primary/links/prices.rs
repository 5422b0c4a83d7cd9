//! State of a primary's prices of helpers.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use mpbond_policy::Supply;
use mpbond_session::{LeastBurst, SubflowId, SubflowStats};
use tokio::sync::Notify;

use crate::driver::{Driver, Handle};
use crate::pricing::{Meter, Moved};

/// Prices of helpers. For use on one thread.
#[derive(Default)]
pub(in crate::primary) struct Prices {
    pub(in crate::primary) meter: RefCell<Meter>,
    /// Sizes in force for subflows of the session in use, up and down.
    pub(super) in_force: RefCell<HashMap<SubflowId, [LeastBurst; 2]>>,
    /// Power supply of this device, where prices depend on it.
    pub(super) supply: Cell<Supply>,
    /// Told at each look at which bytes have moved over a link with a radio.
    pub(in crate::primary) moved: Notify,
    /// The session that is looked at.
    pub(super) watched: RefCell<Option<Handle>>,
    /// Bytes of that session's subflows when it fell quiet: what moves until it is looked at again
    /// is counted.
    seen: RefCell<Option<(Handle, Seen)>>,
}

/// Bytes of subflows up to the last look; `None` before the first one, which only learns where
/// counting begins.
#[derive(Default)]
pub(super) struct Seen(Option<HashMap<SubflowId, Moved>>);

impl Seen {
    /// The bytes of each link since the last look.
    pub(super) fn since<'a>(&mut self, subflows: &'a [SubflowStats]) -> Vec<(&'a str, Moved)> {
        let is_first = self.0.is_none();
        let before = self.0.take().unwrap_or_default();
        let mut now = HashMap::new();
        let mut links: Vec<(&str, Moved)> = Vec::new();
        for s in subflows {
            let total = Moved {
                down: s.bytes_in,
                up: s.bytes_out,
            };
            now.insert(s.id, total);
            let Moved { down, up } = total.since(before.get(&s.id).copied().unwrap_or_default());
            match links.iter_mut().find(|(name, _)| *name == s.name) {
                Some((_, sum)) => (sum.down, sum.up) = (sum.down + down, sum.up + up),
                None => links.push((&s.name, Moved { down, up })),
            }
        }
        self.0 = Some(now);
        if is_first {
            links.clear();
        }
        links
    }
}

impl Prices {
    /// The session is another one.
    pub(in crate::primary) fn forget_subflows(&self) {
        self.in_force.borrow_mut().clear();
    }

    /// The session has fallen quiet.
    pub(super) fn pause(&self, driver: &Driver, seen: Seen) {
        let mut watched = self.watched.borrow_mut();
        if watched.take_if(|handle| handle.is_of(driver)).is_some() {
            self.seen.replace(Some((driver.handle(), seen)));
        }
    }

    /// Bytes move in the session again.
    pub(super) fn resume(&self, driver: &Driver) -> Seen {
        let before = self.seen.take();
        let before = before.filter(|(handle, _)| handle.is_of(driver));
        before.map_or_else(Seen::default, |(_, seen)| seen)
    }

    /// What moves from now on has no price.
    pub(super) fn stop_counting(&self) {
        self.seen.take();
    }
}
