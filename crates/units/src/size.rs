//! Byte counts as text with a unit: `"10 MiB"`, `"1.5 GB"`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Units in descending order, with their size in bytes.
const UNITS: [(&str, u64); 8] = [
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// A number of bytes.
///
/// Read from text with a unit (`"10 MiB"`, `"1.5 GB"`; fractions are rounded to the byte) or, in a
/// file, from a bare number of bytes. Written in the largest unit that divides it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

const EXPECTED: &str = "a size such as \"10 MiB\" or \"2 GB\", or a number of bytes";

/// Text that is not a number of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseSizeError(String);

impl fmt::Display for ParseSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" is not {EXPECTED}", self.0)
    }
}

impl std::error::Error for ParseSizeError {}

impl FromStr for Size {
    type Err = ParseSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shown = || text.chars().take(40).collect::<String>();
        parse(text)
            .map(Self)
            .ok_or_else(|| ParseSizeError(shown().escape_debug().to_string()))
    }
}

fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (name, unit) = UNITS.iter().find(|(name, _)| text.ends_with(name))?;
    let number = text.strip_suffix(name)?.trim();
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(*unit);
    }
    let plain = number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let bytes = number.parse::<f64>().ok().filter(|_| plain)? * *unit as f64;
    (bytes < u64::MAX as f64).then_some(bytes.round() as u64)
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit) = UNITS
            .iter()
            .find(|(_, unit)| self.0 > 0 && self.0.is_multiple_of(*unit))
            .unwrap_or(&("B", 1));
        write!(f, "{} {name}", self.0 / unit)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.to_string())
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: serde::de::Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }
            fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<Size, E> {
                u64::try_from(bytes)
                    .map(Size)
                    .map_err(|_| E::custom("a size must not be negative"))
            }
        }
        d.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("4 MiB", 4 << 20),
            ("2GB", 2_000_000_000),
            ("1.5 GB", 1_500_000_000),
            ("64 KiB", 65_536),
            ("10 kB", 10_000),
            ("7 B", 7),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for bad in [
            "",
            "4",
            "MiB",
            "-1 MiB",
            "1e3 MB",
            "inf GB",
            "999999999 TB",
            "99999999999 GiB",
            "1.2.3 GB",
        ] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
        let error = "4 parsecs".parse::<Size>().unwrap_err().to_string();
        assert!(
            error.starts_with("\"4 parsecs\" is not a size such as"),
            "{error}"
        );
    }

    #[test]
    fn reads_what_it_writes() {
        for text in ["10 MiB", "512 KiB", "4 MB", "3 TB", "1448 B", "0 B"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
    }
}
