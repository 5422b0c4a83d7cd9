//! Durations as text with a unit: `"25ms"`, `"1.5 s"`, `"2min"`.
//!
//! Use with serde as `#[serde(with = "duration_text")]`, for optional fields
//! `#[serde(default, with = "duration_text::option")]`. A bare number is
//! refused: a reader of a configuration should never guess a unit.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseDurationError(String);

impl fmt::Display for ParseDurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is not a duration: write a number and a unit (ns, us, ms, s, min, h), \
             such as \"25ms\"",
            self.0
        )
    }
}

impl std::error::Error for ParseDurationError {}

/// Units in descending order, with their length in nanoseconds.
const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Parses a duration. Fractions are rounded to the nanosecond.
///
/// # Errors
/// When the text is not a non-negative decimal number followed by a known unit, or the duration
/// exceeds the 584 years that 64 bits of nanoseconds hold.
pub fn parse(text: &str) -> Result<Duration, ParseDurationError> {
    let err = || {
        ParseDurationError(
            text.chars()
                .take(40)
                .collect::<String>()
                .escape_debug()
                .to_string(),
        )
    };
    let t = text.trim();
    let split = t
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .ok_or_else(err)?;
    let (number, unit) = t.split_at(split);
    let unit = match unit.trim() {
        "µs" | "μs" => "us",
        "m" => "min",
        other => other,
    };
    let (_, unit_ns) = UNITS.iter().find(|u| u.0 == unit).ok_or_else(err)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u64 = whole.parse().map_err(|_| err())?;
    let fraction: f64 = format!("0.{fraction}").parse().map_err(|_| err())?;
    let ns = whole
        .checked_mul(*unit_ns)
        .and_then(|ns| ns.checked_add((fraction * *unit_ns as f64).round() as u64))
        .ok_or_else(err)?;
    Ok(Duration::from_nanos(ns))
}

/// Formats a duration in the largest unit up to seconds that divides it, so that [`parse`] returns
/// the same duration.
pub fn format(span: Duration) -> String {
    let ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    if ns == 0 {
        return "0s".to_owned();
    }
    let (name, unit_ns) = UNITS
        .iter()
        .filter(|(name, _)| !matches!(*name, "h" | "min"))
        .find(|(_, unit_ns)| ns.is_multiple_of(*unit_ns))
        .unwrap_or(&("ns", 1));
    format!("{}{name}", ns / unit_ns)
}

/// For `#[serde(with = "duration_text")]`.
///
/// # Errors
/// Only those of the serializer.
pub fn serialize<S: Serializer>(span: &Duration, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&format(*span))
}

/// For `#[serde(with = "duration_text")]`.
///
/// # Errors
/// See [`parse`].
pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
    Ok(Text::deserialize(d)?.0)
}

/// Duration that serializes as text, for use inside other types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(pub Duration);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        serialize(&self.0, s)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Text;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a duration such as \"25ms\" or \"2s\"")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text, E> {
                parse(text).map(Text).map_err(E::custom)
            }
        }
        d.deserialize_str(Visitor)
    }
}

/// Serde functions for `Option<Duration>`; add `#[serde(default)]`.
pub mod option {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, Text};

    /// For `#[serde(with = "duration_text::option")]`.
    ///
    /// # Errors
    /// Only those of the serializer.
    pub fn serialize<S: Serializer>(span: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
        span.map(Text).serialize(s)
    }

    /// For `#[serde(with = "duration_text::option")]`.
    ///
    /// # Errors
    /// See [`super::parse`].
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Text>::deserialize(d)?.map(|t| t.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, ns) in [
            ("25ms", 25_000_000),
            ("25 ms", 25_000_000),
            ("1.5s", 1_500_000_000),
            ("0.1us", 100),
            ("3µs", 3_000),
            ("2min", 120_000_000_000),
            ("30m", 1_800_000_000_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        for bad in [
            "",
            "25",
            "ms",
            "-1s",
            "1e3s",
            "1.2.3s",
            "5 days",
            ".s",
            "99999999999h",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_error_names_the_expected_form() {
        let e = parse("25").unwrap_err().to_string();
        assert!(e.contains("\"25\"") && e.contains("25ms"), "{e}");
    }

    proptest::proptest! {
        #[test]
        fn writes_what_it_reads(ns in 0..u64::MAX) {
            let span = Duration::from_nanos(ns);
            proptest::prop_assert_eq!(parse(&format(span)), Ok(span));
        }
    }
}
