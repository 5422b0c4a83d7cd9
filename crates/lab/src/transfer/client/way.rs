//! Ways from a client to the origin.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Way from a client to the origin.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    /// Directly, bound to an interface if one is given.
    Plain(Option<String>),
    /// To this address, from which a program forwards to the destination.
    Forwarded(SocketAddrV4),
    /// Through this SOCKS5 server, which resolves names.
    Socks5(String),
    /// Through this HTTP proxy, by CONNECT.
    Http(String),
    /// By the kernel's Multipath TCP; not with curl.
    Mptcp {
        /// Source address of the first subflow.
        source: Ipv4Addr,
        /// Congestion control of all subflows.
        congestion: String,
    },
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(None) => write!(f, "directly"),
            Self::Plain(Some(interface)) => write!(f, "by {interface}"),
            Self::Forwarded(address) => write!(f, "by {address}"),
            Self::Socks5(server) => write!(f, "by SOCKS5 server {server}"),
            Self::Http(server) => write!(f, "by HTTP proxy {server}"),
            Self::Mptcp { source, .. } => write!(f, "by MPTCP from {source}"),
        }
    }
}
