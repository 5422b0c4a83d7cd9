//! Errors of installing and inspecting rules.

use std::io;

use super::owner::Owner;
use super::routing::{MAX_ROUTE_TABLE, MIN_ROUTE_TABLE};

/// Error of installing or inspecting rules.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// `nft`, `ip` or `sh` cannot be run.
    #[error("cannot run {tool}: {cause}; transparent interception needs nftables and iproute2")]
    Missing {
        /// Name of the program.
        tool: &'static str,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// The tool failed; most often for lack of CAP_NET_ADMIN.
    #[error("{tool} failed: {complaint}")]
    Refused {
        /// Name of the program.
        tool: &'static str,
        /// Its error message, on one line.
        complaint: String,
    },
    /// Another daemon is intercepting this host's traffic.
    #[error("{0} is already intercepting connections on this host; stop it first")]
    Busy(Owner),
    /// Not a valid interface name.
    #[error("{0:?} is not a valid interface name")]
    Interface(String),
    /// The interface cannot be created.
    #[error("cannot create the interface {name}: {cause}")]
    Tun {
        /// Its name.
        name: &'static str,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// `own_mark` and `route_mark` are the same, or one is zero.
    #[error("own_mark and route_mark must be two different marks, neither of them zero")]
    Marks,
    /// A routing table that is or may be the system's own (`rt_tables` names 0 and 253 to 255): the
    /// table is flushed.
    #[error("route_table must be {MIN_ROUTE_TABLE} to {MAX_ROUTE_TABLE}, not {0}")]
    RouteTable(u32),
    /// `/proc` or a pipe failed.
    #[error("cannot set up the rules: {0}")]
    Io(io::Error),
}

impl From<io::Error> for RulesError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}
