//! Background that waits for a radio which is awake for something else (ADR 0039).

use mpbond_policy::{Phase, Supply};
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::ruling::Ruling;
use crate::primary::links::LinkConfig;
use crate::primary::state::Primary;

impl Primary {
    /// Where a new connection would wake a radio: waits for bytes on any link, for a change of
    /// links, or until this time. Whether there is a reason to ask again.
    pub(in crate::primary) async fn waits_for_radio(
        &self,
        ruling: &Ruling,
        until: Instant,
    ) -> bool {
        if Instant::now() >= until {
            return false;
        }
        self.look_at_supply().await;
        let mut changed = self.changed.subscribe();
        let moved = self.prices.moved.notified();
        if !self.radios_sleep(ruling) {
            return false;
        }
        debug!("a connection waits for a radio that is awake");
        let change = async {
            tokio::select! {
                () = moved => {}
                _ = changed.changed() => {}
            }
        };
        // After that time it wakes one.
        timeout_at(until, change).await.is_ok()
    }

    /// Whether a connection would wake a radio whose joules are counted. Connections begin on own
    /// links; only where none may be used, helpers' radios matter.
    fn radios_sleep(&self, ruling: &Ruling) -> bool {
        let policy = self.policy.borrow().clone();
        let price = self.joules_per_second(Supply::default());
        if !price.is_some_and(f64::is_finite) {
            return false;
        }
        let states = self.link_states();
        let is_usable = |link: &LinkConfig| {
            let state = states.iter().find(|state| state.name == link.name());
            state.is_some_and(|s| s.works && ruling.may_use(policy.as_deref(), s, Phase::New))
        };
        let links = self.links.borrow().all();
        let usable = links.iter().map(|(_, link)| &**link);
        let usable: Vec<&LinkConfig> = usable.filter(|link| is_usable(link)).collect();
        let is_own = |link: &LinkConfig| matches!(link, LinkConfig::Path(_)) && !link.is_backup();
        let has_own = usable.iter().any(|link| is_own(link));
        let mut begun_on = usable.iter().filter(|link| !has_own || is_own(link));
        let meter = self.prices.meter.borrow();
        let now = self.clock.now();
        let sleeps = |link: &LinkConfig| {
            let radio = policy.as_ref().and_then(|policy| policy.radio(link.name()));
            radio.is_some_and(|radio| !meter.is_awake(now, link.name(), radio))
        };
        !usable.is_empty() && begun_on.all(|link| sleeps(link))
    }
}
