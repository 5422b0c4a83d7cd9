//! Short exchanges that run beside transfers: terminals, messages, pages. While there are any,
//! queues are kept short for them (ADR 0027).
//!
//! Streams of a class that is sensitive to delay count, and bulk streams in their first rank. A
//! transfer begins in that rank, too: it no longer counts as soon as it has left it.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::order::{RANKS, is_brief};
use crate::StreamId;

/// Time for which queues are kept short after a short exchange: somebody who types, talks or reads
/// goes on within it. Longer, a helper would rarely hold anything where somebody works.
const LASTS: Duration = Duration::from_secs(10);

/// The last two streams with short exchanges, latest first: if one turns out to be a transfer,
/// the other one counts.
#[derive(Debug, Default)]
pub(super) struct Brief {
    latest: [Option<(StreamId, Timestamp)>; 2],
}

impl Brief {
    /// A stream was given bytes, and is in `rank` now.
    pub(super) fn served(&mut self, now: Timestamp, id: StreamId, rank: usize) {
        debug_assert!(rank < RANKS);
        let others = self.latest.into_iter().flatten();
        let mut others = others.filter(|(of, _)| *of != id);
        let [first, second] = [others.next(), others.next()];
        self.latest = match is_brief(rank) {
            true => [Some((id, now)), first],
            false => [first, second],
        };
    }

    /// Whether there was a short exchange lately.
    pub(super) fn lives(&self, now: Timestamp) -> bool {
        self.latest[0].is_some_and(|(_, at)| now.since(at) < LASTS)
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

    #[test]
    fn an_exchange_counts_for_ten_seconds() {
        let young = rank(StreamClass::Bulk, 0);
        let mut brief = Brief::default();
        assert!(!brief.lives(s(0)));
        brief.served(s(1), StreamId(7), young);
        assert!(brief.lives(s(10)) && !brief.lives(s(11)));
        brief.served(s(20), StreamId(7), rank(StreamClass::Interactive, u64::MAX));
        assert!(brief.lives(s(29)));
    }

    #[test]
    fn transfers_do_not_count_from_the_moment_they_are_known() {
        let (young, old) = (rank(StreamClass::Bulk, 0), rank(StreamClass::Bulk, 1 << 20));
        let mut brief = Brief::default();
        brief.served(s(1), StreamId(1), young);
        brief.served(s(1), StreamId(2), young);
        brief.served(s(1), StreamId(1), old);
        assert!(brief.lives(s(1)));
        brief.served(s(1), StreamId(2), old);
        assert!(!brief.lives(s(1)));
        // A message, then another transfer.
        brief.served(s(2), StreamId(3), young);
        brief.served(s(3), StreamId(4), young);
        brief.served(s(3), StreamId(4), old);
        brief.served(s(3), StreamId(1), old);
        assert!(brief.lives(s(11)) && !brief.lives(s(12)));
        // Bytes of a transfer that goes on, between those of one that is still to become one.
        brief.served(s(12), StreamId(6), young);
        brief.served(s(13), StreamId(7), young);
        brief.served(s(13), StreamId(1), old);
        brief.served(s(13), StreamId(7), old);
        assert!(brief.lives(s(21)) && !brief.lives(s(22)));
        let background = rank(StreamClass::Background, 0);
        brief.served(s(30), StreamId(5), background);
        assert!(!brief.lives(s(30)));
    }
}
