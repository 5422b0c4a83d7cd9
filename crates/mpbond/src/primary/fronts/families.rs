//! Choice of the address families in which new connections are carried: those of the proxy, or
//! those of this host while connections go direct.

use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use mpbond_manager::Admission;
use mpbond_session::Families;
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::config::OnProxyLoss;
use crate::families::routed;
use crate::network_changes::NetworkChanges;
use crate::own_mark::OWN_MARK;
use crate::primary::state::Primary;

/// Pause between two looks at the routes of this host while connections go direct.
const PAUSE: Duration = Duration::from_secs(1);

/// The same where no change is notified: routing rules choose routes, too.
const LOOK_EVERY: Duration = Duration::from_secs(10);

const BOTH: Families = Families {
    ipv4: true,
    ipv6: true,
};
const NONE: Families = Families {
    ipv4: false,
    ipv6: false,
};

impl Primary {
    /// Follows the decisions of the manager.
    pub(in crate::primary) fn learn_families(&self) {
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
    pub(in crate::primary) fn proxy_lacks(&self) -> Option<String> {
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
pub(in crate::primary) async fn watch_own(primary: Rc<Primary>) {
    let families = &primary.families;
    let mut changed = primary.changed.subscribe();
    loop {
        // The sender is there as long as the primary.
        let _ = changed.wait_for(|()| families.are_own.get()).await;
        let mut changes = NetworkChanges::of_routes()
            .inspect_err(|error| debug!(%error, "changes of routes will not be noticed"))
            .ok();
        let next = async || {
            if let Some(changes) = &mut changes
                && changes.next().await.is_ok()
            {
                return;
            }
            pending().await
        };
        let look = || {
            let own = own_families();
            families.carried.set(own.ipv4, own.ipv6);
        };
        tokio::select! {
            biased;
            _ = changed.wait_for(|()| !families.are_own.get()) => {}
            () = follow(next, look) => {}
        }
    }
}

/// Looks now, after each change, and now and then.
async fn follow(mut changed: impl AsyncFnMut(), mut look: impl FnMut()) {
    loop {
        look();
        // Changes come in groups.
        sleep(PAUSE).await;
        let _ = timeout(LOOK_EVERY, changed()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::sync::Notify;
    use tokio::time::{Instant, sleep_until};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn routes_are_looked_at_after_a_change_at_most_every_second_and_else_every_11_s() {
        let began = Instant::now();
        let looks = RefCell::new(Vec::new());
        let change = Notify::new();
        let changed = async || change.notified().await;
        let look = || looks.borrow_mut().push(began.elapsed().as_millis());
        let changes = async {
            for at in [30_000, 30_100, 30_200] {
                sleep_until(began + Duration::from_millis(at)).await;
                change.notify_one();
            }
            sleep_until(began + Duration::from_secs(45)).await;
        };
        tokio::select! {
            () = follow(changed, look) => {}
            () = changes => {}
        }
        let expected = [0, 11_000, 22_000, 30_000, 31_000, 42_000];
        assert_eq!(*looks.borrow(), expected);
    }
}
