//! Subflows that could carry what another one owes.

use crate::PathSet;
use crate::subflow::Subflow;

/// The paths of some subflows.
#[derive(Debug, Clone, Copy)]
pub(in crate::session) struct Takers {
    is_any: bool,
    numbered: Option<PathSet>,
}

impl Takers {
    pub(in crate::session) fn of<'a>(subflows: impl Iterator<Item = &'a Subflow> + Clone) -> Self {
        Self {
            is_any: subflows.clone().next().is_some(),
            numbered: PathSet::of(subflows.filter_map(|s| s.path)),
        }
    }

    pub(super) fn is_none(self) -> bool {
        !self.is_any
    }

    /// Whether one of them may carry a stream with this set of paths.
    pub(in crate::session) fn may_carry(self, paths: PathSet) -> bool {
        match paths.is_all() {
            true => self.is_any,
            false => self.numbered.is_some_and(|n| n.intersects(paths)),
        }
    }
}
