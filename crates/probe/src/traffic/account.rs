//! Account of one direction: arrivals and gaps.

use mpbond_statistics::clock::ClockFit;
use serde::Serialize;

use super::Direction;
use super::flow::Flow;
use crate::statistics::Distribution;

/// Width of a bin for throughput and the largest delay ("Understanding the Networking Performance
/// of Wear OS", section 3.2).
pub const BIN_S: f64 = 0.2;
/// Maximum number of bins: two days, more than a run lasts.
const MAX_BINS: usize = 864_000;
/// Maximum number of gaps listed; all are counted.
const MAX_GAPS: usize = 10_000;
/// Maximum number of delays kept; beyond it, every second, fourth, ... is kept.
const MAX_DELAYS: usize = 1 << 20;

/// Interval without a record.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gap {
    /// Arrival of the last record before it, in s since the run's start.
    pub start_s: f64,
    /// Length, in s, up to the next record.
    pub length_s: f64,
    /// Whether the connection was lost and replaced meanwhile.
    pub reconnected: bool,
    /// Whether it lasted until the end of the run.
    pub open: bool,
}

/// Gaps of one direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gaps {
    /// Minimum length of a gap, in s.
    pub threshold_s: f64,
    /// Number of gaps.
    pub count: u64,
    /// Total length, in s.
    pub total_s: f64,
    /// Longest gap, in s; 0 without any.
    pub longest_s: f64,
    /// Gaps in order, at most 10 000.
    pub list: Vec<Gap>,
}

/// Summary of one direction of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DirectionSummary {
    /// Bytes of a record, including its header of 24.
    pub record_bytes: u32,
    /// Interval between records, in ms; 0 for bulk.
    pub interval_ms: f64,
    /// Records received, each counted once.
    pub records: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Records expected and not received; `None` when the end was not received.
    pub missing: Option<u64>,
    /// Records received without a known time stamp.
    pub unstamped: u64,
    /// Arrival of the last record, in s since the run's start.
    pub last_s: Option<f64>,
    /// Bytes over the time until the last record's arrival, in Mbit/s.
    pub goodput_mbps: Option<f64>,
    /// Delay from due time (bulk: from handing over to TCP) to arrival, in ms, with the error of
    /// the clocks.
    pub delay_ms: Option<Distribution>,
    /// Intervals without a record.
    pub gaps: Gaps,
    /// Bytes in each bin of 0.2 s, from the start on.
    pub bins_bytes: Vec<u64>,
    /// Largest delay in each bin of 0.2 s, in ms; `null` for empty bins.
    pub bins_delay_ms: Vec<Option<f64>>,
}

/// Due time and arrival of a record, each by the clock of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawDelay {
    pub(crate) sent_ns: u64,
    pub(crate) came_ns: u64,
}

impl RawDelay {
    /// Difference of the two clocks, in ns.
    fn raw_ns(&self) -> i128 {
        i128::from(self.came_ns) - i128::from(self.sent_ns)
    }

    /// Delay in ms; `None` where the relation of the clocks is not known.
    pub(crate) fn delay_ms(&self, clock: &ClockFit, direction: Direction) -> Option<f64> {
        let (here_ns, there_ns, sign) = match direction {
            Direction::Down => (self.came_ns, self.sent_ns, -1.0),
            Direction::Up => (self.sent_ns, self.came_ns, 1.0),
        };
        Some(sign * clock.at(here_ns)?.correct(here_ns, there_ns) / 1e6)
    }
}

/// Account of one direction while records arrive.
pub(crate) struct Account {
    flow: Flow,
    threshold_s: f64,
    next: u64,
    records: u64,
    unstamped: u64,
    last_s: f64,
    connections: u64,
    gaps: Vec<Gap>,
    count: u64,
    total_s: f64,
    longest_s: f64,
    bins: Vec<(u64, Option<RawDelay>)>,
    delays: Vec<RawDelay>,
    /// Every `stride`-th delay is kept.
    stride: u64,
}

