//! Options of an energy report.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Device of captures without a device name.
pub(super) const DEVICE: &str = "device";

/// Options of an energy report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EnergyOptions {
    /// Profile of a radio, or of a device whose interfaces and processor are used.
    pub profile: String,
    /// Profiles of single devices by name, where they differ from `profile`.
    pub device_profiles: Vec<(String, String)>,
    /// Interface of a capture within a device profile: `cellular`, `wifi`, `bluetooth`. When
    /// absent, it is derived from the interface's name or the file's.
    pub interface: Option<String>,
    /// Addresses of the device. When empty, the most frequent one of the first packets is used, and
    /// the report says so.
    pub local: Vec<IpAddr>,
    /// Devices and interfaces of a packet log's links.
    pub uses: Vec<LinkUse>,
    /// Devices that act as access points all the time.
    pub access_points: Vec<String>,
    /// Device of each processor log, by file name.
    pub cpu_devices: Vec<(String, String)>,
    /// Power of idle devices in mW, where it was measured; the profile's otherwise. `None` is the
    /// device of logs without one.
    pub backgrounds_mw: Vec<(Option<String>, f64)>,
}

impl EnergyOptions {
    /// Options with a profile only.
    pub fn with_profile(profile: &str) -> Self {
        Self {
            profile: profile.to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn profile_of(&self, device: &str) -> &str {
        find(&self.device_profiles, device).unwrap_or(&self.profile)
    }

    pub(super) fn background_of(&self, device: &str) -> Option<f64> {
        let named =
            |(name, _): &&(Option<String>, f64)| name.as_deref().unwrap_or(DEVICE) == device;
        self.backgrounds_mw.iter().find(named).map(|(_, mw)| *mw)
    }

    pub(super) fn cpu_device_of(&self, file: &str) -> Option<&str> {
        find(&self.cpu_devices, file)
    }
}

fn find<'a>(pairs: &'a [(String, String)], key: &str) -> Option<&'a str> {
    let (_, value) = pairs.iter().find(|(name, _)| name == key)?;
    Some(value)
}

/// Assignment of a link of a packet log to an interface of a device.
///
/// Written `LINK=DEVICE.INTERFACE`, with `:reversed` appended at the end that sends in the link's
/// down direction: a pipe is two of these, one at each end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkUse {
    /// Name of the link in the log.
    pub link: String,
    /// Name of the device in the report.
    pub device: String,
    /// Interface of the device: `cellular`, `wifi`, `bluetooth`.
    pub interface: String,
    /// Whether the device sends in the link's down direction.
    pub reversed: bool,
}

/// Text that is not a [`LinkUse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseLinkUseError(String);

impl fmt::Display for ParseLinkUseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is not LINK=DEVICE.INTERFACE, such as ps=primary.cellular or \
             pipe=helper.wifi:reversed",
            self.0
        )
    }
}

impl std::error::Error for ParseLinkUseError {}

impl FromStr for LinkUse {
    type Err = ParseLinkUseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = || {
            let (link, end) = text.split_once('=')?;
            let (end, reversed) = match end.strip_suffix(":reversed") {
                Some(end) => (end, true),
                None => (end, false),
            };
            let (device, interface) = end.rsplit_once('.')?;
            let whole = [link, device, interface]
                .iter()
                .all(|part| !part.is_empty());
            (whole && !interface.contains(':')).then(|| Self {
                link: link.to_owned(),
                device: device.to_owned(),
                interface: interface.to_owned(),
                reversed,
            })
        };
        parts().ok_or_else(|| ParseLinkUseError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_uses() {
        let end: LinkUse = "pipe=helper.wifi:reversed".parse().unwrap();
        assert_eq!(
            (
                end.link.as_str(),
                end.device.as_str(),
                end.interface.as_str(),
                end.reversed
            ),
            ("pipe", "helper", "wifi", true)
        );
        assert!(!"ps=primary.cellular".parse::<LinkUse>().unwrap().reversed);
        for bad in [
            "",
            "ps",
            "ps=primary",
            "=a.b",
            "ps=.b",
            "ps=a.",
            "ps=a.b:back",
        ] {
            assert!(bad.parse::<LinkUse>().is_err(), "{bad}");
        }
    }
}
