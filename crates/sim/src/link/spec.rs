//! Links and rates in experiment files.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mpbond_units::{BitRate, duration_text};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{LinkChange, LinkConfig, Rate, WifiPlace};
use crate::trace::{Column, MahimahiTrace, ProfileForm, RateProfile, RateUnit, TraceError};

/// A link in an experiment file.
pub type LinkSpec = LinkConfig<RateSpec>;

/// A change of a link in an experiment file.
pub type LinkChangeSpec = LinkChange<RateSpec>;

/// A rate in an experiment file: [`Rate`] with names of trace files.
///
/// ```toml
/// rate = "8 Mbit/s"                                   # or 8: Mbit/s
/// rate = "unlimited"
/// rate = [["0s", "10 Mbit/s"], ["2s", "1 Mbit/s"]]
/// rate = { mahimahi = "Verizon-LTE-short.down", offset = "30s" }
/// rate = { profile = "sbu-pair-7_1_wifi.csv", unit = "byte/s", offset = "12s", scale = 0.5 }
/// rate = { profile = "ucc-5g.csv", column = "DL_bitrate", unit = "kbit/s" }
/// rate = { profile = "nyu-mets.csv", column = 1, every = "1s", unit = "Mbit/s" }
/// rate = { wifi_at_m = 20, walls = true, margin_db = 15 }
/// ```
///
/// Recordings begin `offset` after their first line and repeat for ever.
#[derive(Debug, Clone, PartialEq)]
pub enum RateSpec {
    /// See [`Rate::Constant`].
    Constant(BitRate),
    /// See [`Rate::Unlimited`].
    Unlimited,
    /// See [`Rate::Schedule`].
    Schedule(Vec<(Duration, BitRate)>),
    /// A file in Mahimahi's format.
    Mahimahi {
        /// Name of the file.
        file: String,
        /// Position in the recording at the start of the link.
        offset: Duration,
    },
    /// A table of instants and rates.
    Profile {
        /// Name of the file.
        file: String,
        /// Format of the table.
        form: ProfileForm,
        /// Position in the recording at the start of the link.
        offset: Duration,
    },
    /// Modelled rate of WiFi at a distance.
    Wifi(WifiPlace),
}

/// Error of a trace file named in an experiment.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError<E> {
    /// The file could not be read.
    #[error("{file}: {error}")]
    Read {
        /// The name in the experiment file.
        file: String,
        /// Error of the reader.
        error: E,
    },
    /// The file is not a trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The link would start after the recording's end.
    #[error(
        "{file}: the offset {} lies beyond its end at {}",
        duration_text::format(*offset),
        duration_text::format(*length)
    )]
    Offset {
        /// The name in the experiment file.
        file: String,
        /// The offset.
        offset: Duration,
        /// Length of the recording.
        length: Duration,
    },
}

impl RateSpec {
    /// Name of the recording, if it is one.
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::Mahimahi { file, .. } | Self::Profile { file, .. } => Some(file),
            Self::Constant(_) | Self::Unlimited | Self::Schedule(_) | Self::Wifi(_) => None,
        }
    }

    /// Resolves the rate. `read` returns the text of a named file.
    ///
    /// # Errors
    /// Errors of `read`, [`TraceError`] for a file that is not a trace, and an offset beyond its
    /// end.
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
            Self::Wifi(place) => Rate::Constant(place.rate()),
            Self::Mahimahi { file, offset } => {
                let trace = MahimahiTrace::parse(file, &text(file)?)?;
                within(file, *offset, trace.period())?;
                Rate::Mahimahi {
                    trace: Arc::new(trace),
                    offset: *offset,
                }
            }
            Self::Profile { file, form, offset } => {
                let profile = RateProfile::parse(file, &text(file)?, form)?;
                within(file, *offset, profile.length())?;
                Rate::Profile {
                    profile: Arc::new(profile),
                    offset: *offset,
                }
            }
        })
    }
}

fn within<E>(file: &str, offset: Duration, length: Duration) -> Result<(), ResolveError<E>> {
    if offset < length {
        return Ok(());
    }
    Err(ResolveError::Offset {
        file: file.to_owned(),
        offset,
        length,
    })
}

impl LinkConfig<RateSpec> {
    /// Resolves the link's rate. `read` returns the text of a named trace file.
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
            hold: self.hold,
            hold_bytes: self.hold_bytes,
        })
    }
}

impl LinkChange<RateSpec> {
    /// Resolves the change's rate. `read` returns the text of a named trace file.
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
            Self::Wifi(place) => place.serialize(s),
            Self::Mahimahi { file, offset } => FileSpec {
                mahimahi: Some(file.clone()),
                offset: *offset,
                ..FileSpec::default()
            }
            .serialize(s),
            Self::Profile { file, form, offset } => FileSpec {
                profile: Some(file.clone()),
                unit: Some(form.unit),
                column: form.column.clone(),
                every: form.every,
                scale: (form.scale != 1.0).then_some(form.scale),
                offset: *offset,
                ..FileSpec::default()
            }
            .serialize(s),
        }
    }
}

/// The table form of [`RateSpec`].
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    wifi_at_m: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    walls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    margin_db: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mahimahi: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<RateUnit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<Column>,
    #[serde(
        default,
        with = "duration_text::option",
        skip_serializing_if = "Option::is_none"
    )]
    every: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scale: Option<f64>,
    #[serde(
        default,
        with = "duration_text",
        skip_serializing_if = "Duration::is_zero"
    )]
    offset: Duration,
}

