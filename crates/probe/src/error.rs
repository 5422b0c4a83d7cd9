//! Errors of probing.

use std::io;
use std::net::SocketAddr;

/// Reason why probes cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Invalid value of an option.
    #[error("{0}")]
    Option(String),
    /// The user lacks the permission to send ICMP probes.
    #[error("ICMP needs root, or this user's group in net.ipv4.ping_group_range: {0}")]
    Icmp(io::Error),
    /// The interface or address does not exist, or this user may not use it.
    #[error("{place}: cannot send from there: {error}")]
    Place {
        /// Interface or address.
        place: String,
        /// Error of the kernel.
        error: io::Error,
    },
    /// A system call failed.
    #[error("{what}: {error}")]
    Io {
        /// Attempted operation.
        what: &'static str,
        /// Error of the kernel.
        error: io::Error,
    },
    /// The target does not answer as the method requires.
    #[error("{target}: {reason}")]
    Target {
        /// Target.
        target: SocketAddr,
        /// Reason.
        reason: String,
    },
}

impl ProbeError {
    pub(crate) fn io(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Io { what, error }
    }
}