impl Account {
    pub(crate) fn new(flow: Flow, threshold_s: f64) -> Self {
        Self {
            flow,
            threshold_s,
            next: 0,
            records: 0,
            unstamped: 0,
            last_s: 0.0,
            connections: 1,
            gaps: Vec::new(),
            count: 0,
            total_s: 0.0,
            longest_s: 0.0,
            bins: Vec::new(),
            delays: Vec::new(),
            stride: 1,
        }
    }

    /// Number of the first record not yet received.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Records an arrival: its time, its delay by two clocks, and the number of its connection.
    /// Returns `false` for a repeated record.
    pub(crate) fn take(&mut self, number: u64, at_s: f64, delay: RawDelay, nth: u64) -> bool {
        let Some(skipped) = number.checked_sub(self.next) else {
            return false;
        };
        self.unstamped += skipped;
        if self.records.is_multiple_of(self.stride) {
            self.delays.push(delay);
            if self.delays.len() >= MAX_DELAYS {
                let mut keep = false;
                self.delays.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.stride *= 2;
            }
        }
        self.records += skipped + 1;
        self.next = number + 1;
        self.silent(at_s, nth != self.connections, false);
        self.connections = nth;
        self.last_s = self.last_s.max(at_s);
        let bin = (at_s.max(0.0) / BIN_S) as usize;
        if bin < MAX_BINS {
            if bin >= self.bins.len() {
                self.bins.resize(bin + 1, (0, None));
            }
            if let Some((bytes, worst)) = self.bins.get_mut(bin) {
                // Receipts are not trusted.
                let more = u64::from(self.flow.record_bytes).saturating_mul(skipped + 1);
                *bytes = bytes.saturating_add(more);
                if worst.is_none_or(|w| w.raw_ns() < delay.raw_ns()) {
                    *worst = Some(delay);
                }
            }
        }
        true
    }

    fn silent(&mut self, until_s: f64, reconnected: bool, open: bool) {
        let length_s = until_s - self.last_s;
        if length_s <= self.threshold_s {
            return;
        }
        self.count += 1;
        self.total_s += length_s;
        self.longest_s = self.longest_s.max(length_s);
        if self.gaps.len() < MAX_GAPS {
            self.gaps.push(Gap {
                start_s: self.last_s,
                length_s,
                reconnected,
                open,
            });
        }
    }

