//! Syntax of a policy file.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use mpbond_price::{RADIOS, Radio, radio};
use mpbond_toml_text::shown;
use mpbond_units::{Size, duration_text};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use toml::Spanned;

use crate::cap::AtCap;
use crate::condition::DomainPattern;
use crate::condition::{App, Cgroup, Dscp, Levels, Network, Ports, Uids, Window};
use crate::mode::Mode;
use crate::treatment::{Class, Multipath, Permission};
use crate::value::{FromText, MAX_NAME_BYTES, MAX_VALUES, Name, OneOrMore, Percent, Text};

type Values<T> = Option<OneOrMore<T>>;

/// The whole file.
#[derive(serde::Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyFile {
    #[serde(default)]
    pub policy: PolicySection,
    #[serde(default)]
    pub rule: Vec<Spanned<RuleFile>>,
    #[serde(default)]
    pub link: Vec<Spanned<LinkFile>>,
}

/// `[policy]`
#[derive(serde::Deserialize, Debug, Default)]
#[serde(deny_unknown_fields, expecting = "a section [policy]")]
pub(crate) struct PolicySection {
    pub mode: Option<Spanned<Mode>>,
    pub zone: Option<Spanned<Text<ZoneName>>>,
    pub default: Option<Spanned<ActionFile>>,
}

/// `[[rule]]`
#[derive(serde::Deserialize, Debug)]
#[serde(deny_unknown_fields, expecting = "a section [[rule]]")]
pub(crate) struct RuleFile {
    pub name: Spanned<Text<Name>>,
    pub app: Values<App>,
    pub uid: Values<Uids>,
    pub cgroup: Values<Cgroup>,
    pub dscp: Values<Dscp>,
    pub domain: Values<DomainPattern>,
    pub ip: Values<Network>,
    pub port: Values<Ports>,
    pub source: Values<Network>,
    pub metered: Option<Spanned<bool>>,
    pub roaming: Option<Spanned<bool>>,
    pub battery: Option<Spanned<Text<Levels>>>,
    pub charging: Option<Spanned<bool>>,
    pub time: Option<Spanned<OneOrMore<Window>>>,
    pub set: Spanned<ActionFile>,
}

/// `set` of a rule, and `default`: `"direct"`, `"refuse"`, or a table.
#[derive(Debug)]
pub(crate) enum ActionFile {
    Direct,
    Refuse,
    Carry(Box<TreatmentFile>),
}

impl<'de> Deserialize<'de> for ActionFile {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Action;
        impl<'de> Visitor<'de> for Action {
            type Value = ActionFile;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"direct\", \"refuse\", or a table such as { class = \"bulk\" }")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<ActionFile, E> {
                match text {
                    "direct" => Ok(ActionFile::Direct),
                    "refuse" => Ok(ActionFile::Refuse),
                    _ => Err(E::unknown_variant(text, &["direct", "refuse", "a table"])),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ActionFile, A::Error> {
                let table = TreatmentFile::deserialize(MapAccessDeserializer::new(map))?;
                Ok(ActionFile::Carry(Box::new(table)))
            }
        }
        d.deserialize_any(Action)
    }
}

/// The table of `set` and of `default`.
#[derive(serde::Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct TreatmentFile {
    pub class: Option<Class>,
    pub priority: Option<Text<Priority>>,
    pub paths: Option<PathsFile>,
    pub metered: Option<Permission>,
    pub roaming: Option<Permission>,
    pub multipath: Option<Multipath>,
    pub delay: Option<Text<Delay>>,
    pub budget: Option<Spanned<BudgetFile>>,
}

impl TreatmentFile {
    /// Whether no key is set.
    pub(crate) const fn is_empty(&self) -> bool {
        let Self {
            class,
            priority,
            paths,
            metered,
            roaming,
            multipath,
            delay,
            budget,
        } = self;
        class.is_none()
            && priority.is_none()
            && paths.is_none()
            && metered.is_none()
            && roaming.is_none()
            && multipath.is_none()
            && delay.is_none()
            && budget.is_none()
    }
}

/// `budget` of a rule.
#[derive(serde::Deserialize, Debug)]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as { bytes = \"1 GB\" }"
)]
pub(crate) struct BudgetFile {
    pub bytes: Size,
    pub resets: Option<Text<ResetDay>>,
    pub zone: Option<Spanned<Text<ZoneName>>>,
    pub warn: Option<Text<Percent>>,
}

/// `cap` of a link.
#[derive(serde::Deserialize, Debug)]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as { bytes = \"20 GB\" }"
)]
pub(crate) struct CapFile {
    pub bytes: Size,
    pub resets: Option<Text<ResetDay>>,
    pub zone: Option<Spanned<Text<ZoneName>>>,
    pub warn: Option<Text<Percent>>,
    #[serde(default)]
    pub at_cap: AtCap,
}

/// `[[link]]`
#[derive(serde::Deserialize, Debug)]
#[serde(deny_unknown_fields, expecting = "a section [[link]]")]
pub(crate) struct LinkFile {
    pub name: Spanned<Text<Name>>,
    pub cost: Option<Text<Cost>>,
    pub metered: Option<bool>,
    pub cap: Option<Spanned<CapFile>>,
    pub battery_floor: Option<Text<Floor>>,
    pub weak_below: Option<Text<Strength>>,
    pub radio: Option<Text<RadioName>>,
}

/// `"all"`, or a list of names of links and helpers.
#[derive(Debug)]
pub(crate) enum PathsFile {
    All,
    Named(Vec<String>),
}

