//! Data rates.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Data rate in bits per second.
///
/// Written and read as text with a decimal unit: `"5 Mbit/s"`, `"250 kbit/s"`, `"1.5 Gbit/s"`,
/// `"800 bit/s"`. In configuration a bare number is in Mbit/s, the unit that the papers use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BitRate(u64);

impl BitRate {
    /// Rate zero.
    pub const ZERO: Self = Self(0);

    /// A rate of `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// A rate of `mbps` times 10^6 bits per second.
    pub fn from_mbps(mbps: f64) -> Self {
        Self((mbps.max(0.0) * 1e6).round() as u64)
    }

    /// A rate of `b` bytes per second.
    pub fn from_bytes_per_sec(b: f64) -> Self {
        Self((b.max(0.0) * 8.0).round() as u64)
    }

    /// Mean rate of `bytes` in `span`; zero when the span is zero.
    pub fn over(bytes: u64, span: Duration) -> Self {
        if span.is_zero() {
            return Self::ZERO;
        }
        Self::from_bytes_per_sec(bytes as f64 / span.as_secs_f64())
    }

    /// Bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// Millions of bits per second.
    pub fn mbps(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Bytes per second.
    pub fn bytes_per_sec(self) -> f64 {
        self.0 as f64 / 8.0
    }

    /// Time that `bytes` take at this rate; [`Duration::MAX`] at rate zero.
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return if bytes == 0 {
                Duration::ZERO
            } else {
                Duration::MAX
            };
        }
        let ns = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(self.0);
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Number of whole bytes that pass in `span`.
    pub fn bytes_in(self, span: Duration) -> u64 {
        let b = u128::from(self.0) * span.as_nanos() / 8_000_000_000;
        u64::try_from(b).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0 as f64;
        let (v, unit) = match self.0 {
            1_000_000_000.. => (b / 1e9, "Gbit/s"),
            1_000_000.. => (b / 1e6, "Mbit/s"),
            1_000.. => (b / 1e3, "kbit/s"),
            _ => (b, "bit/s"),
        };
        match f.precision() {
            Some(p) => write!(f, "{v:.p$} {unit}"),
            None => write!(f, "{v} {unit}"),
        }
    }
}

impl fmt::Debug for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is not a data rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseBitRateError(String);

impl fmt::Display for ParseBitRateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is not a data rate: write a number and a unit, such as \"5 Mbit/s\", \"250 kbit/s\"",
            self.0
        )
    }
}

impl std::error::Error for ParseBitRateError {}

impl FromStr for BitRate {
    type Err = ParseBitRateError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let err = || ParseBitRateError(s.to_owned());
        let t = s.trim();
        let split = t
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(t.len());
        let (number, unit) = t.split_at(split);
        let number: f64 = number.parse().map_err(|_| err())?;
        let factor = match unit.trim().to_ascii_lowercase().as_str() {
            "bit/s" | "bps" => 1.0,
            "kbit/s" | "kbps" | "kbit" => 1e3,
            "mbit/s" | "mbps" | "mbit" => 1e6,
            "gbit/s" | "gbps" | "gbit" => 1e9,
            _ => return Err(err()),
        };
        Ok(Self((number * factor).round() as u64))
    }
}

impl Serialize for BitRate {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.to_string())
    }
}

impl<'de> Deserialize<'de> for BitRate {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = BitRate;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a data rate such as \"5 Mbit/s\", or a number of Mbit/s")
            }
            fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<BitRate, E> {
                v.parse().map_err(E::custom)
            }
            fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<BitRate, E> {
                if v.is_finite() && v >= 0.0 {
                    Ok(BitRate::from_mbps(v))
                } else {
                    Err(E::custom("a data rate must not be negative"))
                }
            }
            fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<BitRate, E> {
                self.visit_f64(v as f64)
            }
            fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<BitRate, E> {
                self.visit_f64(v as f64)
            }
        }
        d.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for (text, bps) in [
            ("5 Mbit/s", 5_000_000),
            ("250kbit/s", 250_000),
            ("1.5 Gbps", 1_500_000_000),
            ("800 bit/s", 800),
        ] {
            let r: BitRate = text.parse().unwrap();
            assert_eq!(r.bps(), bps, "{text}");
            assert_eq!(r.to_string().parse::<BitRate>().unwrap(), r);
        }
        for bad in ["", "5", "fast", "-1 Mbit/s", "5 MB/s"] {
            assert!(bad.parse::<BitRate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn time_and_bytes_agree() {
        let r = BitRate::from_mbps(8.0);
        assert_eq!(r.time_for(1_000_000), Duration::from_secs(1));
        assert_eq!(r.bytes_in(Duration::from_millis(500)), 500_000);
        assert_eq!(BitRate::ZERO.time_for(1), Duration::MAX);
        assert_eq!(BitRate::over(1_000_000, Duration::from_secs(1)), r);
    }
}
