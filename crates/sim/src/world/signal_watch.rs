//! While the signals of links are weak, routes that are backups carry data beside them: links of
//! higher cost by a policy in mode `saver` (ADR 0071). As in the daemon, signals are looked at
//! while bytes move.

use std::time::Duration;

use mpbond_manager::WeakSignal;
use mpbond_session::IDLE_LONG;
use mpbond_units::Timestamp;

use super::World;

impl World {
    /// When the signals are looked at next.
    pub(super) fn signals_due(&self) -> Option<Timestamp> {
        let mut routes = self.scenario.routes.iter();
        let has_thresholds = routes.any(|route| route.weak_below_dbm.is_some());
        let session = self.hosts[0].session.as_ref().filter(|_| has_thresholds)?;
        let is_quiet = session.quiet_for(self.primary_clock()) >= IDLE_LONG;
        let is_idle = is_quiet || self.hosts[0].is_frozen(self.now);
        (!is_idle).then_some(self.signals.at)
    }

    /// Takes samples of the signals, if that is due, and makes subflows backups or regular by them.
    pub(super) fn watch_signals(&mut self) {
        if self.signals_due().is_none_or(|due| due > self.now) {
            return;
        }
        let clock = self.primary_clock();
        let session = self.hosts[0].session.as_ref();
        let quiet = session.map_or(Duration::MAX, |session| session.quiet_for(clock));
        self.signals.at = self.now + WeakSignal::next_look(quiet);
        let before = self.signals.are_weak();
        self.signals.sample(clock, &self.scenario.routes);
        // A subflow that has joined meanwhile is a backup.
        if before || self.signals.are_weak() {
            self.apply_roles();
        }
    }
}