impl<'de> Deserialize<'de> for PathsFile {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Paths;
        impl<'de> Visitor<'de> for Paths {
            type Value = PathsFile;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"all\", or a list of links and helpers such as [\"wifi\"]")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<PathsFile, E> {
                match text {
                    "all" => Ok(PathsFile::All),
                    _ => {
                        let text = shown(text);
                        Err(E::custom(format!(
                            "\"{text}\" is not \"all\": write [\"{text}\"] for a link of this name"
                        )))
                    }
                }
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<PathsFile, A::Error> {
                let mut names: Vec<String> = Vec::new();
                while let Some(Text(Name(name))) = seq.next_element()? {
                    if names.contains(&name) {
                        return Err(A::Error::custom(format!("\"{name}\" occurs twice")));
                    }
                    if names.len() == MAX_PATHS {
                        return Err(A::Error::custom(format!("more than {MAX_PATHS} paths")));
                    }
                    names.push(name);
                }
                if names.is_empty() {
                    return Err(A::Error::custom(
                        "no path is allowed: write set = \"refuse\"",
                    ));
                }
                Ok(PathsFile::Named(names))
            }
        }
        d.deserialize_any(Paths)
    }
}

/// Maximum number of paths that a rule names.
const MAX_PATHS: usize = 64;

const _: () = assert!(MAX_PATHS <= MAX_VALUES);

/// Priority among the flows of a class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Priority(pub u8);

impl FromText for Priority {
    const EXPECTED: &'static str = "a priority from 0 to 7; a flow with a higher one goes first";
    fn from_text(text: &str) -> Result<Self, String> {
        Err(Self::unexpected(text))
    }
    fn from_number(number: i64) -> Result<Self, String> {
        let fits = u8::try_from(number).ok().filter(|n| *n <= 7).map(Self);
        fits.ok_or_else(|| format!("{number} is not {}", Self::EXPECTED))
    }
}

/// Cost of a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost(pub u16);

impl FromText for Cost {
    const EXPECTED: &'static str = "a cost from 0 to 1000; a link with a lower one goes first";
    fn from_text(text: &str) -> Result<Self, String> {
        Err(Self::unexpected(text))
    }
    fn from_number(number: i64) -> Result<Self, String> {
        let fits = u16::try_from(number).ok().filter(|n| *n <= 1000).map(Self);
        fits.ok_or_else(|| format!("{number} is not {}", Self::EXPECTED))
    }
}

/// Day of the month.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResetDay(pub u8);

impl FromText for ResetDay {
    const EXPECTED: &'static str =
        "a day from 1 to 31; in a month without this day, its last day counts";
    fn from_text(text: &str) -> Result<Self, String> {
        Err(Self::unexpected(text))
    }
    fn from_number(number: i64) -> Result<Self, String> {
        let day = u8::try_from(number).ok().filter(|n| (1..=31).contains(n));
        day.map(Self)
            .ok_or_else(|| format!("{number} is not {}", Self::EXPECTED))
    }
}

/// Time for which a new flow waits for a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delay(pub Duration);

/// Times for which a new flow may wait: less than a second is no time for a link to come back, and
/// after an hour programs have given up. Zero in a rule is no delay, whatever the default's is.
const DELAYS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

impl FromText for Delay {
    const EXPECTED: &'static str = "a span of time such as \"10min\", from 1s to 1h";
    fn from_text(text: &str) -> Result<Self, String> {
        let span = duration_text::parse(text).ok();
        let span = span.filter(|span| span.is_zero() || DELAYS.contains(span));
        span.map(Self).ok_or_else(|| Self::unexpected(text))
    }
}

/// Level of a battery below which its device's link is not used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Floor(pub u8);

impl FromText for Floor {
    const EXPECTED: &'static str = Percent::EXPECTED;
    fn from_text(text: &str) -> Result<Self, String> {
        match Percent::from_text(text)? {
            Percent(0) => Err("no level is below 0%: leave the key out".to_owned()),
            Percent(floor) => Ok(Self(floor)),
        }
    }
}

/// Strength of a radio's signal in dBm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strength(pub i16);

/// Strengths that receivers of WiFi and mobile networks report.
const STRENGTHS: RangeInclusive<i16> = -150..=-1;

impl FromText for Strength {
    const EXPECTED: &'static str = "a strength such as \"-60 dBm\", from -150 to -1 dBm";
    fn from_text(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix("dBm").map(str::trim_end);
        let number = number.and_then(|number| number.parse().ok());
        let strength = number.filter(|dbm| STRENGTHS.contains(dbm));
        strength.map(Self).ok_or_else(|| Self::unexpected(text))
    }
}

/// A radio whose energy is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RadioName(pub &'static Radio);

impl FromText for RadioName {
    const EXPECTED: &'static str = "the name of a radio, such as \"lte-2020-tmobile\"";
    fn from_text(text: &str) -> Result<Self, String> {
        radio(text).map(Self).ok_or_else(|| {
            let names = RADIOS.map(|radio| radio.name).join(", ");
            format!("{}; radios are {names}", Self::unexpected(text))
        })
    }
}

/// Name of a time zone of the IANA database.
#[derive(Debug, Clone)]
pub(crate) struct ZoneName(pub String);

impl FromText for ZoneName {
    const EXPECTED: &'static str = "a time zone such as \"Europe/Berlin\" or \"UTC\"";
    fn from_text(text: &str) -> Result<Self, String> {
        // The name becomes that of a file: no absolute path, no "..".
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+');
        let fits = (1..=MAX_NAME_BYTES).contains(&text.len()) && !text.starts_with('/');
        if !fits || !text.chars().all(plain) {
            return Err(Self::unexpected(text));
        }
        Ok(Self(text.to_owned()))
    }
}
