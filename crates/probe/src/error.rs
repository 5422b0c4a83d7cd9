use std::io;
use std::net::SocketAddr;

/// Why probes cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// An option has a value that it cannot have.
    #[error("{0}")]
    Option(String),
    /// The kernel does not let this user send such probes.
    #[error("ICMP needs root, or this user's group in net.ipv4.ping_group_range: {0}")]
    Icmp(io::Error),
    /// There is no such interface or address here, or this user may not use it.
    #[error("{place}: cannot send from there: {error}")]
    Place {
        /// The interface or address.
        place: String,
        /// What the kernel says.
        error: io::Error,
    },
    /// A system call failed.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// How it failed.
        error: io::Error,
    },
    /// The target does not answer as the method needs.
    #[error("{target}: {reason}")]
    Target {
        /// The target.
        target: SocketAddr,
        /// What it did.
        reason: String,
    },
}

impl ProbeError {
    pub(crate) fn io(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Io { what, error }
    }
}
