//! Reasons for refusing a connection and their codes in SOCKS5 and HTTP.

use std::fmt;

/// Reason for refusing a client's connection.
///
/// Expressed in each protocol: a reply code in SOCKS5, a status and an error type in HTTP, a reset
/// for transparent clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The destination refused the connection with a reset.
    ConnectionRefused,
    /// No route to the destination.
    HostUnreachable,
    /// A policy of the primary or the proxy forbids the destination.
    NotAllowed,
    /// The destination did not answer in time.
    TimedOut,
    /// The name has no address.
    NameNotFound,
    /// The multipath proxy cannot be reached.
    ProxyLost,
    /// The destination reset the connection.
    Reset,
    /// Too many connections are open.
    TooMany,
}

impl Refusal {
    /// All of them, in the order of declaration.
    pub const ALL: [Self; 8] = [
        Self::ConnectionRefused,
        Self::HostUnreachable,
        Self::NotAllowed,
        Self::TimedOut,
        Self::NameNotFound,
        Self::ProxyLost,
        Self::Reset,
        Self::TooMany,
    ];

    /// The reply field of RFC 1928, section 6.
    ///
    /// The RFC has no code for timeouts and unresolvable names; like other servers this uses 6 (TTL
    /// expired) and 4 (host unreachable).
    pub fn socks5_reply(self) -> u8 {
        match self {
            Self::ConnectionRefused => 5,
            Self::HostUnreachable | Self::NameNotFound => 4,
            Self::NotAllowed => 2,
            Self::TimedOut => 6,
            Self::ProxyLost => 3,
            Self::Reset | Self::TooMany => 1,
        }
    }

    /// Status code and reason phrase (RFC 9110, section 15).
    pub fn http_status(self) -> (u16, &'static str) {
        match self {
            Self::NotAllowed => (403, "Forbidden"),
            Self::TimedOut => (504, "Gateway Timeout"),
            Self::ProxyLost | Self::TooMany => (503, "Service Unavailable"),
            Self::ConnectionRefused | Self::HostUnreachable | Self::NameNotFound | Self::Reset => {
                (502, "Bad Gateway")
            }
        }
    }

    /// Error type in `Proxy-Status` (RFC 9209, section 2.3).
    pub fn proxy_status(self) -> &'static str {
        match self {
            Self::ConnectionRefused => "connection_refused",
            Self::HostUnreachable => "destination_ip_unroutable",
            Self::NotAllowed => "destination_ip_prohibited",
            Self::TimedOut => "connection_timeout",
            Self::NameNotFound => "dns_error",
            Self::ProxyLost => "destination_unavailable",
            Self::Reset => "connection_terminated",
            Self::TooMany => "connection_limit_reached",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConnectionRefused => "the destination refused the connection",
            Self::HostUnreachable => "the destination cannot be reached",
            Self::NotAllowed => "a rule forbids this destination",
            Self::TimedOut => "the destination did not answer in time",
            Self::NameNotFound => "the name has no address",
            Self::ProxyLost => "the connection to the multipath proxy is lost",
            Self::Reset => "the destination reset the connection",
            Self::TooMany => "too many connections are open",
        })
    }
}
