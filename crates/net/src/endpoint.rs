//! Addresses of a proxy as people write them: by address or by name.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// Maximum length of a host name (RFC 1035, section 2.3.4).
const MAX_NAME_BYTES: usize = 253;

/// A TCP end point: an address and port, or a host name and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Address and port.
    At(SocketAddr),
    /// Host name, looked up before each attempt, and port.
    Name {
        /// Host name.
        host: String,
        /// Port.
        port: u16,
    },
}

impl Endpoint {
    /// The address, unless it is a name.
    pub fn fixed(&self) -> Option<SocketAddr> {
        match self {
            Self::At(address) => Some(*address),
            Self::Name { .. } => None,
        }
    }

    /// A name with this port, if it can be a host name.
    pub fn named(host: &str, port: u16) -> Option<Self> {
        let host = is_host_name(host).then(|| host.to_owned())?;
        (port != 0).then_some(Self::Name { host, port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// Error of parsing an [`Endpoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an address and port such as \"192.0.2.1:4433\", or \"proxy.example.org:4433\"")]
pub struct ParseEndpointError;

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, ParseEndpointError> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return match address.port() {
                0 => Err(ParseEndpointError),
                _ => Ok(Self::At(address)),
            };
        }
        let named = text
            .rsplit_once(':')
            .and_then(|(host, port)| Self::named(host, port.parse().ok()?));
        named.ok_or(ParseEndpointError)
    }
}

/// Whether a text can be a host name (RFC 1123, section 2.1), and is no misspelt IPv4 address.
fn is_host_name(text: &str) -> bool {
    let label = |l: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (1..=63).contains(&l.len()) && l.chars().all(plain) && !l.starts_with('-')
    };
    let text = text.strip_suffix('.').unwrap_or(text);
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= MAX_NAME_BYTES
        && text.split('.').all(label)
        && !last.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_told_apart_and_written_back() {
        for text in [
            "192.0.2.1:4433",
            "[2001:db8::1]:4433",
            "proxy.example.org:443",
        ] {
            let parsed: Endpoint = text.parse().unwrap();
            assert_eq!(parsed.to_string(), text);
            assert_eq!(parsed.fixed().is_some(), !text.starts_with('p'));
        }
        for text in [
            "",
            "proxy",
            "proxy:0",
            "192.0.2.256:1",
            "a/b:1",
            "a,b:1",
            "-a:1",
            ":1",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
        let long = format!("{}.org:1", "a.".repeat(126));
        assert!(long.parse::<Endpoint>().is_err());
    }
}
