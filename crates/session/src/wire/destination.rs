//! Destination of a stream.

use std::fmt;
use std::net::SocketAddr;

use mpbond_units::printable;

use super::bounds::MAX_HOST_BYTES;

/// Destination of a stream, as the application named it. Names resolve at the proxy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Destination {
    /// A literal address.
    Addr(SocketAddr),
    /// A host name of at most 255 octets, and a port.
    Name {
        /// Host name, as text.
        host: String,
        /// TCP port.
        port: u16,
    },
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addr(a) => a.fmt(f),
            // A peer chooses the name, and logs and status show it.
            Self::Name { host, port } => write!(f, "{}:{port}", printable(host, MAX_HOST_BYTES)),
        }
    }
}
