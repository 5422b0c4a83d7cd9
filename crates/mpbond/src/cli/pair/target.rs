//! The device to call, as a person names it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use mpbond::pairing::DEFAULT_PORT;
use mpbond_command::Failure;
use mpbond_net::Endpoint;
use mpbond_net::pipe::PipeAddress;

use super::super::endpoint::endpoint;

/// A device to call.
#[derive(Debug)]
pub(in crate::cli) enum Target {
    /// Over a network.
    Network(Endpoint),
    /// Over the pipe with this Unix socket.
    Unix(PathBuf),
}

impl Target {
    pub(super) fn at(address: SocketAddr) -> Self {
        Self::Network(Endpoint::At(address))
    }

    /// Reads an address, a host name or a Unix socket.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        if let Ok(PipeAddress::Unix(path)) = text.parse() {
            return Ok(Self::Unix(path));
        }
        endpoint(text, DEFAULT_PORT).map(Self::Network).ok_or_else(|| {
            Failure::input(format_args!(
                "\"{}\" is no address such as 10.42.0.1 or 10.42.0.1:{DEFAULT_PORT}, no host name, \
                 no unix: with an absolute path, and no text that begins with MPBOND:",
                text.escape_debug()
            ))
        })
    }

    /// The address, unless it is a name or a Unix socket.
    pub(in crate::cli) fn fixed(&self) -> Option<SocketAddr> {
        match self {
            Self::Network(endpoint) => endpoint.fixed(),
            Self::Unix(_) => None,
        }
    }

    /// The host name, if it is one.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Network(endpoint) => name(endpoint),
            Self::Unix(_) => None,
        }
    }
}

/// The host name of an end point, if it is one.
pub(super) fn name(endpoint: &Endpoint) -> Option<&str> {
    match endpoint {
        Endpoint::Name { host, .. } => Some(host),
        Endpoint::At(_) => None,
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(endpoint) => endpoint.fmt(f),
            Self::Unix(path) => PipeAddress::Unix(path.clone()).fmt(f),
        }
    }
}
