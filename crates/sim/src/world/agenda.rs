//! Parts of a scenario that are still to come, in the order of their instants.

use std::collections::BTreeSet;

use mpbond_units::Timestamp;

use super::when::When;

/// Exchanges or faults that have not begun, by index. A world of a day has thousands, and asks for
/// the next one after every packet.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// Those whose instant is known.
    fixed: BTreeSet<(Timestamp, usize)>,
    /// Those that depend on other events.
    relative: Vec<usize>,
}

impl Agenda {
    pub(super) fn new(all: impl Iterator<Item = When>) -> Self {
        let mut agenda = Self {
            fixed: BTreeSet::new(),
            relative: Vec::new(),
        };
        for (i, when) in all.enumerate() {
            match when {
                When::At(after) => agenda.put(Timestamp::ZERO + after, i),
                _ => agenda.relative.push(i),
            }
        }
        agenda
    }

    /// Adds one with its instant.
    pub(super) fn put(&mut self, at: Timestamp, i: usize) {
        self.fixed.insert((at, i));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fixed.is_empty() && self.relative.is_empty()
    }

    /// The next known instant.
    pub(super) fn next(&self, instant: impl Fn(usize) -> Option<Timestamp>) -> Option<Timestamp> {
        let relative = self.relative.iter().filter_map(|i| instant(*i));
        let fixed = self.fixed.first().map(|(at, _)| *at);
        relative.chain(fixed).min()
    }

    /// Takes those that are due, in the order of their indices.
    pub(super) fn take_due(
        &mut self,
        now: Timestamp,
        instant: impl Fn(usize) -> Option<Timestamp>,
    ) -> Vec<usize> {
        let mut due = Vec::new();
        while self.fixed.first().is_some_and(|(at, _)| *at <= now) {
            due.extend(self.fixed.pop_first().map(|(_, i)| i));
        }
        let is_due = |i: &mut usize| instant(*i).is_some_and(|at| at <= now);
        due.extend(self.relative.extract_if(.., is_due));
        due.sort_unstable();
        due
    }
}
