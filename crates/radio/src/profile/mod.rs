//! Profiles: parameters of radios, processors and devices, as data.
//!
//! A profile is a TOML file. Every figure has a unit, a source and a mark of confidence. A figure
//! that is missing, negative, in a wrong unit or unknown to the state machine is an error.

mod param;
mod shipped;
mod table;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use param::{
    BitEnergy, Bytes, Current, Param, Period, Power, Quantity, Rate, Share, Span, Sure, Tension,
};
pub use table::Table;

use crate::machine::{
    BluetoothParameters, BusParameters, CoexistenceParameters, CpuParameters, FlatParameters,
    LteParameters, NrParameters, UmtsParameters, WifiParameters,
};

/// Maximum size of a profile; the largest shipped one has 6 kB.
const MAX_BYTES: usize = 256 * 1024;

/// Error of loading or finding a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The text is not a valid profile.
    #[error("{file}:{line}: {}{}", one_line(key), one_line(reason))]
    Bad {
        /// File name, as given by the caller.
        file: String,
        /// Line number, from one.
        line: usize,
        /// Key on that line with a colon, or empty.
        key: String,
        /// Reason.
        reason: String,
    },
    /// No profile of this name is loaded.
    #[error("no {wanted} profile is called \"{name}\"; known ones are {known}")]
    Unknown {
        /// Requested name.
        name: String,
        /// Requested kind.
        wanted: &'static str,
        /// Names of that kind that are loaded.
        known: String,
    },
    /// The device's profile lacks a figure that the requested use needs.
    #[error("profile \"{name}\": {key} is required {when}")]
    Missing {
        /// Name of the device.
        name: String,
        /// Missing key.
        key: String,
        /// Use that requires it.
        when: &'static str,
    },
}

/// Replaces control characters: the text comes from a file and may be printed to a terminal.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// Parameters of one radio.
#[derive(Debug, Clone)]
pub struct RadioProfile {
    /// Name that refers to the profile.
    pub name: String,
    /// Description.
    pub title: String,
    /// Parameters.
    pub radio: Radios,
}

/// Parameters by state machine.
#[derive(Debug, Clone)]
pub enum Radios {
    /// LTE of 2012, with its two DRX cycles.
    Lte(Box<LteParameters>),
    /// 3G.
    Umts(Box<UmtsParameters>),
    /// LTE and 5G of 2020.
    Nr(Box<NrParameters>),
    /// WiFi.
    Wifi(Box<WifiParameters>),
    /// One end of a Bluetooth link.
    Bluetooth(Box<BluetoothParameters>),
    /// The bus to a WiFi chip.
    Bus(BusParameters),
    /// One power for all traffic.
    Flat(FlatParameters),
}

impl Radios {
    /// Name of the interface with such a radio in the profile of a device; `None` for models that
    /// are of no particular interface.
    pub fn interface(&self) -> Option<&'static str> {
        match self {
            Self::Lte(_) | Self::Umts(_) | Self::Nr(_) => Some("cellular"),
            Self::Wifi(_) => Some("wifi"),
            Self::Bluetooth(_) => Some("bluetooth"),
            Self::Bus(_) | Self::Flat(_) => None,
        }
    }
}

/// A device: its radios and its power besides them.
#[derive(Debug, Clone)]
pub struct DeviceProfile {
    /// Name that refers to the profile.
    pub name: String,
    /// Description.
    pub title: String,
    /// Parameters.
    pub parameters: DeviceParameters,
}

/// Parameters of a device.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceParameters {
    /// Names of radio profiles by interface: `cellular`, `wifi`, `bluetooth`, …
    pub interfaces: BTreeMap<String, String>,
    /// Name of the processor's profile.
    #[serde(default)]
    pub cpu: Option<String>,
    /// Constant power of the device; the screen is not included.
    pub base: Param<Power>,
    /// Power of acting as an access point, on top of the WiFi radio's. Required for a device that
    /// acts as one.
    #[serde(default)]
    pub access_point: Option<AccessPoint>,
}

