//! Status of a helper.

use super::budget::MonthlyBudget;
use super::lending::LentLink;
use super::state::{Helper, add_relayed};
use crate::status::{RelayStatus, RelayedStatus, Status};

impl Helper {
    /// Snapshot for `mpbond status` and metrics.
    pub(super) fn status(&self) -> Status {
        let relays = self.relays.borrow();
        let mut relays: Vec<_> = relays.iter().collect();
        relays.sort_unstable_by_key(|(n, _)| **n);
        let relays = relays
            .into_iter()
            .filter_map(|(_, a)| {
                let s = a.handle.stats()?;
                Some(RelayStatus {
                    primary: a.primary.to_string(),
                    proxy: a.proxy.to_string(),
                    bytes_down: s.bytes_down,
                    bytes_up: s.bytes_up,
                    level_down_bytes: s.level_down_bytes,
                    level_up_bytes: s.level_up_bytes,
                    pipe: a.handle.pipe_kind().unwrap_or_default().to_owned(),
                })
            })
            .collect();
        let mut relayed = self.relayed.borrow().clone();
        for active in self.relays.borrow().values() {
            add_relayed(&mut relayed, active);
        }
        let relayed = relayed.into_iter().map(|(primary, moved)| RelayedStatus {
            primary: primary.to_string(),
            bytes_down: moved.0,
            bytes_up: moved.1,
        });
        let mut notes = Vec::new();
        if !self.config().enabled {
            notes.push("lending is switched off (enabled = false)".to_owned());
        }
        if self.budget.as_ref().is_some_and(MonthlyBudget::is_spent) {
            notes.push("this month's budget is used up".to_owned());
        }
        notes.extend(self.budget.as_ref().and_then(MonthlyBudget::clock_note));
        notes.extend(self.battery.refusal());
        Status {
            role: "helper".to_owned(),
            device: self.identity.id().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            uptime_s: self.clock.now().as_secs_f64(),
            relays,
            relayed: relayed.collect(),
            budget: self.budget.as_ref().map(MonthlyBudget::status),
            account_problem: self.budget.as_ref().and_then(MonthlyBudget::problem),
            lent: self.link.as_ref().map(LentLink::status),
            ethernet: self.frames.status(),
            sandbox: self.sandboxed.borrow().clone(),
            notes,
            ..Status::default()
        }
    }
}
