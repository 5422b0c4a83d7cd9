//! All subflows of a session, and the numbers that were given to them.

use std::ops::{Deref, DerefMut};

use mpbond_units::Timestamp;

use super::shared_links::SharedLinks;
use crate::SubflowId;
use crate::range_set::RangeSet;
use crate::subflow::Subflow;

/// Most ranges of used subflow numbers. A primary counts up, so that there is one, or a few where a
/// number's connection never came up.
const MAX_ID_RANGES: usize = 1_024;

/// Subflows in the order in which they joined.
#[derive(Debug)]
pub(super) struct Subflows {
    list: Vec<Subflow>,
    /// Client: the next number.
    next: u32,
    /// Server: numbers that were used.
    used: RangeSet,
    shared: SharedLinks,
}

/// Reason for which a number is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum IdError {
    TooManyGaps,
    Reused,
}

impl Subflows {
    pub(super) fn new() -> Self {
        Self {
            list: Vec::new(),
            next: 1,
            used: RangeSet::default(),
            shared: SharedLinks::default(),
        }
    }

    /// Client: a number for a new subflow.
    pub(super) fn next_id(&mut self) -> SubflowId {
        let id = SubflowId(self.next);
        self.next += 1;
        id
    }

    /// Server: notes the number that a peer uses for a new subflow.
    pub(super) fn use_id(&mut self, id: SubflowId) -> Result<(), IdError> {
        let number = u64::from(id.0);
        if self.used.ranges() >= MAX_ID_RANGES {
            return Err(IdError::TooManyGaps);
        }
        match self.used.insert(number..number + 1) {
            0 => Err(IdError::Reused),
            _ => Ok(()),
        }
    }

    pub(super) fn add(&mut self, subflow: Subflow) {
        self.list.push(subflow);
        self.shared.changed(&mut self.list);
    }

    pub(super) fn remove(&mut self, id: SubflowId) -> Option<Subflow> {
        let removed = self.list.remove(self.index(id)?);
        self.shared.changed(&mut self.list);
        Some(removed)
    }

    /// Tells subflows through one helper what the others have on its link, which is the near hop
    /// of a server and the far hop of a client.
    pub(super) fn share(&mut self, now: Timestamp, is_client: bool) {
        self.shared.update(now, !is_client, &mut self.list);
    }

    pub(super) fn index(&self, id: SubflowId) -> Option<usize> {
        self.list.iter().position(|s| s.id == id)
    }

    pub(super) fn by_id(&self, id: SubflowId) -> Option<&Subflow> {
        self.list.iter().find(|s| s.id == id)
    }

    pub(super) fn by_id_mut(&mut self, id: SubflowId) -> Option<&mut Subflow> {
        self.list.iter_mut().find(|s| s.id == id)
    }
}

impl Deref for Subflows {
    type Target = [Subflow];

    fn deref(&self) -> &[Subflow] {
        &self.list
    }
}

impl DerefMut for Subflows {
    fn deref_mut(&mut self) -> &mut [Subflow] {
        &mut self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_once_and_gaps_are_bounded() {
        let mut subflows = Subflows::new();
        assert_eq!(subflows.next_id(), SubflowId(1));
        assert_eq!(subflows.next_id(), SubflowId(2));
        assert_eq!(subflows.use_id(SubflowId(7)), Ok(()));
        assert_eq!(subflows.use_id(SubflowId(7)), Err(IdError::Reused));
        let gaps = (0..).map(|i| SubflowId(10 + 2 * i));
        let refused = gaps.map(|id| subflows.use_id(id)).position(|r| r.is_err());
        assert_eq!(refused, Some(MAX_ID_RANGES - 1));
        assert_eq!(subflows.use_id(SubflowId(8)), Err(IdError::TooManyGaps));
    }
}
