//! A link of which others than the session go first: when bulk data goes there all the same
//! (ADR 0069, ADR 0075).

use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

/// Longest time between two records of bulk data on a link that others keep busy, so that a
/// transfer without another path goes on.
const LEAST_EVERY: Duration = Duration::from_millis(500);

/// Time of which the least rate that was not used is kept: a page goes at once.
const KEPT: Duration = Duration::from_secs(10);

/// What others than a session, who go first, have on a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OthersFirst {
    /// Octets that wait for the link or are on their way over it. Zero: nobody goes first.
    pub octets: u64,
    /// Rate at which bulk data of the session goes there all the same. Zero: a record each half
    /// second.
    pub least: BitRate,
    /// The owner of the link has moved bytes lately: its queue is to be short.
    pub is_in_use: bool,
}

/// A subflow's link, of which others may go first.
#[derive(Debug)]
pub(crate) struct GivingWay {
    first: OthersFirst,
    /// Until then, bulk data waits while they keep the link busy.
    until: Timestamp,
}

impl GivingWay {
    /// Of a subflow that is new: nothing is kept of the time before it.
    pub(crate) fn new(now: Timestamp) -> Self {
        let first = OthersFirst::default();
        Self { first, until: now }
    }

    pub(crate) fn set(&mut self, first: OthersFirst) {
        self.first = first;
    }

    /// Octets of those for whom bulk data waits now, if they keep the link busy; zero: it does not
    /// wait.
    pub(crate) fn octets(&self, now: Timestamp) -> u64 {
        if now < self.until {
            self.first.octets
        } else {
            0
        }
    }

    /// Whether the queue of the link is to be short for its owner.
    pub(crate) const fn keeps_short(&self) -> bool {
        self.first.is_in_use
    }

    /// The subflow was given this many octets of bulk data.
    pub(crate) fn gave(&mut self, now: Timestamp, octets: u64) {
        let takes = self.first.least.time_for(octets);
        let until = self.until.max(now.before(KEPT)) + takes;
        self.until = until.min(now + LEAST_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: u64 = 16_000;

    fn ms(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    /// Octets that go in some seconds from this time on, a record each millisecond at most.
    fn octets(giving: &mut GivingWay, from: u64, seconds: u64) -> u64 {
        let mut octets = 0;
        for now in (from..from + 1_000 * seconds).map(ms) {
            if giving.octets(now) == 0 {
                giving.gave(now, RECORD);
                octets += RECORD;
            }
        }
        octets
    }

    fn behind(least: BitRate) -> GivingWay {
        let mut giving = GivingWay::new(Timestamp::ZERO);
        let octets = 1;
        giving.set(OthersFirst {
            octets,
            least,
            ..OthersFirst::default()
        });
        giving
    }

    #[test]
    fn without_a_least_rate_a_record_goes_each_half_second() {
        let mut giving = behind(BitRate::ZERO);
        assert_eq!(octets(&mut giving, 60_000, 10), 20 * RECORD);
        // What was not used is not kept.
        assert_eq!(octets(&mut giving, 100_000, 1), 2 * RECORD);
    }

    #[test]
    fn a_least_rate_that_was_not_used_is_kept_for_ten_seconds() {
        let mut giving = behind(BitRate::from_bytes_per_sec(80e3));
        for from in [60_000, 200_000] {
            // At a record a millisecond, 50 and what comes meanwhile go at once.
            assert!((50..53).contains(&(octets(&mut giving, from, 1) / RECORD - 4)));
            assert_eq!(octets(&mut giving, from + 1_000, 20), 100 * RECORD);
        }
        assert_eq!(octets(&mut giving, 223_000, 1) / RECORD, 15);
    }

    #[test]
    fn a_least_rate_below_a_record_each_half_second_is_one() {
        let mut giving = behind(BitRate::from_bps(1));
        octets(&mut giving, 60_000, 20);
        assert_eq!(octets(&mut giving, 80_000, 10), 20 * RECORD);
    }

    #[test]
    fn what_is_kept_is_a_record_or_0_3_s_of_the_link() {
        // Link in Mbit/s, subflows that share its 3 %, octets of all that go at once.
        for (mbps, parts, most) in [(1.0, 8, 0), (20.0, 1, 750_000), (20.0, 16, 750_000)] {
            let least = BitRate::from_mbps(mbps * 0.03 / f64::from(parts));
            let mut all: Vec<_> = (0..parts).map(|_| behind(least)).collect();
            let at_once = all.iter_mut().map(|giving| {
                let now = ms(60_000);
                let records = std::iter::from_fn(|| {
                    (giving.octets(now) == 0).then(|| giving.gave(now, RECORD))
                });
                RECORD * records.take(10_000).count() as u64
            });
            let at_once: u64 = at_once.sum();
            let records = RECORD * parts as u64;
            assert!(
                (most..=most + records).contains(&at_once),
                "{mbps} {parts}: {at_once}"
            );
        }
    }

    #[test]
    fn a_new_subflow_has_kept_nothing() {
        let mut giving = GivingWay::new(ms(60_000));
        let least = BitRate::from_bytes_per_sec(75e3);
        giving.set(OthersFirst {
            octets: 1,
            least,
            ..OthersFirst::default()
        });
        // One record, and 75 kB in a second.
        assert_eq!(octets(&mut giving, 60_000, 1), 5 * RECORD);
    }

    #[test]
    fn nobody_waits_where_nobody_goes_first_and_nothing_is_kept_of_that() {
        let mut giving = GivingWay::new(Timestamp::ZERO);
        assert_eq!(octets(&mut giving, 60_000, 1), 1_000 * RECORD);
        giving.set(OthersFirst {
            octets: 1,
            least: BitRate::from_bytes_per_sec(80e3),
            ..OthersFirst::default()
        });
        assert_eq!(octets(&mut giving, 61_000, 10), 48 * RECORD);
    }
}
