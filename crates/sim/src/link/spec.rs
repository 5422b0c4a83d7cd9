use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mpbond_units::BitRate;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{LinkChange, LinkConfig, Rate};
use crate::duration_text;
use crate::trace::{MahimahiTrace, RateProfile, RateUnit, TraceError};

/// A link as an experiment file writes it.
pub type LinkSpec = LinkConfig<RateSpec>;

/// A change of a link as an experiment file writes it.
pub type LinkChangeSpec = LinkChange<RateSpec>;

/// A rate as an experiment file writes it: [`Rate`], with trace files by name.
///
/// ```toml
/// rate = "8 Mbit/s"                                   # or 8: Mbit/s
/// rate = "unlimited"
/// rate = [["0s", "10 Mbit/s"], ["2s", "1 Mbit/s"]]
/// rate = { mahimahi = "Verizon-LTE-short.down" }
/// rate = { profile = "sbu-pair-7_1_wifi.csv", unit = "byte/s" }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateSpec {
    /// See [`Rate::Constant`].
    Constant(BitRate),
    /// See [`Rate::Unlimited`].
    Unlimited,
    /// See [`Rate::Schedule`].
    Schedule(Vec<(Duration, BitRate)>),
    /// Name of a file in Mahimahi's format.
    Mahimahi(String),
    /// Name of a table of seconds and rates, and the unit of the rates.
    Profile(String, RateUnit),
}

/// Why a named trace could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError<E> {
    /// The file could not be read.
    #[error("{file}: {error}")]
    Read {
        /// The name in the experiment file.
        file: String,
        /// What the reader said.
        error: E,
    },
    /// The file is no trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl RateSpec {
    /// The rate itself. `read` gives the text of a named file.
    ///
    /// # Errors
    /// What `read` reports, and [`TraceError`] for a file that is no trace.
    pub fn resolve<E>(
        &self,
        read: impl FnOnce(&str) -> Result<String, E>,
    ) -> Result<Rate, ResolveError<E>> {
        let text = |file: &str| {
            read(file).map_err(|error| ResolveError::Read {
                file: file.to_owned(),
                error,
            })
        };
        Ok(match self {
            Self::Constant(rate) => Rate::Constant(*rate),
            Self::Unlimited => Rate::Unlimited,
            Self::Schedule(steps) => Rate::Schedule(steps.clone()),
            Self::Mahimahi(file) => {
                Rate::Mahimahi(Arc::new(MahimahiTrace::parse(file, &text(file)?)?))
            }
            Self::Profile(file, unit) => {
                Rate::Schedule(RateProfile::parse(file, &text(file)?, *unit)?.into_steps())
            }
        })
    }
}

impl LinkConfig<RateSpec> {
    /// The link ready to run. `read` gives the text of a named trace file.
    ///
    /// # Errors
    /// See [`RateSpec::resolve`].
    pub fn resolve<E>(
        &self,
        read: impl FnOnce(&str) -> Result<String, E>,
    ) -> Result<LinkConfig, ResolveError<E>> {
        Ok(LinkConfig {
            rate: self.rate.resolve(read)?,
            delay: self.delay,
            jitter: self.jitter,
            queue: self.queue,
            loss: self.loss,
            burst_loss: self.burst_loss,
            offset: self.offset,
        })
    }
}

impl LinkChange<RateSpec> {
    /// The change ready to apply. `read` gives the text of a named trace file.
    ///
    /// # Errors
    /// See [`RateSpec::resolve`].
    pub fn resolve<E>(
        &self,
        read: impl FnOnce(&str) -> Result<String, E>,
    ) -> Result<LinkChange, ResolveError<E>> {
        let rate = match &self.rate {
            Some(rate) => Some(rate.resolve(read)?),
            None => None,
        };
        Ok(LinkChange {
            rate,
            delay: self.delay,
            jitter: self.jitter,
            queue: self.queue,
            loss: self.loss,
            burst_loss: self.burst_loss,
            up: self.up,
        })
    }
}

impl From<BitRate> for RateSpec {
    fn from(rate: BitRate) -> Self {
        Self::Constant(rate)
    }
}

impl Serialize for RateSpec {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Constant(rate) => rate.serialize(s),
            Self::Unlimited => s.serialize_str("unlimited"),
            Self::Schedule(steps) => s.collect_seq(
                steps
                    .iter()
                    .map(|(at, rate)| (duration_text::Text(*at), rate)),
            ),
            Self::Mahimahi(file) => {
                let mut map = s.serialize_map(Some(1))?;
                map.serialize_entry("mahimahi", file)?;
                map.end()
            }
            Self::Profile(file, unit) => {
                let mut map = s.serialize_map(Some(2))?;
                map.serialize_entry("profile", file)?;
                map.serialize_entry("unit", unit)?;
                map.end()
            }
        }
    }
}

/// The table form of [`RateSpec`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSpec {
    mahimahi: Option<String>,
    profile: Option<String>,
    unit: Option<RateUnit>,
}

struct RateVisitor;