    /// Ends the account at `end_s`, with `total` expected records and connection number `nth`;
    /// `delay_ms` gives the delays, where the clocks' relation is known.
    pub(crate) fn finish(
        mut self,
        end_s: f64,
        total: Option<u64>,
        nth: u64,
        delay_ms: impl Fn(&RawDelay) -> Option<f64>,
    ) -> DirectionSummary {
        let missing = total.map(|t| t.saturating_sub(self.next));
        if missing != Some(0) {
            self.silent(end_s, nth != self.connections, true);
        }
        let came = self.records > 0;
        let bytes = self
            .records
            .saturating_mul(u64::from(self.flow.record_bytes));
        let delays = Distribution::of(self.delays.iter().filter_map(&delay_ms).collect());
        DirectionSummary {
            record_bytes: self.flow.record_bytes,
            interval_ms: self.flow.interval.as_secs_f64() * 1e3,
            records: self.records,
            bytes,
            missing,
            unstamped: self.unstamped,
            last_s: came.then_some(self.last_s),
            goodput_mbps: (self.last_s > 0.0).then(|| bytes as f64 * 8.0 / self.last_s / 1e6),
            delay_ms: delays,
            gaps: Gaps {
                threshold_s: self.threshold_s,
                count: self.count,
                total_s: self.total_s,
                longest_s: self.longest_s,
                list: self.gaps,
            },
            bins_bytes: self.bins.iter().map(|b| b.0).collect(),
            bins_delay_ms: self.bins.iter().map(|b| delay_ms(b.1.as_ref()?)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn raw(ms: f64) -> RawDelay {
        RawDelay {
            sent_ns: 0,
            came_ns: (ms * 1e6) as u64,
        }
    }

    fn raw_ms(delay: &RawDelay) -> f64 {
        delay.raw_ns() as f64 / 1e6
    }

    fn camera() -> Account {
        Account::new(Flow::chunks(3000, Duration::from_millis(160)).unwrap(), 0.5)
    }

    /// Ten chunks, 6 s of nothing over a reconnection, ten more, one of them twice.
    #[test]
    fn a_blackout_is_found() {
        let mut a = camera();
        for n in 0..10 {
            assert!(a.take(n, 0.16 * (n + 1) as f64, raw(30.0), 1));
        }
        for n in 10..20 {
            assert!(a.take(n, 0.16 * (n + 1) as f64 + 6.0, raw(40.0), 2));
        }
        assert!(!a.take(12, 9.3, raw(1.0), 2));
        let s = a.finish(9.3, Some(20), 2, |d| Some(raw_ms(d) - 5.0));
        assert_eq!((s.records, s.bytes, s.missing), (20, 60_000, Some(0)));
        assert_eq!((s.gaps.count, s.gaps.list.len()), (1, 1));
        let gap = s.gaps.list[0];
        assert!((gap.start_s - 1.6).abs() < 1e-9 && (gap.length_s - 6.16).abs() < 1e-9);
        assert!(gap.reconnected && !gap.open);
        assert!((s.goodput_mbps.unwrap() - 0.48 / 9.2).abs() < 1e-9);
        let d = s.delay_ms.unwrap();
        assert_eq!((d.min, d.max, d.mean), (25.0, 35.0, 30.0));
        assert_eq!(s.bins_bytes.iter().sum::<u64>(), 60_000);
        assert_eq!(s.bins_delay_ms[20], None);
    }

    #[test]
    fn silence_until_the_end_is_a_gap_too() {
        let mut a = camera();
        a.take(0, 0.1, raw(0.0), 1);
        let s = a.finish(10.0, Some(60), 1, |_| None);
        assert!(s.gaps.list[0].open);
        assert!((s.gaps.longest_s - 9.9).abs() < 1e-9);
        assert_eq!((s.missing, s.delay_ms), (Some(59), None));
        let nothing = camera().finish(10.0, None, 1, |_| None);
        assert_eq!((nothing.missing, nothing.gaps.count), (None, 1));
        assert_eq!((nothing.goodput_mbps, nothing.last_s), (None, None));
    }

    /// The server's clock is 1 h ahead and gains 100 ppm, over 1000 s; records take 5 ms up and 50
    /// ms down, pings 1 ms each way. Delays hold within the clock's error at all times.
    #[test]
    fn delays_follow_the_clocks_skew() {
        const EPOCH: u64 = 1_700_000_000_000_000_000;
        let there = |here: u64| here + 3_600_000_000_000 + (here - EPOCH) / 10_000;
        let mut clock = ClockFit::new(1);
        let (mut down, mut up) = (camera(), camera());
        for i in 0..1000 {
            let at = EPOCH + i * 1_000_000_000;
            let pong = there(at + 1_000_000);
            clock.exchange([at, pong, pong, at + 2_000_000]);
            let delay = RawDelay {
                sent_ns: there(at),
                came_ns: at + 50_000_000,
            };
            down.take(i, i as f64, delay, 1);
            let delay = RawDelay {
                sent_ns: at,
                came_ns: there(at + 5_000_000),
            };
            up.take(i, i as f64, delay, 1);
        }
        let of = |account: Account, direction| {
            let s = account.finish(1000.0, Some(1000), 1, |d| d.delay_ms(&clock, direction));
            s.delay_ms.unwrap()
        };
        let (down, up) = (of(down, Direction::Down), of(up, Direction::Up));
        for (delay, true_ms) in [(down, 50.0), (up, 5.0)] {
            assert_eq!(delay.count, 1000);
            for ms in [delay.min, delay.max] {
                assert!((ms - true_ms).abs() < 1.01, "{delay:?}");
            }
        }
    }

    #[test]
    fn many_delays_are_thinned_evenly() {
        let mut a = Account::new(Flow::bulk(), 0.5);
        let n = 3 * MAX_DELAYS as u64;
        for i in 0..n {
            a.take(i, i as f64 / 1e6, raw(i as f64), 1);
        }
        assert!(a.delays.len() <= MAX_DELAYS);
        let d = a.finish(4.0, Some(n), 1, |d| Some(raw_ms(d)));
        let d = d.delay_ms.unwrap();
        assert!((d.median / (n as f64 / 2.0) - 1.0).abs() < 0.01);
    }
}
