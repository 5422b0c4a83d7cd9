//! Recorded links as tables of instants and rates.

use std::num::NonZeroUsize;
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
    /// Value of the unit in bits per second.
    pub(super) fn bits(self) -> f64 {
        match self {
            Self::BitPerSecond => 1.0,
            Self::KilobitPerSecond => 1e3,
            Self::MegabitPerSecond => 1e6,
            Self::BytePerSecond => 8.0,
        }
    }

    fn rate(self, value: f64) -> BitRate {
        BitRate::from_bps((value * self.bits()).round() as u64)
    }
}

/// Column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a column is its name in the first line, or its number from 1"
)]
pub enum Column {
    /// By number, from 1; the table has no line of names.
    Number(NonZeroUsize),
    /// By name; the first line has the names.
    Name(String),
}

/// Format of a table of instants and rates.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileForm {
    /// Column of the rates. Without it a line has an instant and a rate, or only a rate if `every`
    /// is given.
    pub column: Option<Column>,
    /// Interval of the lines, for a table without instants. Without it the first column has the
    /// instants: seconds, or a date and time such as `2020.02.13_13.03.24`.
    pub every: Option<Duration>,
    /// The unit of the rates.
    pub unit: RateUnit,
    /// Factor of all rates.
    pub scale: f64,
}

impl ProfileForm {
    /// Lines of instant and rate.
    pub fn new(unit: RateUnit) -> Self {
        Self {
            column: None,
            every: None,
            unit,
            scale: 1.0,
        }
    }
}

/// A recorded link as a table: from each instant on, a rate, until the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateProfile {
    /// Start of each step, the first at 0, strictly rising; its rate.
    steps: Vec<(Duration, BitRate)>,
    /// Length of the recording, beyond the start of the last step.
    length: Duration,
}

/// Maximum rate: a larger value has another unit.
const MAX_RATE_BPS: f64 = 1e12;

impl RateProfile {
    /// Reads a table, its fields separated by commas, or by tabs and spaces;
    /// empty lines and lines that begin with `#` are skipped. Instants are
    /// shifted so that the first is 0, a value holds until the next line, and
    /// the last one as long as the one before it. Of several lines with the
    /// same instant the last counts. `file` is only used in errors.
    ///
    /// # Errors
    /// A line without an instant or a rate where `form` has them, a negative
    /// or absurd value, instants that fall, fewer than two instants, or more
    /// than ten million lines.
    pub fn parse(file: &str, text: &str, form: &ProfileForm) -> Result<Self, TraceError> {
        let mut column = match &form.column {
            Some(Column::Number(number)) => Some(number.get() - 1),
            _ => None,
        };
        let mut names = matches!(form.column, Some(Column::Name(_)));
        let mut rows: Vec<(Duration, BitRate)> = Vec::new();
        let mut first = None;
        let mut count = 0_u32;
        for (index, line) in text.lines().enumerate() {
            let at = |reason: String| TraceError::line(file, index + 1, reason);
            if index >= MAX_LINES {
                return Err(at(format!("a profile has at most {MAX_LINES} lines")));
            }
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let fields = fields(line);
            if names && let Some(Column::Name(name)) = &form.column {
                let found = fields.iter().position(|field| field == name);
                column = Some(found.ok_or_else(|| {
                    at(format!(
                        "there is no column {}: {}",
                        quote(name),
                        list(&fields)
                    ))
                })?);
                names = false;
                continue;
            }
            let (instant, rate) = row(&fields, column, form)
                .ok_or_else(|| at(format!("{} is not `{}`", quote(line), shape(form))))?;
            let second = match (form.every, instant) {
                (Some(every), _) => every.as_secs_f64() * f64::from(count),
                (None, text) => {
                    seconds(text).ok_or_else(|| at(format!("{} is not a time", quote(text))))?
                }
            };
            count = count.saturating_add(1);
            let value: f64 = rate
                .parse()
                .ok()
                .filter(|value: &f64| value.is_finite())
                .ok_or_else(|| at(format!("{} is not a number", quote(rate))))?;
            // Room for Unix times, far from what a Duration of nanoseconds overflows at.
            if !(-1e10..=1e10).contains(&second) {
                return Err(at(format!("{second} s is out of range")));
            }
            let rate = form.unit.rate(value * form.scale);
            if value < 0.0 || rate.bps() as f64 > MAX_RATE_BPS {
                return Err(at(format!("{value} is not a possible rate in this unit")));
            }
            let since = second - *first.get_or_insert(second);
            let start = Duration::try_from_secs_f64(since)
                .map_err(|_| at(format!("second {second} comes before the first line")))?;
            match rows.last_mut() {
                Some(last) if start < last.0 => {
                    return Err(at(format!("second {second} comes before the line above")));
                }
                Some(last) if start == last.0 => last.1 = rate,
                _ => rows.push((start, rate)),
            }
        }
        let [.., before, last] = rows.as_slice() else {
            return Err(TraceError::file(
                file,
                "a profile needs at least two instants",
            ));
        };
        let length = last.0 + (last.0 - before.0);
        Ok(Self {
            steps: rows,
            length,
        })
    }

