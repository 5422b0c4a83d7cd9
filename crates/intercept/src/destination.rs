//! Destinations of connections: an address, or a name with a port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Maximum length of a host name in bytes: the limit of the length octet of RFC 1928, section 5.
pub const MAX_NAME_BYTES: usize = 255;

/// Maximum length of a label in bytes (RFC 1035, section 2.3.4).
const MAX_LABEL_BYTES: usize = 63;

/// Destination of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// An address, from the client's request or from the kernel.
    Addr(SocketAddr),
    /// A name to be resolved by the proxy.
    Name {
        /// Lower-case ASCII without trailing dot, at most 255 bytes, and not in a notation that a
        /// resolver would read as an address.
        host: String,
        /// Not zero.
        port: u16,
    },
}

/// Error of parsing a [`Destination`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDestination {
    /// The host is empty.
    #[error("the host is empty")]
    EmptyHost,
    /// More than 255 bytes, or a label of more than 63.
    #[error("the host name is too long")]
    TooLong,
    /// A character that is not allowed in host names.
    #[error("the host name has a character that is not allowed in host names")]
    BadCharacter,
    /// Two dots in a row, or a leading one.
    #[error("the host name has an empty label")]
    EmptyLabel,
    /// Notations such as `0x7f.1` and `2130706433`, which some resolvers read as an address and
    /// which would bypass rules about addresses.
    #[error("the host looks like an address in an unusual notation")]
    OddAddress,
    /// The port is missing, or not a number from 1 to 65535.
    #[error("the port is missing or not a number from 1 to 65535")]
    BadPort,
}

impl Destination {
    /// A destination from a host in text form and a port.
    ///
    /// An address in its standard notation (no brackets) becomes [`Destination::Addr`]; an
    /// IPv4-mapped IPv6 address becomes IPv4, so that rules about addresses apply to it.
    ///
    /// # Errors
    /// [`BadDestination`] when host or port is invalid.
    pub fn from_host(host: &str, port: u16) -> Result<Self, BadDestination> {
        if port == 0 {
            return Err(BadDestination::BadPort);
        }
        if let Ok(v4) = Ipv4Addr::from_str(host) {
            return Ok(Self::from_ip(IpAddr::V4(v4), port));
        }
        if let Ok(v6) = Ipv6Addr::from_str(host) {
            return Ok(Self::from_ip(IpAddr::V6(v6), port));
        }
        let host = valid_name(host)?;
        Ok(Self::Name { host, port })
    }

    /// A destination from an address; IPv4-mapped IPv6 becomes IPv4.
    pub fn from_ip(ip: IpAddr, port: u16) -> Self {
        Self::Addr(SocketAddr::new(ip.to_canonical(), port))
    }

    /// A destination from `host:port` or `[v6]:port`, as in RFC 9112, section 3.2.3.
    ///
    /// # Errors
    /// [`BadDestination`] when host or port is invalid.
    pub fn from_authority(
        authority: &str,
        default_port: Option<u16>,
    ) -> Result<Self, BadDestination> {
        if let Some(rest) = authority.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or(BadDestination::BadCharacter)?;
            let port = match rest.strip_prefix(':') {
                Some(port) => parse_port(port)?,
                None if rest.is_empty() => default_port.ok_or(BadDestination::BadPort)?,
                None => return Err(BadDestination::BadPort),
            };
            let ip = Ipv6Addr::from_str(host).map_err(|_| BadDestination::BadCharacter)?;
            if port == 0 {
                return Err(BadDestination::BadPort);
            }
            return Ok(Self::from_ip(IpAddr::V6(ip), port));
        }
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, parse_port(port)?),
            None => (authority, default_port.ok_or(BadDestination::BadPort)?),
        };
        Self::from_host(host, port)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        match self {
            Self::Addr(addr) => addr.port(),
            Self::Name { port, .. } => *port,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addr(addr) => addr.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// Digits only: `u16::from_str` would also accept a plus sign.
fn parse_port(text: &str) -> Result<u16, BadDestination> {
    if text.is_empty() || text.len() > 5 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(BadDestination::BadPort);
    }
    text.parse().map_err(|_| BadDestination::BadPort)
}

