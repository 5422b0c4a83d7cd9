//! Log lines at a bounded rate: about conditions that last, and about events that peers cause.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use mpbond_units::Timestamp;

/// Shortest interval between two lines: frequent enough to be noticed, too rare to fill a log.
const INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of sources whose lines are counted apart; the others share a count.
const MAX_SOURCES: usize = 1024;

/// Rate limiter of one log line.
#[derive(Debug, Default)]
pub(crate) struct RateLimitedLog(Cell<Option<Instant>>);

impl RateLimitedLog {
    /// Whether the line may be written now: the first time, and ten seconds after the last line.
    pub(crate) fn is_due(&self) -> bool {
        let due = self.0.get().is_none_or(|last| last.elapsed() >= INTERVAL);
        if due {
            self.0.set(Some(Instant::now()));
        }
        due
    }
}

/// Rate of lines: so many at once, and then one in each interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    burst: u32,
    interval: Duration,
}

/// Rates of lines that one peer and that all peers cause.
#[derive(Clone, Copy, Debug)]
struct Rates {
    one: Rate,
    all: Rate,
}

/// Lines about what goes wrong or is refused: of all peers some 10 MB a day.
const REFUSALS: Rates = Rates {
    one: Rate {
        burst: 10,
        interval: Duration::from_secs(10),
    },
    all: Rate {
        burst: 100,
        interval: Duration::from_secs(1),
    },
};

/// Lines about connections of trusted devices that come and go. A device that changes networks
/// causes about four lines for each change, and a thousand devices return at once when a proxy has
/// been restarted; of one device some 1 MB a day.
const CONNECTIONS: Rates = Rates {
    one: Rate {
        burst: 60,
        interval: Duration::from_secs(10),
    },
    all: Rate {
        burst: 5_000,
        interval: Duration::from_millis(100),
    },
};

/// Use of a [`Rate`] (GCRA): the instant at which all of it is available again.
#[derive(Clone, Copy, Debug, Default)]
struct Used(Timestamp);

impl Used {
    fn is_due(self, rate: Rate, now: Timestamp) -> bool {
        self.0.since(now) + rate.interval <= rate.interval * rate.burst
    }

    fn take(&mut self, rate: Rate, now: Timestamp) {
        self.0 = self.0.max(now) + rate.interval;
    }
}

/// A line that may be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// Number of lines left out since the last one, if any were.
    pub(crate) left_out: Option<u64>,
}

/// Limiter of the lines that peers cause, for each of them and in all. For use on one thread.
#[derive(Debug)]
pub(crate) struct PeerLog<K>(RefCell<Peers<K>>);

#[derive(Debug)]
struct Peers<K> {
    rates: Rates,
    each: HashMap<K, Used>,
    /// Of peers that are not counted apart.
    others: Used,
    all: Used,
    left_out: u64,
}

impl<K> Default for PeerLog<K> {
    /// For lines about what goes wrong or is refused.
    fn default() -> Self {
        Self::at(REFUSALS)
    }
}

impl<K> PeerLog<K> {
    /// For lines about connections of trusted devices that come and go.
    pub(crate) fn of_connections() -> Self {
        Self::at(CONNECTIONS)
    }

    fn at(rates: Rates) -> Self {
        Self(RefCell::new(Peers {
            rates,
            each: HashMap::new(),
            others: Used::default(),
            all: Used::default(),
            left_out: 0,
        }))
    }
}

impl<K: Hash + Eq> PeerLog<K> {
    /// The line that may be written about `peer` now, if any; otherwise it is counted.
    pub(crate) fn line(&self, peer: K, now: Timestamp) -> Option<Line> {
        let mut peers = self.0.borrow_mut();
        let peers = &mut *peers;
        if peers.each.len() >= MAX_SOURCES && !peers.each.contains_key(&peer) {
            peers.each.retain(|_, used| used.0 > now);
        }
        let own = match peers.each.len() < MAX_SOURCES || peers.each.contains_key(&peer) {
            true => peers.each.entry(peer).or_default(),
            false => &mut peers.others,
        };
        let Rates { one, all } = peers.rates;
        if !own.is_due(one, now) || !peers.all.is_due(all, now) {
            peers.left_out += 1;
            return None;
        }
        own.take(one, now);
        peers.all.take(all, now);
        let left_out = std::mem::take(&mut peers.left_out);
        Some(Line {
            left_out: (left_out > 0).then_some(left_out),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Timestamp {
        Timestamp::from_millis(n)
    }

    fn written(log: &PeerLog<u32>, peer: u32, now: Timestamp) -> Option<Option<u64>> {
        log.line(peer, now).map(|line| line.left_out)
    }

    #[test]
    fn a_peer_gets_10_lines_then_one_each_10_s_with_the_number_left_out() {
        let log = PeerLog::default();
        for _ in 0..10 {
            assert_eq!(written(&log, 1, ms(5)), Some(None));
        }
        for _ in 0..1_000 {
            assert_eq!(written(&log, 1, ms(6)), None);
        }
        assert_eq!(written(&log, 1, ms(10_004)), None);
        assert_eq!(written(&log, 1, ms(10_005)), Some(Some(1_001)));
        assert_eq!(written(&log, 1, ms(10_005)), None);
        assert_eq!(written(&log, 2, ms(10_005)), Some(Some(1)), "another peer");
        for _ in 0..10 {
            assert_eq!(written(&log, 1, ms(120_005)), Some(None));
        }
    }

    #[test]
    fn connections_of_a_device_get_60_lines_then_one_each_10_s_and_leave_room_for_others() {
        let log = PeerLog::of_connections();
        let lines = |peer, now| (0..5_000).filter_map(|_| written(&log, peer, now)).count();
        assert_eq!(lines(1, ms(0)), 60);
        assert_eq!(lines(1, ms(9_999)), 0);
        assert_eq!(written(&log, 1, ms(10_000)), Some(Some(9_940)));
        for peer in 2..50 {
            assert_eq!(lines(peer, ms(10_000)), 60);
        }
    }

    #[test]
    fn all_peers_together_get_100_lines_then_one_a_second() {
        let log = PeerLog::default();
        let lines = |now| (0..5_000).filter(|p| log.line(*p, now).is_some()).count();
        assert_eq!(lines(ms(0)), 100);
        assert_eq!(lines(ms(999)), 0);
        assert_eq!(lines(ms(1_000)), 1);
        assert_eq!(lines(ms(11_000)), 10);
        assert!(log.0.borrow().each.len() <= MAX_SOURCES);
    }
}
