use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// What a caller says beside the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnergyOptions {
    /// Profile of a radio, or of a device whose interfaces and processor are meant.
    pub profile: String,
    /// Profiles of single devices, by name, where they differ from `profile`.
    pub device_profiles: Vec<(String, String)>,
    /// Which of a device profile's interfaces a capture is of: `cellular`,
    /// `wifi`, `bluetooth`. Else the interface's name or the file's must tell.
    pub interface: Option<String>,
    /// Addresses of the device itself. Else the commonest one of the first
    /// packets is taken, and the report says so.
    pub local: Vec<IpAddr>,
    /// What the links of a packet log are.
    pub uses: Vec<LinkUse>,
    /// Devices that are access points all the time.
    pub access_points: Vec<String>,
    /// Of which device a processor log is, by file name.
    pub cpu_devices: Vec<(String, String)>,
}

impl EnergyOptions {
    /// Options with a profile and nothing else.
    pub fn with_profile(profile: &str) -> Self {
        Self {
            profile: profile.to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn profile_of(&self, device: &str) -> &str {
        find(&self.device_profiles, device).unwrap_or(&self.profile)
    }

    pub(super) fn cpu_device_of(&self, file: &str) -> Option<&str> {
        find(&self.cpu_devices, file)
    }
}

fn find<'a>(pairs: &'a [(String, String)], key: &str) -> Option<&'a str> {
    let (_, value) = pairs.iter().find(|(name, _)| name == key)?;
    Some(value)
}

/// That a link of a packet log ends at an interface of a device.
///
/// Written `LINK=DEVICE.INTERFACE`, with `:reversed` behind it at the end that
/// sends what the link calls down: a pipe is two of these, one at each end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkUse {
    /// The link's name in the log.
    pub link: String,
    /// The device's name in the report.
    pub device: String,
    /// Which of the device's interfaces: `cellular`, `wifi`, `bluetooth`.
    pub interface: String,
    /// Whether the device sends what the link calls down.
    pub reversed: bool,
}

/// Text that is no [`LinkUse`].
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
