//! Looks at the signals of links for which the policy has thresholds: when a connection is opened,
//! and while bytes move. An idle primary does nothing for it.

use std::rc::Rc;

use mpbond_manager::{LinkId, WeakSignal};
use mpbond_session::IDLE_LONG;
use mpbond_units::Timestamp;
use tracing::info;

use super::LinkConfig;
use crate::primary::state::Primary;

/// Looks at the signals until bytes have long not moved.
async fn watch(primary: Rc<Primary>) {
    while primary.look_at_signals() {
        let quiet = primary.quiet_for();
        if quiet >= IDLE_LONG {
            break;
        }
        tokio::time::sleep(WeakSignal::next_look(quiet)).await;
    }
    primary.weak_links.are_watched.set(false);
}

impl Primary {
    /// Bytes move, after a pause or under another policy.
    pub(super) fn watch_signals(self: &Rc<Self>) {
        let policy = self.policy.borrow();
        let has_thresholds = policy.as_ref().is_some_and(|p| p.has_thresholds());
        if has_thresholds && !self.weak_links.are_watched.replace(true) {
            crate::task::spawn_local(watch(Rc::clone(self)));
        }
    }

    /// Takes a sample of each signal, and applies what has changed. Returns whether there are
    /// thresholds.
    fn look_at_signals(&self) -> bool {
        let Some(policy) = self.policy.borrow().clone() else {
            return false;
        };
        let links = self.links.borrow().all();
        let mut have_changed = false;
        for (id, link) in &links {
            let (now, name) = (self.clock.now(), link.name());
            if let Some(weak_below) = policy.weak_below_dbm(name)
                && let sample = self.signal_dbm(*id, link)
                && let Some(is_weak) = self.weak_links.looked(now, name, sample, weak_below)
            {
                let dbm = self.weak_links.smoothed_dbm(now, name);
                let dbm = dbm.map(|dbm| dbm.round() as i16);
                match is_weak {
                    true => info!(link = name, dbm, weak_below, "the signal is weak"),
                    false => info!(link = name, dbm, weak_below, "the signal is no longer weak"),
                }
                have_changed = true;
            }
        }
        if have_changed {
            self.apply_ranks();
        }
        policy.has_thresholds()
    }

    /// Strength of the signal of the link with this name, in dBm.
    pub(in crate::primary) fn signal_of_link(&self, name: &str) -> Option<i16> {
        let links = self.links.borrow().all();
        let (id, link) = links.iter().find(|(_, link)| link.name() == name)?;
        Some(self.signal_dbm(*id, link)?.1)
    }

    /// Strength of the signal of a link's radio in dBm, and when it was heard: as a program tells
    /// it or, of WiFi, as the kernel does.
    pub(super) fn signal_dbm(&self, id: LinkId, link: &LinkConfig) -> Option<(Timestamp, i16)> {
        let told = self.facts_of(link.name()).signal_dbm();
        told.or_else(|| {
            if !self.signals.have_table() {
                return None;
            }
            let (now, interface) = (self.clock.now(), self.interface_of(id, link)?);
            Some((now, self.signals.dbm(now, &interface)?))
        })
    }
}