impl FileSpec {
    fn rate(self) -> Result<RateSpec, &'static str> {
        if self.wifi_at_m.is_some() || self.walls.is_some() || self.margin_db.is_some() {
            return self.wifi();
        }
        let scale = self.scale.unwrap_or(1.0);
        if !(scale.is_finite() && scale > 0.0) {
            return Err("scale is a factor above 0");
        }
        if self.every.is_some_and(|every| every.is_zero()) {
            return Err("every is a time above 0");
        }
        match self {
            Self {
                mahimahi: Some(file),
                profile: None,
                unit: None,
                column: None,
                every: None,
                scale: None,
                offset,
                ..
            } => Ok(RateSpec::Mahimahi { file, offset }),
            Self {
                mahimahi: None,
                profile: Some(file),
                unit: Some(unit),
                column,
                every,
                scale: _,
                offset,
                ..
            } => Ok(RateSpec::Profile {
                file,
                form: ProfileForm {
                    column,
                    every,
                    unit,
                    scale,
                },
                offset,
            }),
            _ => Err(
                "a recorded rate is { mahimahi = \"FILE\" } or { profile = \"FILE\", unit = \
                 \"byte/s\" }, each with an `offset` if need be, a profile also with `column`, \
                 `every`, `scale`",
            ),
        }
    }
}

impl FileSpec {
    fn wifi(self) -> Result<RateSpec, &'static str> {
        let Self {
            wifi_at_m: Some(wifi_at_m),
            walls,
            margin_db,
            mahimahi: None,
            profile: None,
            unit: None,
            column: None,
            every: None,
            scale: None,
            offset: Duration::ZERO,
        } = self
        else {
            return Err(
                "a WiFi rate is { wifi_at_m = 20 }, with `walls` and `margin_db` if need be",
            );
        };
        let place = WifiPlace {
            wifi_at_m,
            walls: walls.unwrap_or(false),
            margin_db: margin_db.unwrap_or(0.0),
        };
        place.complaint().map_or(Ok(RateSpec::Wifi(place)), Err)
    }
}

struct RateVisitor;

impl<'de> Visitor<'de> for RateVisitor {
    type Value = RateSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a rate such as \"8 Mbit/s\", \"unlimited\", a schedule of [time, rate] pairs, \
             or a table naming a `mahimahi` or `profile` file or a distance `wifi_at_m`",
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
        let file = FileSpec::deserialize(MapAccessDeserializer::new(map))?;
        file.rate().map_err(A::Error::custom)
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
                RateSpec::Mahimahi {
                    file: "a.down".into(),
                    offset: Duration::ZERO,
                },
            ),
            (
                "rate = { mahimahi = \"a.down\", offset = \"30s\" }",
                RateSpec::Mahimahi {
                    file: "a.down".into(),
                    offset: Duration::from_secs(30),
                },
            ),
            (
                "rate = { profile = \"a.csv\", unit = \"byte/s\" }",
                RateSpec::Profile {
                    file: "a.csv".into(),
                    form: ProfileForm::new(RateUnit::BytePerSecond),
                    offset: Duration::ZERO,
                },
            ),
            (
                "rate = { profile = \"a.csv\", unit = \"kbit/s\", column = \"DL\", every = \"1s\", \
                 scale = 0.5, offset = \"3s\" }",
                RateSpec::Profile {
                    file: "a.csv".into(),
                    form: ProfileForm {
                        column: Some(Column::Name("DL".into())),
                        every: Some(Duration::from_secs(1)),
                        unit: RateUnit::KilobitPerSecond,
                        scale: 0.5,
                    },
                    offset: Duration::from_secs(3),
                },
            ),
            (
                "rate = { wifi_at_m = 20, walls = true, margin_db = 15.0 }",
                RateSpec::Wifi(WifiPlace {
                    wifi_at_m: 20.0,
                    walls: true,
                    margin_db: 15.0,
                }),
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
            "rate = 5\ndelay = \"25ms\"\njitter = \"1ms\"\nqueue = \"64000 bytes\"\nloss = 0.01\n\
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
            ("rate = { profile = \"a\" }", "a recorded rate is"),
            (
                "rate = { mahimahi = \"a\", scale = 2.0 }",
                "a recorded rate is",
            ),
            (
                "rate = { profile = \"a\", unit = \"bit/s\", scale = 0.0 }",
                "above 0",
            ),
            (
                "rate = { profile = \"a\", unit = \"bit/s\", column = 0 }",
                "its number from 1",
            ),
            ("rate = { walls = true }", "a WiFi rate is"),
            ("rate = { wifi_at_m = 5, scale = 2.0 }", "a WiFi rate is"),
            ("rate = { wifi_at_m = -5 }", "from 0 to 10000 m"),
            ("rate = { wifi_at_m = nan }", "from 0 to 10000 m"),
            (
                "rate = { wifi_at_m = 5, margin_db = -1 }",
                "from 0 to 100 dB",
            ),
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
        let spec = RateSpec::Mahimahi {
            file: "a.down".into(),
            offset: Duration::from_secs(2),
        };
        let missing = spec.resolve(|_| Err::<String, _>("not found")).unwrap_err();
        assert_eq!(missing.to_string(), "a.down: not found");
        let bad = spec.resolve(|_| Ok::<_, String>("x".into())).unwrap_err();
        assert_eq!(
            bad.to_string(),
            "a.down:1: \"x\" is not a whole number of milliseconds"
        );
        let late = spec.resolve(|_| Ok::<_, String>("1\n1000\n".into()));
        assert_eq!(
            late.unwrap_err().to_string(),
            "a.down: the offset 2s lies beyond its end at 1s"
        );
    }
}
