//! Hosts, files and sockets of daemons.

use std::path::{Path, PathBuf};

use crate::experiment::Experiment;
use crate::network::wiring::Network;

/// Hosts and folders for the daemons of an experiment.
pub(crate) struct Setup<'a> {
    pub experiment: &'a Experiment,
    pub network: &'a Network,
    /// The `mpbond` binary.
    pub binary: &'a Path,
    /// Private folder for identities and sockets.
    pub scratch: &'a Path,
    /// Folder for configurations and logs.
    pub folder: &'a Path,
}

/// One of up to two daemons on a host.
pub(super) struct Instance<'a> {
    pub host: &'a str,
    /// Name of its files and its socket.
    pub name: String,
}

impl<'a> Instance<'a> {
    pub fn first(host: &'a str) -> Self {
        let name = host.to_owned();
        Self { host, name }
    }

    /// The second daemon of a host in dual mode. Host names contain no dots.
    pub fn second(host: &'a str) -> Self {
        let name = format!("{host}.2");
        Self { host, name }
    }
}

pub(super) fn identity_file(setup: &Setup, host: &str) -> PathBuf {
    setup.scratch.join(format!("{host}.pem"))
}

pub(super) fn socket(setup: &Setup, at: &Instance) -> PathBuf {
    setup.scratch.join(format!("{}.sock", at.name))
}
