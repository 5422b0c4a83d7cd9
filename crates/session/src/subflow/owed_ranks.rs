//! Ranks of the streams whose bytes a subflow owes (ADR 0024): what an express may carry past them
//! depends on them (ADR 0034).

/// For each rank, the count of octets up to the first one of the last record with bytes of such a
/// stream. Records are acknowledged whole: the record is owed while fewer are acknowledged.
#[derive(Debug, Default)]
pub(crate) struct OwedRanks(Vec<u64>);

impl OwedRanks {
    /// A stream of this rank was given bytes in the record that begins after these octets.
    pub(crate) fn given(&mut self, rank: usize, octets: u64) {
        if self.0.len() <= rank {
            self.0.resize(rank + 1, 0);
        }
        self.0[rank] = octets + 1;
    }

    /// The first rank of which bytes are owed, where so many octets are acknowledged.
    pub(crate) fn first(&self, acked: u64) -> Option<usize> {
        self.0.iter().position(|until| *until > acked)
    }

    /// The last rank of which bytes are owed, where so many octets are acknowledged.
    pub(crate) fn last(&self, acked: u64) -> Option<usize> {
        self.0.iter().rposition(|until| *until > acked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_owed_until_its_last_record_is_acknowledged() {
        let mut owed = OwedRanks::default();
        assert_eq!((owed.first(0), owed.last(0)), (None, None));
        owed.given(6, 0);
        owed.given(2, 1_000);
        assert_eq!((owed.first(0), owed.last(0)), (Some(2), Some(6)));
        assert_eq!(owed.last(1_000), Some(2));
        owed.given(6, 1_500);
        assert_eq!((owed.first(1_500), owed.last(1_500)), (Some(6), Some(6)));
        assert_eq!(owed.last(2_000), None);
    }
}
