//! Address families in which new connections are carried: those of the proxy, or those of this host
//! while connections go direct.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mpbond_intercept::dns::ReachedFamilies;
use mpbond_manager::Admission;
use mpbond_session::Families;
use tokio::time::sleep;

use super::state::Primary;
use crate::config::OnProxyLoss;
use crate::families::routed;
use crate::own_mark::OWN_MARK;

/// Interval at which routes of this host are looked for while connections go direct.
const LOOK_EVERY: Duration = Duration::from_secs(1);

const BOTH: Families = Families {
    ipv4: true,
    ipv6: true,
};
const NONE: Families = Families {
    ipv4: false,
    ipv6: false,
};

/// Address families in which new connections are carried.
#[derive(Debug, Default)]
pub(super) struct CarriedFamilies {
    /// For fronts and stubs. Not known until there has been a session, or no path to the proxy has
    /// worked for too long.
    pub(super) carried: Arc<ReachedFamilies>,
    /// Whether they are those of this host.
    are_own: Cell<bool>,
    /// Whether another process has taken the listeners over.
    handed_over: Cell<bool>,
}

impl CarriedFamilies {
    /// Another process treats new clients from now on.
    pub(super) fn stop_following(&self) {
        self.handed_over.set(true);
    }

    /// Whether this process treats new clients as the families are carried.
    pub(super) fn are_followed(&self) -> bool {
        !self.handed_over.get()
    }
}

impl Primary {
    /// Follows the decisions of the manager.
    pub(super) fn learn_families(&self) {
        let admission = self.manager.borrow().admission(self.clock.now());
        let is_direct = self.on_proxy_loss.get() == OnProxyLoss::Direct;
        let own_before = self.families.are_own.get();
        let families = match admission {
            Admission::Session => self.families_of_proxy().unwrap_or(BOTH),
            // Most often the next session is with the same proxy.
            Admission::Wait(_) => return,
            Admission::WithoutProxy if is_direct && own_before => return,
            Admission::WithoutProxy if is_direct => own_families(),
            Admission::WithoutProxy => NONE,
        };
        let are_own = is_direct && admission == Admission::WithoutProxy;
        self.families.are_own.set(are_own);
        self.families.carried.set(families.ipv4, families.ipv6);
    }

    /// The families that the proxy of the session in use has announced.
    fn families_of_proxy(&self) -> Option<Families> {
        let driver = self.driver.borrow().clone()?;
        driver.inspect(|session, _, _| session.peer_capabilities()?.families)
    }

    /// The family that the proxy of the session in use lacks, for people; none while connections go
    /// direct.
    pub(super) fn proxy_lacks(&self) -> Option<String> {
        if self.families.are_own.get() {
            return None;
        }
        let families = self.families_of_proxy()?;
        let lacks = match [families.ipv4, families.ipv6] {
            [true, true] => return None,
            [false, _] => "IPv4",
            [true, false] => "IPv6",
        };
        Some(lacks.to_owned())
    }
}

/// The families in which direct connections are made: both, if there is no default route, since
/// destinations within the network may be reached.
fn own_families() -> Families {
    routed(Some(OWN_MARK)).unwrap_or(BOTH)
}

/// Follows the routes of this host while connections go direct.
pub(super) async fn watch_own(primary: Rc<Primary>) {
    let mut changed = primary.changed.subscribe();
    loop {
        if primary.families.are_own.get() {
            sleep(LOOK_EVERY).await;
            if primary.families.are_own.get() {
                let own = own_families();
                primary.families.carried.set(own.ipv4, own.ipv6);
            }
        } else if changed.changed().await.is_err() {
            return;
        }
    }
}
