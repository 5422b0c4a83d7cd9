//! Short exchanges that run beside transfers: terminals, messages, pages. While there are any,
//! queues are kept short for them (ADR 0027, ADR 0034).
//!
//! Realtime streams count, and interactive and bulk streams except in the last rank of their class.
//! A stream counts with the rank in which it is now: streams of later ranks are transfers beside
//! it. A transfer begins in an early rank, too. When it leaves a rank, what it sent there no longer
//! counts; in the last rank it does not count at all.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::order::{RANKS, behind, is_short_exchange};
use crate::StreamId;

/// Time for which queues are kept short after a short exchange: somebody who types, talks or reads
/// goes on within it. Longer, a helper would rarely hold anything where somebody works.
const LASTS: Duration = Duration::from_secs(10);

/// A stream, with the restarts of its count (`session::order`).
type Exchange = (StreamId, u32);

/// The last two short exchanges of each rank, latest first: if one turns out to be a transfer, the
/// other one counts.
#[derive(Debug, Default)]
pub(super) struct ShortExchanges {
    latest: [[Option<(Exchange, Timestamp)>; 2]; RANKS],
}

impl ShortExchanges {
    /// A stream was given bytes, and is in `rank` now. It is a short exchange if transfers are
    /// `beside` it.
    pub(super) fn served(&mut self, now: Timestamp, of: Exchange, rank: usize, beside: bool) {
        debug_assert!(rank < RANKS);
        for (n, latest) in self.latest.iter_mut().enumerate() {
            let is_now = n == rank && is_short_exchange(rank);
            if is_now && !beside {
                continue;
            }
            let mut others = latest.iter().flatten().filter(|(other, _)| *other != of);
            let [first, second] = [others.next().copied(), others.next().copied()];
            *latest = match is_now {
                true => [Some((of, now)), first],
                false => [first, second],
            };
        }
    }

    /// The first rank of the short exchanges of late; `None` without any.
    pub(super) fn first(&self, now: Timestamp) -> Option<usize> {
        let lately = |(_, at): &(Exchange, Timestamp)| now.since(*at) < LASTS;
        let mut latest = self.latest.iter();
        latest.position(|two| two[0].as_ref().is_some_and(lately))
    }

    /// The first rank whose streams are transfers beside a short exchange of late; `None` without
    /// any.
    pub(super) fn transfers_from(&self, now: Timestamp) -> Option<usize> {
        self.first(now).map(behind)
    }

    /// Whether there was a short exchange lately.
    pub(super) fn is_recent(&self, now: Timestamp) -> bool {
        self.first(now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::order::rank;
    use super::*;
    use crate::StreamClass;

    fn s(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn of(stream: u64) -> Exchange {
        (StreamId(stream), 0)
    }

    #[test]
    fn an_exchange_counts_for_ten_seconds() {
        let young = rank(StreamClass::Bulk, 0);
        let mut recent = ShortExchanges::default();
        assert!(!recent.is_recent(s(0)));
        recent.served(s(1), of(7), young, true);
        assert!(recent.is_recent(s(10)) && !recent.is_recent(s(11)));
        recent.served(s(20), of(7), rank(StreamClass::Realtime, u64::MAX), true);
        assert!(recent.is_recent(s(29)));
    }

    #[test]
    fn transfers_do_not_count_from_the_moment_they_are_known() {
        for class in [StreamClass::Bulk, StreamClass::Interactive] {
            transfers_do_not_count(rank(class, 0), rank(class, 1 << 20));
        }
    }

    fn transfers_do_not_count(young: usize, old: usize) {
        let mut recent = ShortExchanges::default();
        recent.served(s(1), of(1), young, true);
        recent.served(s(1), of(2), young, true);
        recent.served(s(1), of(1), old, true);
        assert!(recent.is_recent(s(1)));
        recent.served(s(1), of(2), old, true);
        assert!(!recent.is_recent(s(1)));
        // A message, then another transfer.
        recent.served(s(2), of(3), young, true);
        recent.served(s(3), of(4), young, true);
        recent.served(s(3), of(4), old, true);
        recent.served(s(3), of(1), old, true);
        assert!(recent.is_recent(s(11)) && !recent.is_recent(s(12)));
        // Bytes of a transfer that goes on, between those of one that is still to become one.
        recent.served(s(12), of(6), young, true);
        recent.served(s(13), of(7), young, true);
        recent.served(s(13), of(1), old, true);
        recent.served(s(13), of(7), old, true);
        assert!(recent.is_recent(s(21)) && !recent.is_recent(s(22)));
        let background = rank(StreamClass::Background, 0);
        recent.served(s(30), of(5), background, true);
        assert!(!recent.is_recent(s(30)));
    }

    /// Where two transfers begin together, nothing waits behind the second one when it reaches the
    /// last rank.
    #[test]
    fn an_exchange_that_falls_no_longer_counts_in_its_former_rank() {
        let [third, old] = [64, 256].map(|kib| rank(StreamClass::Bulk, kib << 10));
        let mut recent = ShortExchanges::default();
        recent.served(s(1), of(1), third, true);
        // It goes on where no transfer waits: what it sent beside one still counts.
        recent.served(s(2), of(1), third, false);
        assert!(recent.is_recent(s(10)) && !recent.is_recent(s(11)));
        recent.served(s(3), of(1), old, false);
        assert!(!recent.is_recent(s(3)));
        recent.served(s(3), of(2), third, false);
        assert!(!recent.is_recent(s(3)), "nothing beside it");
    }

    /// A page's part of 100 KiB passes transfers, and short exchanges pass it.
    #[test]
    fn streams_are_transfers_beside_exchanges_of_earlier_ranks() {
        let [young, first, second, old] =
            [0, 16, 64, 256].map(|kib| rank(StreamClass::Bulk, kib << 10));
        let mut recent = ShortExchanges::default();
        recent.served(s(1), of(1), young, true);
        assert_eq!(recent.transfers_from(s(1)), Some(young + 1));
        recent.served(s(2), of(1), first, true);
        assert_eq!(recent.transfers_from(s(2)), Some(second));
        recent.served(s(3), of(2), young, true);
        assert_eq!(recent.transfers_from(s(3)), Some(young + 1));
        recent.served(s(4), of(1), second, true);
        assert_eq!(recent.transfers_from(s(4)), Some(young + 1));
        assert_eq!(recent.transfers_from(s(13)), Some(old));
        recent.served(s(13), of(1), old, true);
        assert_eq!(recent.transfers_from(s(13)), None);
        recent.served(s(13), of(3), rank(StreamClass::Interactive, 1 << 20), true);
        assert_eq!(recent.transfers_from(s(13)), None);
    }

    #[test]
    fn an_exchange_of_a_stream_that_is_a_transfer_later_counts() {
        let (young, old) = (
            rank(StreamClass::Interactive, 48),
            rank(StreamClass::Interactive, 1 << 20),
        );
        let mut recent = ShortExchanges::default();
        recent.served(s(1), (StreamId(1), 4), young, true);
        recent.served(s(3), (StreamId(1), 5), young, true);
        recent.served(s(3), (StreamId(1), 5), old, true);
        assert!(recent.is_recent(s(10)) && !recent.is_recent(s(11)));
    }
}