    /// The steps: start, the first at 0, and rate.
    pub fn steps(&self) -> &[(Duration, BitRate)] {
        &self.steps
    }

    /// Length of the recording.
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

pub(super) fn fields(line: &str) -> Vec<&str> {
    if line.contains(',') {
        line.split(',').map(str::trim).collect()
    } else {
        line.split_whitespace().collect()
    }
}

/// The first names of a table, for an error's text.
pub(super) fn list(fields: &[&str]) -> String {
    let text = fields.join(", ");
    let short: String = text.chars().take(200).collect();
    short.escape_debug().to_string()
}

/// Instant and rate of a line; the instant is empty where there is none.
fn row<'a>(
    fields: &[&'a str],
    column: Option<usize>,
    form: &ProfileForm,
) -> Option<(&'a str, &'a str)> {
    match (column, fields) {
        (Some(column), fields) => Some((fields.first()?, fields.get(column)?)),
        (None, [rate]) if form.every.is_some() => Some(("", rate)),
        (None, [instant, rate]) if form.every.is_none() => Some((instant, rate)),
        _ => None,
    }
}

/// Expected shape of a line, for an error's text.
fn shape(form: &ProfileForm) -> &'static str {
    match (&form.column, form.every) {
        (Some(_), Some(_)) => "...,value,...",
        (Some(_), None) => "second,...,value,...",
        (None, Some(_)) => "value",
        (None, None) => "second,value",
    }
}

/// Seconds as a number, or since 1970 as year, month, day, hour, minute and
/// second.
fn seconds(text: &str) -> Option<f64> {
    if let Ok(number) = text.parse::<f64>() {
        return number.is_finite().then_some(number);
    }
    let parts: Vec<i64> = text
        .split(['.', '_', '-', ':', '/', ' ', 'T'])
        .map(|part| part.parse::<u16>().map(i64::from))
        .collect::<Result<_, _>>()
        .ok()?;
    let [
        year,
        month @ 1..=12,
        day @ 1..=31,
        hour @ 0..=23,
        minute @ 0..=59,
        second @ 0..=60,
    ] = parts.as_slice()
    else {
        return None;
    };
    // Days of the Gregorian calendar, years beginning in March so that a leap
    // day is the last of its year.
    let years = if *month > 2 { *year } else { year - 1 };
    let days_before_month = (153 * ((month + 9) % 12) + 2) / 5;
    let days = 365 * years + years / 4 - years / 100 + years / 400 + days_before_month + day;
    let days = days - 719_469;
    Some((days * 86_400 + hour * 3_600 + minute * 60 + second) as f64)
}

#[cfg(test)]
mod tests {
    use super::super::shared;
    use super::*;

    fn form(unit: RateUnit) -> ProfileForm {
        ProfileForm::new(unit)
    }

    #[test]
    fn complaints_name_file_and_line() {
        for (text, want) in [
            ("1,5\n", "p.csv: a profile needs at least two instants"),
            ("1,5\n1,6\n", "p.csv: a profile needs at least two instants"),
            ("1,5\n2\n", "p.csv:2: \"2\" is not `second,value`"),
            ("1,5\n2,5,5\n", "p.csv:2: \"2,5,5\" is not `second,value`"),
            ("1,5\n2,x\n", "p.csv:2: \"x\" is not a number"),
            ("1,5\n2,NaN\n", "p.csv:2: \"NaN\" is not a number"),
            ("1,5\nnoon,6\n", "p.csv:2: \"noon\" is not a time"),
            ("1,5\n1e99,6\n", "p.csv:2: 1"),
            (
                "1,5\n2,-1\n",
                "p.csv:2: -1 is not a possible rate in this unit",
            ),
            (
                "1,5\n3,6\n2,6\n",
                "p.csv:3: second 2 comes before the line above",
            ),
            (
                "1,5\n0,6\n",
                "p.csv:2: second 0 comes before the first line",
            ),
        ] {
            let e = RateProfile::parse("p.csv", text, &form(RateUnit::MegabitPerSecond));
            let e = e.unwrap_err().to_string();
            assert!(e.starts_with(want), "{text}: {e}");
        }
        let named = ProfileForm {
            column: Some(Column::Name("rate".into())),
            ..form(RateUnit::MegabitPerSecond)
        };
        let e = RateProfile::parse("p.csv", "time,speed\n1,2\n", &named).unwrap_err();
        assert_eq!(
            e.to_string(),
            "p.csv:1: there is no column \"rate\": time, speed"
        );
    }