/// Power of acting as an access point. No published model has it, so a range is given, and every
/// figure that contains it shows the range.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessPoint {
    /// Value used in computations.
    pub power: Param<Power>,
    /// Plausible lower limit.
    pub low: Param<Power>,
    /// Plausible upper limit.
    pub high: Param<Power>,
}

impl DeviceProfile {
    /// Parameters of the access point, or an error that names the missing key.
    pub fn access_point(&self) -> Result<&AccessPoint, ProfileError> {
        let needed = || ProfileError::Missing {
            name: self.name.clone(),
            key: "parameters.access_point".to_owned(),
            when: "of a device that is an access point",
        };
        self.parameters.access_point.as_ref().ok_or_else(needed)
    }
}

#[derive(Debug, Clone)]
enum Profile {
    Radio(RadioProfile),
    Device(DeviceProfile),
    Cpu(CpuParameters),
    Coexistence(CoexistenceParameters),
}

impl Profile {
    fn wanted(&self) -> &'static str {
        match self {
            Self::Radio(_) => "radio",
            Self::Device(_) => "device",
            Self::Cpu(_) => "cpu",
            Self::Coexistence(_) => "coexistence",
        }
    }
}

/// All loaded profiles, by name.
#[derive(Debug, Clone, Default)]
pub struct Profiles {
    by_name: BTreeMap<String, Profile>,
}

#[derive(Deserialize)]
struct Head {
    kind: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<P> {
    name: String,
    #[serde(rename = "kind")]
    _kind: String,
    title: String,
    #[serde(default, rename = "notes")]
    _notes: String,
    parameters: P,
}

impl Profiles {
    /// Profiles shipped with this crate.
    ///
    /// # Errors
    /// None in a released build: a test loads each of them.
    pub fn shipped() -> Result<Self, ProfileError> {
        let mut all = Self::default();
        for (file, text) in shipped::FILES {
            all.load(file, text)?;
        }
        Ok(all)
    }

    /// Adds the profile in `text`, replacing one of the same name; `file` names it in errors.
    /// Returns the profile's name.
    ///
    /// # Errors
    /// [`ProfileError::Bad`] with line and key.
    pub fn load(&mut self, file: &str, text: &str) -> Result<String, ProfileError> {
        if text.len() > MAX_BYTES {
            return Err(bad(
                file,
                1,
                "the file exceeds the maximum size of a profile".to_owned(),
            ));
        }
        let head: Head = parse(file, text)?;
        let (name, profile) = match head.kind.as_str() {
            "lte" => radio(file, text, |p| Radios::Lte(Box::new(p)))?,
            "umts" => radio(file, text, |p| Radios::Umts(Box::new(p)))?,
            "nr" => radio(file, text, |p| Radios::Nr(Box::new(p)))?,
            "wifi" => radio(file, text, |p| Radios::Wifi(Box::new(p)))?,
            "bluetooth" => radio(file, text, |p| Radios::Bluetooth(Box::new(p)))?,
            "bus" => radio(file, text, Radios::Bus)?,
            "flat" => radio(file, text, Radios::Flat)?,
            "cpu" => {
                let whole: File<CpuParameters> = parse(file, text)?;
                if let Some(complaint) = whole.parameters.complaint() {
                    return Err(bad(file, line_of(text, "clusters"), complaint));
                }
                (whole.name, Profile::Cpu(whole.parameters))
            }
            "coexistence" => {
                let whole: File<CoexistenceParameters> = parse(file, text)?;
                (whole.name, Profile::Coexistence(whole.parameters))
            }
            "device" => device(file, text)?,
            other => {
                let reason = format!(
                    "kind \"{other}\" is not known: lte, umts, nr, wifi, bluetooth, bus, flat, \
                     cpu, coexistence or device"
                );
                return Err(bad(file, line_of(text, "kind"), reason));
            }
        };
        self.by_name.insert(name.clone(), profile);
        Ok(name)
    }

