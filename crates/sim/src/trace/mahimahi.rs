//! Recorded links in the format of Mahimahi (one packet opportunity a line).

use std::time::Duration;

use mpbond_units::BitRate;

use super::{MAX_LINES, TraceError, quote};

/// IP bytes of one opportunity of a Mahimahi trace.
///
/// mm-link itself counts 1504: its packets carry the four bytes that a TUN
/// device puts in front. Ours are counted without them, so both let one
/// full-size packet pass.
pub const OPPORTUNITY_BYTES: u32 = 1500;

const NS_PER_MS: u64 = 1_000_000;

/// A recorded link as a list of opportunities: instants at which one full packet may leave.
///
/// The trace repeats for ever; its last instant is the length of a period, so
/// the last opportunity of a period and an opportunity at 0 of the next one
/// fall together, as in mm-link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MahimahiTrace {
    /// Milliseconds since the start, never falling. Not empty, last one not 0.
    at_ms: Vec<u32>,
}

impl MahimahiTrace {
    /// Reads a trace: one whole number of milliseconds a line, never falling.
    /// `file` is only used in errors.
    ///
    /// # Errors
    /// A line that is no whole number below 2^32 (or empty, which mm-link
    /// refuses too), a falling instant, no line at all, a length of 0, or more
    /// than ten million lines.
    pub fn parse(file: &str, text: &str) -> Result<Self, TraceError> {
        let mut at_ms: Vec<u32> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            if number > MAX_LINES {
                return Err(TraceError::line(
                    file,
                    number,
                    format!("a trace has at most {MAX_LINES} lines"),
                ));
            }
            let ms: u32 = line.trim().parse().map_err(|_| {
                let reason = format!("{} is not a whole number of milliseconds", quote(line));
                TraceError::line(file, number, reason)
            })?;
            if let Some(last) = at_ms.last().filter(|last| ms < **last) {
                return Err(TraceError::line(
                    file,
                    number,
                    format!("{ms} ms comes after {last} ms: instants must not fall"),
                ));
            }
            at_ms.push(ms);
        }
        match at_ms.last() {
            None => Err(TraceError::file(file, "the trace is empty")),
            Some(0) => Err(TraceError::file(
                file,
                "the trace must last longer than 0 ms",
            )),
            Some(_) => {
                at_ms.shrink_to_fit();
                Ok(Self { at_ms })
            }
        }
    }

    /// Period after which the trace repeats.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns())
    }

    /// Number of opportunities in a period.
    pub fn len(&self) -> usize {
        self.at_ms.len()
    }

    /// Never true: an empty trace does not parse.
    pub fn is_empty(&self) -> bool {
        self.at_ms.is_empty()
    }

    /// The rate over a whole period.
    pub fn mean_rate(&self) -> BitRate {
        BitRate::over(
            self.at_ms.len() as u64 * u64::from(OPPORTUNITY_BYTES),
            self.period(),
        )
    }

    /// Number of opportunities up to and including `pos_ns` after the start of the trace, over all
    /// repetitions.
    pub(crate) fn count_until(&self, pos_ns: u64) -> u64 {
        let rounds = pos_ns / self.period_ns();
        let within = pos_ns % self.period_ns();
        let here = self
            .at_ms
            .partition_point(|ms| u64::from(*ms) * NS_PER_MS <= within);
        rounds
            .saturating_mul(self.at_ms.len() as u64)
            .saturating_add(here as u64)
    }

    /// Time of opportunity `index` (from 0, over all repetitions), in nanoseconds after the start
    /// of the trace.
    pub(crate) fn opportunity_ns(&self, index: u64) -> u64 {
        let len = self.at_ms.len() as u64;
        let within = usize::try_from(index % len)
            .ok()
            .and_then(|i| self.at_ms.get(i))
            .map_or(0, |ms| u64::from(*ms) * NS_PER_MS);
        (index / len)
            .saturating_mul(self.period_ns())
            .saturating_add(within)
    }

    fn period_ns(&self) -> u64 {
        self.at_ms.last().map_or(1, |ms| u64::from(*ms) * NS_PER_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared;
    use super::*;

    #[test]
    fn complaints_name_file_and_line() {
        for (text, want) in [
            ("", "t.down: the trace is empty"),
            ("0\n0\n", "t.down: the trace must last longer than 0 ms"),
            (
                "1\n\n2\n",
                "t.down:2: \"\" is not a whole number of milliseconds",
            ),
            (
                "5\n-3\n",
                "t.down:2: \"-3\" is not a whole number of milliseconds",
            ),
            (
                "5\n4\n",
                "t.down:2: 4 ms comes after 5 ms: instants must not fall",
            ),
            (
                "4294967296",
                "t.down:1: \"4294967296\" is not a whole number of milliseconds",
            ),
        ] {
            let e = MahimahiTrace::parse("t.down", text).unwrap_err();
            assert_eq!(e.to_string(), want);
        }
    }

    #[test]
    fn wraps_at_the_last_instant() {
        let t = MahimahiTrace::parse("t", "0\n3\n3\n10\n").unwrap();
        assert_eq!(t.period(), Duration::from_millis(10));
        let ms: Vec<u64> = (0..9).map(|i| t.opportunity_ns(i) / NS_PER_MS).collect();
        assert_eq!(ms, [0, 3, 3, 10, 10, 13, 13, 20, 20]);
        let counts: Vec<u64> = [0, 2, 3, 9, 10, 12, 13, 20]
            .iter()
            .map(|ms| t.count_until(ms * NS_PER_MS))
            .collect();
        assert_eq!(counts, [1, 1, 3, 3, 5, 5, 7, 9]);
    }

    #[test]
    fn recorded_traces_have_their_published_means() {
        for (name, mbps, seconds) in [
            ("Verizon-LTE-short.down", 5.03, 140.0),
            ("Verizon-LTE-short.up", 5.95, 140.0),
            ("TMobile-LTE-short.down", 16.70, 140.0),
            ("ATT-LTE-driving-2016.down", 4.56, 120.0),
            ("ATT-LTE-driving-2016.up", 1.91, 120.0),
            ("TMobile-UMTS-driving.down", 2.02, 928.4),
            ("nyc-trace-3114405-bus.down", 8.11, 314.9),
            ("nyc-trace-2768760-taxi3.down", 9.57, 104.8),
            ("nyc-trace-3204803-timessquare.down", 7.19, 188.3),
            ("nyc-trace-2925703-home1.down", 7.59, 299.7),
        ] {
            let Some(text) = shared::read(name) else {
                continue;
            };
            let t = MahimahiTrace::parse(name, &text).unwrap();
            assert!(
                (t.mean_rate().mbps() - mbps).abs() < 0.006,
                "{name}: {}",
                t.mean_rate()
            );
            assert!((t.period().as_secs_f64() - seconds).abs() < 0.06, "{name}");
        }
    }
}