    #[test]
    fn starts_at_zero_and_holds_the_last_value() {
        let text = "# recorded\n1,1000\n2,3000\n";
        let p = RateProfile::parse("p", text, &form(RateUnit::KilobitPerSecond)).unwrap();
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
    fn columns_dates_spacing_and_scale() {
        let mbps = BitRate::from_mbps;
        let text = "when,cell,rate\n2020.02.28_23.59.59,7,4\n2020.02.28_23.59.59,7,6\n\
                    2020.03.01_00.00.01,,8\n";
        for column in [
            Column::Name("rate".into()),
            Column::Number(NonZeroUsize::new(3).unwrap()),
        ] {
            let text = match column {
                Column::Name(_) => text,
                Column::Number(_) => text.split_once('\n').unwrap().1,
            };
            let form = ProfileForm {
                column: Some(column),
                scale: 0.5,
                ..form(RateUnit::MegabitPerSecond)
            };
            let p = RateProfile::parse("p", text, &form).unwrap();
            // 2020 is a leap year; of the two lines of one second the last counts.
            let day_and_two_seconds = Duration::from_secs(86_402);
            assert_eq!(
                p.steps(),
                [
                    (Duration::ZERO, mbps(3.0)),
                    (day_and_two_seconds, mbps(4.0))
                ]
            );
        }
        let form = ProfileForm {
            column: Some(Column::Number(NonZeroUsize::MIN)),
            every: Some(Duration::from_millis(500)),
            ..form(RateUnit::MegabitPerSecond)
        };
        let p = RateProfile::parse("p", "1,Mbits/sec\n2,Mbits/sec\n3,Mbits/sec\n", &form);
        let p = p.unwrap();
        assert_eq!(p.steps()[2], (Duration::from_secs(1), mbps(3.0)));
        assert_eq!(p.length(), Duration::from_millis(1_500));
        // Steps closer than a nanosecond are one.
        let tiny = "0 1\n1e-11 2\n";
        let e = RateProfile::parse("p", tiny, &ProfileForm::new(RateUnit::BitPerSecond));
        assert!(e.unwrap_err().to_string().contains("two instants"));
    }

    #[test]
    fn recorded_profiles_have_their_published_means() {
        use RateUnit::{BytePerSecond, KilobitPerSecond, MegabitPerSecond};
        let two = form;
        let ucc = ProfileForm {
            column: Some(Column::Name("DL_bitrate".into())),
            ..form(KilobitPerSecond)
        };
        let nyu = ProfileForm {
            column: Some(Column::Number(NonZeroUsize::MIN)),
            every: Some(Duration::from_secs(1)),
            ..form(MegabitPerSecond)
        };
        for (name, form, mbps) in [
            ("sbu-pair-7_1_wifi.csv", two(BytePerSecond), 30.45),
            ("sbu-pair-7_1_cellular.csv", two(BytePerSecond), 47.44),
            ("sbu-pair-12_1_wifi.csv", two(BytePerSecond), 33.68),
            ("sbu-pair-12_1_cellular.csv", two(BytePerSecond), 45.64),
            ("sbu-pair-13_1_wifi.csv", two(BytePerSecond), 21.05),
            ("sbu-pair-13_1_cellular.csv", two(BytePerSecond), 9.75),
            (
                "lumos5g-5g_trace_100_walking.txt",
                two(MegabitPerSecond),
                498.6,
            ),
            ("hsdpa-norway_tram_10.txt", two(MegabitPerSecond), 0.94),
            ("nyu-mets-7Train1.csv", nyu, 6.81),
            ("ucc-5g-driving-B_2020.02.13_13.03.24.csv", ucc, 7.53),
        ] {
            let Some(text) = shared::read(name) else {
                continue;
            };
            let p = RateProfile::parse(name, &text, &form).unwrap();
            let mean = p.mean_rate().mbps();
            assert!((mean - mbps).abs() < 0.01 * mbps, "{name}: {mean}");
        }
    }
}
