//! Copies that wait: which subflows may carry them.

use super::Streams;
use crate::SubflowId;

/// Most streams that are searched for copies, for each record: more of them have some for every
/// subflow, most likely.
const MAX_SEARCHED: usize = 8;

impl Streams {
    /// Whether bytes wait, all of which were sent before.
    pub(in super::super) fn only_copies_wait(&self) -> bool {
        let copies = self.retransmit_bytes();
        copies > 0 && copies == self.unscheduled()
    }

    /// Whether copies, or ends of streams, wait that this subflow may carry; true where many
    /// streams have something to send.
    pub(in super::super) fn may_have_copies_for(&self, on: SubflowId) -> bool {
        let has = |id| {
            let stream = self.get(id);
            stream.is_some_and(|s| s.send.fin_ready() || s.send.buffer.has_retransmission_for(on))
        };
        let mut ids = self.ready_ids();
        ids.by_ref().take(MAX_SEARCHED).any(has) || ids.next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::streams;
    use super::*;
    use crate::copies::Cause;

    const A: SubflowId = SubflowId(1);

    #[test]
    fn copies_are_for_those_that_do_not_carry_them() {
        let mut all = streams(1);
        let id = all.ids()[0];
        assert!(!all.may_have_copies_for(A) && !all.only_copies_wait());
        all.write(id, vec![0; 100].into());
        all.get_mut(id).unwrap().send.buffer.take_new(60, 1_000);
        let copy = |all: &mut Streams| {
            let buffer = &mut all.get_mut(id).unwrap().send.buffer;
            buffer.retransmit(0..10, Some(A), Cause::Hedged);
            all.update(id);
        };
        copy(&mut all);
        assert!(!all.may_have_copies_for(A));
        assert!(all.may_have_copies_for(SubflowId(2)));
        // 40 bytes wait that were never sent.
        assert!(!all.only_copies_wait());
        all.get_mut(id).unwrap().send.buffer.take_new(60, 1_000);
        all.update(id);
        assert!(all.only_copies_wait());

        // Of many streams a few are looked at.
        let mut all = streams(MAX_SEARCHED as u64 + 1);
        for id in all.ids() {
            all.write(id, vec![0; 10].into());
        }
        assert!(all.may_have_copies_for(A));
    }
}
