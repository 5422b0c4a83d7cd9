//! Control frames of the session as a whole that are to be written.

use std::collections::VecDeque;

use crate::SubflowId;

/// Maximum number of CUT frames that wait: as many as counts of lost subflows are kept.
const MAX_CUTS: usize = 32;

/// Control frames of the session as a whole that are to be written.
#[derive(Debug, Default)]
pub(super) struct Control {
    pub(super) max_data_wanted: bool,
    pub(super) max_streams_wanted: bool,
    /// Subflows whose priority has changed.
    priorities: VecDeque<SubflowId>,
    /// Subflows of which the peer is to learn for which bursts they are used.
    admits: VecDeque<SubflowId>,
    /// Subflows that the peer is to give up.
    cuts: VecDeque<SubflowId>,
    /// Reason of a GO_AWAY.
    pub(super) go_away: Option<String>,
    pub(super) go_away_wanted: bool,
}

impl Control {
    /// Whether any frame is to be written.
    pub(super) fn is_due(&self) -> bool {
        self.max_data_wanted
            || self.max_streams_wanted
            || !self.priorities.is_empty()
            || !self.admits.is_empty()
            || !self.cuts.is_empty()
            || self.go_away_wanted
    }

    /// The peer is to learn a subflow's priority.
    pub(super) fn prioritise(&mut self, subflow: SubflowId) {
        if !self.priorities.contains(&subflow) {
            self.priorities.push_back(subflow);
        }
    }

    pub(super) fn pop_priority(&mut self) -> Option<SubflowId> {
        self.priorities.pop_front()
    }

    /// The peer is to learn for which bursts a subflow is used.
    pub(super) fn admit(&mut self, subflow: SubflowId) {
        if !self.admits.contains(&subflow) {
            self.admits.push_back(subflow);
        }
    }

    pub(super) fn pop_admit(&mut self) -> Option<SubflowId> {
        self.admits.pop_front()
    }

    /// The peer is to give a subflow up.
    pub(super) fn cut(&mut self, subflow: SubflowId) {
        if self.cuts.len() == MAX_CUTS {
            self.cuts.pop_front();
        }
        self.cuts.push_back(subflow);
    }

    pub(super) fn pop_cut(&mut self) -> Option<SubflowId> {
        self.cuts.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded() {
        let mut control = Control::default();
        assert!(!control.is_due());
        for n in 0..100 {
            control.cut(SubflowId(n));
            control.prioritise(SubflowId(n % 3));
            control.admit(SubflowId(n % 5));
        }
        assert!(control.is_due());
        assert_eq!(control.cuts.len(), MAX_CUTS);
        assert_eq!((control.priorities.len(), control.admits.len()), (3, 5));
        assert_eq!(control.pop_cut(), Some(SubflowId(68)));
    }
}
