//! Rates from counters, and the slots by which history and colours refer to paths.

use std::collections::HashMap;

use serde::Serialize;

use super::paths::{Bytes, Key, Path};

/// Number of paths in ten minutes that have a slot of their own; further ones share [`OTHERS`].
const SLOTS: usize = 24;

/// Slot of all further paths.
pub(super) const OTHERS: usize = SLOTS;

/// Rate of a path; serialised as `[slot, down, up]`, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct SlotRate(pub usize, pub f64, pub f64);

/// Bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Rate {
    pub down: f64,
    pub up: f64,
}

impl Rate {
    /// Both directions.
    pub fn sum(self) -> f64 {
        self.down + self.up
    }
}

impl std::ops::AddAssign for Rate {
    fn add_assign(&mut self, other: Self) {
        self.down += other.down;
        self.up += other.up;
    }
}

/// Rate between two readings; none where a counter has jumped back.
pub(super) fn between(before: Bytes, now: Bytes, span: f64) -> Option<Rate> {
    Some(Rate {
        down: now.down.checked_sub(before.down)? as f64 / span,
        up: now.up.checked_sub(before.up)? as f64 / span,
    })
}

/// The last counters and rates of all paths.
#[derive(Debug, Default)]
pub(super) struct Rates {
    counters: HashMap<Key, Bytes>,
    rates: HashMap<Key, Rate>,
    slots: HashMap<Key, usize>,
    /// There is an answer with which the next one is compared.
    has_before: bool,
    /// The last answer was compared with one before.
    is_compared: bool,
}

impl Rates {
    /// Takes the counters `span` seconds after the last ones; returns the rates by slot, if there
    /// was an answer before.
    pub fn take(&mut self, paths: &[Path], span: Option<f64>) -> Option<Vec<SlotRate>> {
        self.is_compared = self.has_before && span.is_some();
        self.has_before = true;
        self.rates.clear();
        let mut by_slot: Vec<SlotRate> = Vec::new();
        let counted = paths.iter().filter_map(|p| Some((&p.key, p.bytes?)));
        for (key, now) in counted.clone() {
            let slot = self.slot(key);
            let before = self.counters.get(key);
            let rate = before
                .zip(span)
                .and_then(|(b, span)| between(*b, now, span));
            let Some(rate) = rate else {
                continue;
            };
            self.rates.insert(key.clone(), rate);
            if rate.sum() == 0.0 {
                continue;
            }
            match by_slot.iter_mut().find(|s| s.0 == slot) {
                Some(sum) => *sum = SlotRate(slot, sum.1 + rate.down, sum.2 + rate.up),
                None => by_slot.push(SlotRate(slot, rate.down, rate.up)),
            }
        }
        self.counters = counted.map(|(key, bytes)| (key.clone(), bytes)).collect();
        by_slot.sort_by_key(|s| s.0);
        self.is_compared.then_some(by_slot)
    }

    /// Forgets counters: the next ones are not compared with them.
    pub fn forget(&mut self) {
        self.counters.clear();
        self.rates.clear();
        self.has_before = false;
        self.is_compared = false;
    }

    /// Whether no answer is known.
    pub fn is_empty(&self) -> bool {
        !self.has_before
    }

    /// Sum of all rates; none before two answers have been compared, and where no counter could be.
    pub fn total(&self) -> Option<Rate> {
        let is_known = self.counters.is_empty() || !self.rates.is_empty();
        (self.is_compared && is_known).then(|| {
            let mut total = Rate::default();
            self.rates.values().for_each(|rate| total += *rate);
            total
        })
    }

    /// Gives up the slots that are not in history any more and have none of these paths.
    pub fn free_slots(&mut self, paths: &[Path], is_in_history: impl Fn(usize) -> bool) {
        if self.slots.len() < SLOTS {
            return;
        }
        self.slots
            .retain(|key, slot| paths.iter().any(|path| path.key == *key) || is_in_history(*slot));
    }

    /// The last rate of a path, if it is known.
    pub fn of(&self, key: &Key) -> Option<Rate> {
        self.rates.get(key).copied()
    }

    /// Slot of a path that has been counted.
    pub fn slot_of(&self, key: &Key) -> usize {
        self.slots.get(key).copied().unwrap_or(OTHERS)
    }

    fn slot(&mut self, key: &Key) -> usize {
        if let Some(slot) = self.slots.get(key) {
            return *slot;
        }
        let is_free = |slot: &usize| self.slots.values().all(|used| used != slot);
        let Some(slot) = (0..SLOTS).find(is_free) else {
            return OTHERS;
        };
        self.slots.insert(key.clone(), slot);
        slot
    }
}