impl<'de> Visitor<'de> for RateVisitor {
    type Value = RateSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a rate such as \"8 Mbit/s\", \"unlimited\", a schedule of [time, rate] pairs, \
             or a table naming a `mahimahi` or `profile` file",
        )
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RateSpec, E> {
        if text == "unlimited" {
            return Ok(RateSpec::Unlimited);
        }
        text.parse()
            .map(RateSpec::Constant)
            .map_err(|e| E::custom(format!("{e}, or \"unlimited\"")))
    }

    fn visit_f64<E: serde::de::Error>(self, mbps: f64) -> Result<RateSpec, E> {
        if mbps.is_finite() && mbps >= 0.0 {
            Ok(RateSpec::Constant(BitRate::from_mbps(mbps)))
        } else {
            Err(E::custom("a data rate must not be negative"))
        }
    }

    fn visit_i64<E: serde::de::Error>(self, mbps: i64) -> Result<RateSpec, E> {
        self.visit_f64(mbps as f64)
    }

    fn visit_u64<E: serde::de::Error>(self, mbps: u64) -> Result<RateSpec, E> {
        self.visit_f64(mbps as f64)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<RateSpec, A::Error> {
        let steps: Vec<(duration_text::Text, BitRate)> =
            Deserialize::deserialize(SeqAccessDeserializer::new(seq))?;
        if steps.is_empty() {
            return Err(A::Error::custom("a rate schedule needs at least one step"));
        }
        if !steps.is_sorted_by_key(|step| step.0) {
            return Err(A::Error::custom(
                "the times of a rate schedule must not fall",
            ));
        }
        Ok(RateSpec::Schedule(
            steps.into_iter().map(|(at, rate)| (at.0, rate)).collect(),
        ))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RateSpec, A::Error> {
        match FileSpec::deserialize(MapAccessDeserializer::new(map))? {
            FileSpec {
                mahimahi: Some(file),
                profile: None,
                unit: None,
            } => Ok(RateSpec::Mahimahi(file)),
            FileSpec {
                mahimahi: None,
                profile: Some(file),
                unit: Some(unit),
            } => Ok(RateSpec::Profile(file, unit)),
            _ => Err(A::Error::custom(
                "a recorded rate is { mahimahi = \"FILE\" } or { profile = \"FILE\", unit = \"byte/s\" }",
            )),
        }
    }
}

impl<'de> Deserialize<'de> for RateSpec {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(RateVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Queue;
    use super::*;

    fn spec(text: &str) -> Result<LinkSpec, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }

    #[test]
    fn reads_and_writes_every_form() {
        let mbps = BitRate::from_mbps;
        let steps = vec![
            (Duration::ZERO, mbps(10.0)),
            (Duration::from_secs(2), mbps(1.0)),
        ];
        for (text, rate) in [
            ("rate = \"8 Mbit/s\"", RateSpec::Constant(mbps(8.0))),
            ("rate = 8", RateSpec::Constant(mbps(8.0))),
            ("rate = \"unlimited\"", RateSpec::Unlimited),
            (
                "rate = [[\"0s\", \"10 Mbit/s\"], [\"2s\", 1]]",
                RateSpec::Schedule(steps),
            ),
            (
                "rate = { mahimahi = \"a.down\" }",
                RateSpec::Mahimahi("a.down".into()),
            ),
            (
                "rate = { profile = \"a.csv\", unit = \"byte/s\" }",
                RateSpec::Profile("a.csv".into(), RateUnit::BytePerSecond),
            ),
        ] {
            let read = spec(text).unwrap();
            assert_eq!(read, LinkConfig::new(rate), "{text}");
            assert_eq!(
                spec(&toml::to_string(&read).unwrap()).unwrap(),
                read,
                "{text}"
            );
        }
        let full = spec(
            "rate = 5\ndelay = \"25ms\"\njitter = \"1ms\"\nqueue = \"64000 bytes\"\nloss = 0.01\noffset = \"3s\"\n\
             burst_loss = { to_bad = 0.01, to_good = 0.5, loss_bad = 0.9 }",
        )
        .unwrap();
        assert_eq!(full.queue, Queue::Bytes(64_000));
        assert_eq!(full.burst_loss.loss_bad, 0.9);
        assert_eq!(full.delay, Duration::from_millis(25));
        assert_eq!(spec(&toml::to_string(&full).unwrap()).unwrap(), full);
        let change: LinkChangeSpec =
            toml::from_str("rate = 1\nup = false\ndelay = \"2ms\"").unwrap();
        assert_eq!(change.up, Some(false));
        assert_eq!(change.loss, None);
        let text = toml::to_string(&change).unwrap();
        assert_eq!(toml::from_str::<LinkChangeSpec>(&text).unwrap(), change);
    }

    #[test]
    fn complaints_are_clear() {
        for (text, want) in [
            ("rate = \"fast\"", "\"fast\" is not a data rate"),
            ("rate = -1", "must not be negative"),
            ("rate = []", "at least one step"),
            ("rate = [[\"2s\", 1], [\"1s\", 1]]", "must not fall"),
            (
                "rate = { mahimahi = \"a\", unit = \"bit/s\" }",
                "a recorded rate is",
            ),
            ("rate = { csv = \"a\" }", "unknown field `csv`"),
            ("rate = 1\ndelay = 25", "a duration such as"),
            ("rate = 1\nloss = 1.5", "from 0 to 1"),
            (
                "rate = 1\nburst_loss = { to_bad = 2, to_good = 1 }",
                "from 0 to 1",
            ),
            ("rate = 1\nburst_loss = { to_bad = 0.1 }", "to_good"),
            ("rate = 1\nqueue = \"100\"", "is not a queue length"),
            ("rate = 1\nspeed = 2", "unknown field `speed`"),
        ] {
            let e = spec(text).unwrap_err();
            assert!(e.contains(want), "{text}: {e}");
        }
    }

    #[test]
    fn names_the_file_that_fails() {
        let spec = RateSpec::Mahimahi("a.down".into());
        let missing = spec.resolve(|_| Err::<String, _>("not found")).unwrap_err();
        assert_eq!(missing.to_string(), "a.down: not found");
        let bad = spec.resolve(|_| Ok::<_, String>("x".into())).unwrap_err();
        assert_eq!(
            bad.to_string(),
            "a.down:1: \"x\" is not a whole number of milliseconds"
        );
    }
}
