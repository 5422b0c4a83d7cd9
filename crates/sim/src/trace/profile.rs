use std::time::Duration;

use mpbond_units::BitRate;
use serde::{Deserialize, Serialize};

use super::{MAX_LINES, TraceError, quote};

/// The unit of the rates in a table of seconds and rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RateUnit {
    /// Bits per second.
    #[serde(rename = "bit/s")]
    BitPerSecond,
    /// 10^3 bits per second.
    #[serde(rename = "kbit/s")]
    KilobitPerSecond,
    /// 10^6 bits per second.
    #[serde(rename = "Mbit/s")]
    MegabitPerSecond,
    /// Bytes per second.
    #[serde(rename = "byte/s")]
    BytePerSecond,
}

impl RateUnit {
    fn rate(self, value: f64) -> BitRate {
        let bits = match self {
            Self::BitPerSecond => 1.0,
            Self::KilobitPerSecond => 1e3,
            Self::MegabitPerSecond => 1e6,
            Self::BytePerSecond => 8.0,
        };
        BitRate::from_bps((value * bits).round() as u64)
    }
}

/// A recorded link as a table: from each instant on, a rate, until the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateProfile {
    /// Start of each step, the first at 0, strictly rising; its rate.
    steps: Vec<(Duration, BitRate)>,
    length: Duration,
}

/// No link is faster; a larger value is a unit mistaken for another.
const MAX_RATE_BPS: f64 = 1e12;

impl RateProfile {
    /// Reads lines of `second,value`, separated by comma, tab or spaces; empty
    /// lines and lines that begin with `#` are skipped. Instants are shifted so
    /// that the first is 0, a value holds until the next line, and the last
    /// one as long as the one before it. `file` is only used in errors.
    ///
    /// # Errors
    /// A line with other than two numbers, a negative or absurd value, instants
    /// that do not rise, fewer than two lines, or more than ten million.
    pub fn parse(file: &str, text: &str, unit: RateUnit) -> Result<Self, TraceError> {
        let mut rows: Vec<(f64, BitRate)> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let at = |reason: String| TraceError::line(file, index + 1, reason);
            if index >= MAX_LINES {
                return Err(at(format!("a profile has at most {MAX_LINES} lines")));
            }
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            let mut fields = trimmed
                .split([',', '\t', ' '])
                .map(str::trim)
                .filter(|f| !f.is_empty());
            let (Some(second), Some(value), None) = (fields.next(), fields.next(), fields.next())
            else {
                return Err(at(format!("{} is not `second,value`", quote(line))));
            };
            let number = |text: &str| {
                let n: Option<f64> = text.parse().ok();
                n.filter(|n| n.is_finite())
                    .ok_or_else(|| at(format!("{} is not a number", quote(text))))
            };
            let (second, value) = (number(second)?, number(value)?);
            // Room for Unix times, far from what a Duration of nanoseconds overflows at.
            if !(-1e10..=1e10).contains(&second) {
                return Err(at(format!("{second} s is out of range")));
            }
            let rate = unit.rate(value);
            if value < 0.0 || rate.bps() as f64 > MAX_RATE_BPS {
                return Err(at(format!("{value} is not a possible rate in this unit")));
            }
            if rows.last().is_some_and(|last| second <= last.0) {
                return Err(at(format!(
                    "second {second} does not come after the line before"
                )));
            }
            rows.push((second, rate));
        }
        let (Some(first), [.., before, last]) = (rows.first(), rows.as_slice()) else {
            return Err(TraceError::file(file, "a profile needs at least two lines"));
        };
        let length = Duration::from_secs_f64(last.0 - first.0 + (last.0 - before.0));
        let start = first.0;
        let steps = rows
            .iter()
            .map(|(second, rate)| (Duration::from_secs_f64(second - start), *rate))
            .collect();
        Ok(Self { steps, length })
    }

    /// The steps: start, the first at 0, and rate.
    pub fn steps(&self) -> &[(Duration, BitRate)] {
        &self.steps
    }

    /// The steps alone, for [`crate::link::Rate::Schedule`].
    pub fn into_steps(self) -> Vec<(Duration, BitRate)> {
        self.steps
    }

    /// How long the recording lasts.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// The rate over the whole recording.
    pub fn mean_rate(&self) -> BitRate {
        let ends = self.steps.iter().skip(1).map(|s| s.0).chain([self.length]);
        let bits: f64 = self
            .steps
            .iter()
            .zip(ends)
            .map(|((from, rate), to)| rate.bps() as f64 * to.saturating_sub(*from).as_secs_f64())
            .sum();
        BitRate::from_bps((bits / self.length.as_secs_f64()).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared;
    use super::*;

    #[test]
    fn complaints_name_file_and_line() {
        for (text, want) in [
            ("1,5\n", "p.csv: a profile needs at least two lines"),
            ("1,5\n2\n", "p.csv:2: \"2\" is not `second,value`"),
            ("1,5\n2,x\n", "p.csv:2: \"x\" is not a number"),
            ("1,5\n2,NaN\n", "p.csv:2: \"NaN\" is not a number"),
            (
                "1,5\n2,-1\n",
                "p.csv:2: -1 is not a possible rate in this unit",
            ),
            (
                "1,5\n1,6\n",
                "p.csv:2: second 1 does not come after the line before",
            ),
        ] {
            let e = RateProfile::parse("p.csv", text, RateUnit::MegabitPerSecond).unwrap_err();
            assert_eq!(e.to_string(), want);
        }
    }

    #[test]
    fn starts_at_zero_and_holds_the_last_value() {
        let text = "# recorded\n1,1000\n2,3000\n";
        let p = RateProfile::parse("p", text, RateUnit::KilobitPerSecond).unwrap();
        let mbps = BitRate::from_mbps;
        assert_eq!(
            p.steps(),
            [
                (Duration::ZERO, mbps(1.0)),
                (Duration::from_secs(1), mbps(3.0))
            ]
        );
        assert_eq!(p.length(), Duration::from_secs(2));
        assert_eq!(p.mean_rate(), mbps(2.0));
    }

    #[test]
    fn recorded_profiles_have_their_published_means() {
        use RateUnit::{BytePerSecond, MegabitPerSecond};
        for (name, unit, mbps) in [
            ("sbu-pair-7_1_wifi.csv", BytePerSecond, 30.45),
            ("sbu-pair-7_1_cellular.csv", BytePerSecond, 47.44),
            ("sbu-pair-13_1_wifi.csv", BytePerSecond, 21.05),
            ("sbu-pair-13_1_cellular.csv", BytePerSecond, 9.75),
            ("lumos5g-5g_trace_100_walking.txt", MegabitPerSecond, 498.6),
            ("hsdpa-norway_tram_10.txt", MegabitPerSecond, 0.94),
        ] {
            let Some(text) = shared::read(name) else {
                continue;
            };
            let p = RateProfile::parse(name, &text, unit).unwrap();
            let mean = p.mean_rate().mbps();
            assert!((mean - mbps).abs() < 0.01 * mbps, "{name}: {mean}");
        }
    }
}