/// Validates and normalizes a name for [`Destination::Name`].
///
/// Underscores are accepted, since real hosts use them. Internationalized names are A-labels (RFC
/// 5890), encoded by the client as for DNS.
fn valid_name(name: &str) -> Result<String, BadDestination> {
    if name.len() > MAX_NAME_BYTES {
        return Err(BadDestination::TooLong);
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        return Err(BadDestination::EmptyHost);
    }
    let mut last = "";
    for label in name.split('.') {
        if label.is_empty() {
            return Err(BadDestination::EmptyLabel);
        }
        if label.len() > MAX_LABEL_BYTES {
            return Err(BadDestination::TooLong);
        }
        if !label
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        {
            return Err(BadDestination::BadCharacter);
        }
        last = label;
    }
    // The test of the WHATWG URL standard ("ends in a number"): some parsers read a host whose last
    // label is a number as an address. Addresses in standard notation were handled before.
    let hex = last.len() >= 2 && (last.starts_with("0x") || last.starts_with("0X"));
    if last.bytes().all(|b| b.is_ascii_digit()) || hex {
        return Err(BadDestination::OddAddress);
    }
    Ok(name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str, default_port: Option<u16>) -> String {
        match Destination::from_authority(text, default_port) {
            Ok(d @ Destination::Addr(_)) => format!("addr {d}"),
            Ok(d @ Destination::Name { .. }) => format!("name {d}"),
            Err(e) => format!("{e:?}"),
        }
    }

    #[test]
    fn authorities() {
        let long_label = format!("{}.example:80", "a".repeat(64));
        let long_name = format!("{}x:80", "abcdefg.".repeat(32));
        for (text, default_port, want) in [
            ("example.com:443", None, "name example.com:443"),
            ("EXAMPLE.com.:443", None, "name example.com:443"),
            ("a_b.example", Some(80), "name a_b.example:80"),
            ("192.0.2.1:1", None, "addr 192.0.2.1:1"),
            ("[2001:db8::1]:53", None, "addr [2001:db8::1]:53"),
            ("[::ffff:127.0.0.1]:80", None, "addr 127.0.0.1:80"),
            ("[2001:db8::1]", Some(80), "addr [2001:db8::1]:80"),
            ("[fe80::1%eth0]:80", None, "BadCharacter"),
            ("[::1", None, "BadCharacter"),
            ("[::1]80", None, "BadPort"),
            ("[::1]:0", None, "BadPort"),
            ("example.com", None, "BadPort"),
            ("example.com:", Some(80), "BadPort"),
            ("example.com:0", None, "BadPort"),
            ("example.com:65536", None, "BadPort"),
            ("example.com:+80", None, "BadPort"),
            ("example.com:80:80", None, "BadPort"),
            ("::1:80", None, "BadPort"),
            (":80", None, "EmptyHost"),
            (".:80", None, "EmptyHost"),
            ("a..b:80", None, "EmptyLabel"),
            (".a:80", None, "EmptyLabel"),
            ("a b:80", None, "BadCharacter"),
            ("user@host:80", None, "BadCharacter"),
            ("bücher.example:80", None, "BadCharacter"),
            ("a\0b:80", None, "BadCharacter"),
            ("2130706433:80", None, "OddAddress"),
            ("0x7f.1:80", None, "OddAddress"),
            ("127.0.0.0x1:80", None, "OddAddress"),
            ("127.1:80", None, "OddAddress"),
            (&long_label, None, "TooLong"),
            (&long_name, None, "TooLong"),
        ] {
            assert_eq!(show(text, default_port), want, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn accepted_destinations_parse_back(text in "[\\[\\]a-zA-Z0-9.:_ %@-]{0,40}") {
            if let Ok(d) = Destination::from_authority(&text, Some(80)) {
                let again = Destination::from_authority(&d.to_string(), None);
                proptest::prop_assert_eq!(again, Ok(d));
            }
        }
    }
}
