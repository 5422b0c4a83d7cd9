//! Relation of another host's clock to this one's, from exchanges (RFC 5905, section 8), with error
//! bounds.

use mpbond_statistics::clock::{self, ClockFit, DirectionClock};
use serde::{Deserialize, Serialize};

/// Time stamps of an exchange, in ns since the Unix epoch by the clock of the host that took them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Sent by this host.
    pub t1_ns: u64,
    /// Received by the server.
    pub t2_ns: u64,
    /// Sent by the server.
    pub t3_ns: u64,
    /// Received by this host.
    pub t4_ns: u64,
}

impl Exchange {
    pub(crate) fn stamps(&self) -> [u64; 4] {
        [self.t1_ns, self.t2_ns, self.t3_ns, self.t4_ns]
    }
}

/// Offset of the server's clock from this host's, a line in each segment.
///
/// The errors hold however the delay divides over the two directions, as long as both clocks are
/// steady within the segment. The line of the whole run is absent where there are several segments.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClockOffset {
    /// Rate of the server's clock relative to this host's, minus 1, in ppm.
    pub skew_ppm: Option<f64>,
    /// Offset in the middle of the run, in µs.
    pub offset_us: Option<f64>,
    /// Largest error of the offset during the run, in µs; of one-way delays as well.
    pub offset_error_us: Option<f64>,
    /// No line fits all exchanges: a clock was set, or its rate changed.
    pub drifted: bool,
    /// Number of exchanges left out because their stamps contradict each other.
    pub crossed: u64,
    /// Segments, in order.
    pub segments: Vec<ClockSegment>,
}

/// Part of a run in which one line relates the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClockSegment {
    /// First exchange, in s since the first segment's beginning.
    pub from_s: f64,
    /// Last exchange.
    pub to_s: f64,
    /// Number of exchanges.
    pub exchanges: u64,
    /// Half the width of the possible range of the skew, in ppm.
    pub skew_error_ppm: f64,
    /// Relation for delays to the server: its clock minus this host's.
    pub out: DirectionClock,
    /// Relation for delays from the server: this host's clock minus the server's.
    #[serde(rename = "in")]
    pub back: DirectionClock,
}

impl ClockOffset {
    /// Relation from exchanges in the order of their sending; `None` without any.
    pub fn of(exchanges: impl IntoIterator<Item = Exchange>) -> Option<Self> {
        let mut fit = ClockFit::new(1);
        for e in exchanges {
            fit.exchange(e.stamps());
        }
        Self::of_fit(&fit)
    }

    pub(crate) fn of_fit(fit: &ClockFit) -> Option<Self> {
        let segments = fit.segments();
        let start_ns = segments.iter().map(|s| s.from_ns).min();
        let shown = |s: &clock::Segment| ClockSegment::of(s, start_ns.unwrap_or_default());
        let segments: Vec<_> = segments.iter().map(shown).collect();
        let crossed = fit.crossed();
        if segments.is_empty() && crossed == 0 {
            return None;
        }
        let only = match segments.as_slice() {
            [only] => Some(only.out),
            _ => None,
        };
        Some(Self {
            skew_ppm: only.map(|c| c.skew_ppm),
            offset_us: only.map(|c| c.offset_us),
            offset_error_us: only.map(|c| c.offset_error_us),
            drifted: fit.drifted(),
            crossed,
            segments,
        })
    }
}

impl ClockSegment {
    fn of(s: &clock::Segment, start_ns: u64) -> Self {
        let seconds = |at_ns: u64| (i128::from(at_ns) - i128::from(start_ns)) as f64 / 1e9;
        let [out, back] = s.directions();
        Self {
            from_s: seconds(s.from_ns),
            to_s: seconds(s.to_ns),
            exchanges: s.bounds / 2,
            skew_error_ppm: s.skew_error_ppm,
            out,
            back,
        }
    }
}

/// One-way delays of an exchange, there and back, in µs by the rate of the server's clock.
///
/// The server's clock shows t2 when the packet arrives, and t2 − θ(t1) − t1 is the time that passed
/// on it since t1; likewise on the way back.
pub(crate) fn one_way_us(fit: &ClockFit, segment: usize, e: &Exchange) -> Option<(f64, f64)> {
    let (out, back) = (
        fit.in_segment(segment, e.t1_ns)?,
        fit.in_segment(segment, e.t4_ns)?,
    );
    Some((
        out.correct(e.t1_ns, e.t2_ns) / 1e3,
        -back.correct(e.t4_ns, e.t3_ns) / 1e3,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server whose clock gains 100 ppm for 40 s, 1 ms away, with 21 ms back: the delays are
    /// within the error at every time, which a single offset for all is not.
    #[test]
    fn one_way_delays_are_within_the_error_under_skew() {
        let base = 10_u64.pow(18);
        let there = |ns: u64| ns + (ns - base) / 10_000;
        let exchanges: Vec<Exchange> = (0..=400)
            .map(|i| {
                let t1_ns = base + i * 100_000_000;
                Exchange {
                    t1_ns,
                    t2_ns: there(t1_ns + 1_000_000),
                    t3_ns: there(t1_ns + 1_010_000),
                    t4_ns: t1_ns + 22_010_000,
                }
            })
            .collect();
        let mut fit = ClockFit::new(1);
        for e in &exchanges {
            assert_eq!(fit.exchange(e.stamps()), Some(0));
        }
        let clock = ClockOffset::of_fit(&fit).unwrap();
        assert!(!clock.drifted && clock.crossed == 0);
        let error = clock.offset_error_us.unwrap();
        assert!((11_000.0..11_100.0).contains(&error), "{clock:?}");
        for e in &exchanges {
            let (out, back) = one_way_us(&fit, 0, e).unwrap();
            // 100 ppm of 21 ms are 2.1 µs.
            assert!((out - 1000.0).abs() <= error + 3.0, "{out} ± {error}");
            assert!((back - 21_000.0).abs() <= error + 3.0, "{back} ± {error}");
        }
        let segment = clock.segments[0];
        assert_eq!(segment.out.offset_us, -segment.back.offset_us);
        assert_eq!(segment.exchanges, 401);
    }

    /// The clock is set in the middle: no single offset is given, each part has its own.
    #[test]
    fn a_clock_that_is_set_is_reported() {
        let base = 10_u64.pow(18);
        let exchanges = (0..20).map(|i| {
            let t1_ns = base + i * 1_000_000_000;
            let set = if i < 10 { 0 } else { 3_600_000_000_000 };
            Exchange {
                t1_ns,
                t2_ns: t1_ns + 500_000 + set,
                t3_ns: t1_ns + 500_000 + set,
                t4_ns: t1_ns + 1_000_000,
            }
        });
        let clock = ClockOffset::of(exchanges).unwrap();
        assert!(clock.drifted);
        assert_eq!((clock.offset_us, clock.segments.len()), (None, 2));
        let second = clock.segments[1];
        assert!((second.out.offset_us - 3_600_000_000.0).abs() <= second.out.offset_error_us);
    }
}