    /// Radio profile of this name.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`], listing the loaded ones.
    pub fn radio(&self, name: &str) -> Result<&RadioProfile, ProfileError> {
        match self.by_name.get(name) {
            Some(Profile::Radio(profile)) => Ok(profile),
            _ => Err(self.unknown(name, "radio")),
        }
    }

    /// Device profile of this name.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`], listing the loaded ones.
    pub fn device(&self, name: &str) -> Result<&DeviceProfile, ProfileError> {
        match self.by_name.get(name) {
            Some(Profile::Device(profile)) => Ok(profile),
            _ => Err(self.unknown(name, "device")),
        }
    }

    /// Processor profile of this name.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`], listing the loaded ones.
    pub fn cpu(&self, name: &str) -> Result<&CpuParameters, ProfileError> {
        match self.by_name.get(name) {
            Some(Profile::Cpu(profile)) => Ok(profile),
            _ => Err(self.unknown(name, "cpu")),
        }
    }

    /// Shared-band profile of this name.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`], listing the loaded ones.
    pub fn coexistence(&self, name: &str) -> Result<&CoexistenceParameters, ProfileError> {
        match self.by_name.get(name) {
            Some(Profile::Coexistence(profile)) => Ok(profile),
            _ => Err(self.unknown(name, "coexistence")),
        }
    }

    /// Names of the profiles of a kind: `radio`, `device`, `cpu` or `coexistence`.
    pub fn names(&self, wanted: &str) -> Vec<&str> {
        self.by_name
            .iter()
            .filter(|(_, profile)| profile.wanted() == wanted)
            .map(|(name, _)| name.as_str())
            .collect()
    }

    fn unknown(&self, name: &str, wanted: &'static str) -> ProfileError {
        ProfileError::Unknown {
            name: name.to_owned(),
            wanted,
            known: self.names(wanted).join(", "),
        }
    }
}

fn radio<P: DeserializeOwned>(
    file: &str,
    text: &str,
    wrap: impl FnOnce(P) -> Radios,
) -> Result<(String, Profile), ProfileError> {
    let whole: File<P> = parse(file, text)?;
    let profile = RadioProfile {
        name: whole.name.clone(),
        title: whole.title,
        radio: wrap(whole.parameters),
    };
    Ok((whole.name, Profile::Radio(profile)))
}

fn device(file: &str, text: &str) -> Result<(String, Profile), ProfileError> {
    let whole: File<DeviceParameters> = parse(file, text)?;
    if let Some(ap) = &whole.parameters.access_point
        && !(ap.low.get() <= ap.power.get() && ap.power.get() <= ap.high.get())
    {
        let reason = "the power must lie between low and high".to_owned();
        return Err(bad(file, line_of(text, "[parameters.access_point"), reason));
    }
    let profile = DeviceProfile {
        name: whole.name.clone(),
        title: whole.title,
        parameters: whole.parameters,
    };
    Ok((whole.name, Profile::Device(profile)))
}

/// Number, from one, of the first line that begins with `start`; 1 when none does.
fn line_of(text: &str, start: &str) -> usize {
    text.lines()
        .position(|line| line.trim_start().starts_with(start))
        .map_or(1, |i| i + 1)
}

fn bad(file: &str, line: usize, reason: String) -> ProfileError {
    ProfileError::Bad {
        file: file.to_owned(),
        line,
        key: String::new(),
        reason,
    }
}

fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, ProfileError> {
    toml::from_str(text).map_err(|e: toml::de::Error| {
        let at = e.span().map_or(0, |span| span.start);
        let before = text.get(..at).unwrap_or_default();
        let line = before.matches('\n').count();
        let key = text
            .lines()
            .nth(line)
            .and_then(|line| line.split_once('='))
            .map(|(key, _)| format!("{}: ", key.trim()))
            .unwrap_or_default();
        ProfileError::Bad {
            file: file.to_owned(),
            line: line + 1,
            key,
            reason: e.message().replace('\n', " "),
        }
    })
}
