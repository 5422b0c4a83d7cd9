//! One figure of a profile: value, unit, source and confidence.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use mpbond_units::BitRate;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Confidence in a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Sure {
    /// Verified in a primary source.
    V,
    /// Verified in a secondary source that names the primary one.
    V2,
    /// Stated in one of the papers that this project builds on.
    S,
    /// Computed from figures of the kinds above.
    C,
    /// From memory, but reproduces a published total.
    #[serde(rename = "M+")]
    MPlus,
    /// From memory, not verified.
    M,
    /// Assumed, by this project or by the profile's author.
    A,
}

impl Sure {
    /// Mark as written in profiles.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::V => "V",
            Self::V2 => "V2",
            Self::S => "S",
            Self::C => "C",
            Self::MPlus => "M+",
            Self::M => "M",
            Self::A => "A",
        }
    }
}

/// Kind of quantity and its permitted units.
pub trait Quantity: Copy + fmt::Debug {
    /// Units, each with its size in the first one, in which the models compute.
    const UNITS: &'static [(&'static str, f64)];
    /// Largest plausible value, in the first unit.
    const MAX: f64;
    /// Smallest plausible value, in the first unit.
    const MIN: f64 = 0.0;
}

macro_rules! quantity {
    ($($(#[$doc:meta])* $name:ident: $min:expr, $max:expr, $units:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name;
        impl Quantity for $name {
            const UNITS: &'static [(&'static str, f64)] = $units;
            const MAX: f64 = $max;
            const MIN: f64 = $min;
        }
    )*};
}

quantity! {
    /// Power, in mW.
    Power: 0.0, 1e6, &[("mW", 1.0), ("W", 1e3)];
    /// Energy of a bit, in nJ; the same number as mW per Mbit/s.
    BitEnergy: 0.0, 1e6, &[("nJ/bit", 1.0), ("mW/Mbps", 1.0)];
    /// A span of time, in ms.
    Span: 0.0, 3.6e6, &[("ms", 1.0), ("s", 1e3)];
    /// A period, in ms; never zero.
    Period: 0.001, 3.6e6, &[("ms", 1.0), ("s", 1e3), ("slots", 0.625)];
    /// An amount of data, in bytes.
    Bytes: 0.0, 1e9, &[("B", 1.0)];
    /// A data rate, in Mbit/s.
    Rate: 1e-6, 1e6, &[("Mbps", 1.0), ("kbps", 1e-3)];
    /// A dimensionless share, 0 to 1.
    Share: 0.0, 1.0, &[("1", 1.0), ("%", 0.01)];
    /// An electric current, in mA.
    Current: 0.0, 1e6, &[("mA", 1.0)];
    /// A voltage, in V.
    Tension: 0.1, 100.0, &[("V", 1.0)];
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    value: f64,
    unit: String,
    sure: Sure,
    source: String,
    #[serde(default)]
    note: String,
}

/// One figure of a profile.
///
/// Written as `{ value = 1.2, unit = "W", sure = "V", source = "…" }`, with an
/// optional `note`. A figure without unit or source does not load.
#[derive(Debug, Clone, PartialEq)]
pub struct Param<Q> {
    /// Value in the first of the quantity's units.
    value: f64,
    /// Confidence.
    pub sure: Sure,
    /// Source of the figure.
    pub source: String,
    /// Remarks.
    pub note: String,
    quantity: PhantomData<Q>,
}

impl<Q: Quantity> Param<Q> {
    /// A figure computed by a program, such as a fit, in the quantity's first unit.
    pub fn new(value: f64, sure: Sure, source: &str) -> Self {
        Self {
            value,
            sure,
            source: source.to_owned(),
            note: String::new(),
            quantity: PhantomData,
        }
    }

    /// Value in the quantity's first unit.
    pub const fn get(&self) -> f64 {
        self.value
    }

    /// Unit of [`Param::get`].
    pub fn unit() -> &'static str {
        Q::UNITS.first().map_or("", |(unit, _)| unit)
    }
}

impl Param<Span> {
    /// This span as a duration.
    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.value / 1e3)
    }
}

impl Param<Period> {
    /// This period as a duration.
    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.value / 1e3)
    }
}

impl Param<Rate> {
    /// This rate as a [`BitRate`].
    pub fn rate(&self) -> BitRate {
        BitRate::from_mbps(self.value)
    }
}

/// Checks a number and converts it to the first unit of `Q`.
pub(super) fn checked<Q: Quantity>(value: f64, unit: &str) -> Result<f64, String> {
    let Some((_, factor)) = Q::UNITS.iter().find(|(name, _)| *name == unit) else {
        let known: Vec<&str> = Q::UNITS.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "unit \"{unit}\" is not permitted here; use one of {known:?}"
        ));
    };
    let scaled = value * factor;
    if value.is_nan() || value < 0.0 {
        return Err(format!("{value} must not be negative"));
    }
    if scaled < Q::MIN || scaled > Q::MAX {
        return Err(format!(
            "{value} {unit} is outside {} to {} {}",
            Q::MIN,
            Q::MAX,
            Param::<Q>::unit()
        ));
    }
    Ok(scaled)
}

impl<'de, Q: Quantity> Deserialize<'de> for Param<Q> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let raw = Raw::deserialize(d)?;
        if raw.source.trim().is_empty() {
            return Err(D::Error::custom("a figure must name its source"));
        }
        Ok(Self {
            value: checked::<Q>(raw.value, &raw.unit).map_err(D::Error::custom)?,
            sure: raw.sure,
            source: raw.source,
            note: raw.note,
            quantity: PhantomData,
        })
    }
}
