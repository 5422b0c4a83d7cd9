//! This host's own addresses and resolvers, as destination policies need them.

use std::collections::HashSet;
use std::io::Read;
use std::net::IpAddr;
use std::sync::{PoisonError, RwLock};

use mpbond_net::dest::InternalAddresses;
use tracing::warn;

use crate::addresses;

/// Files that name resolvers: the second one has those behind systemd-resolved's stub.
const RESOLV_CONF: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

/// Maximum size of such a file in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Current own addresses and resolvers.
#[derive(Default)]
pub(crate) struct Internal(RwLock<InternalAddresses>);

impl Internal {
    /// Reads both from the system.
    pub(crate) fn read() -> Self {
        let internal = Self::default();
        match addresses::own() {
            Ok(own) => internal.update(&own),
            Err(e) => warn!(error = %e, "cannot list own addresses: clients may reach them"),
        }
        internal
    }

    /// Sets own addresses, and reads the resolvers again: both change with the network.
    pub(crate) fn update(&self, own: &HashSet<IpAddr>) {
        let mut text = String::new();
        for path in RESOLV_CONF {
            if let Ok(file) = std::fs::File::open(path) {
                // A file that cannot be read names no resolvers to the system either.
                let _ = file.take(MAX_FILE_BYTES).read_to_string(&mut text);
                text.push('\n');
            }
        }
        let new = InternalAddresses::new(own.iter().copied(), &text);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// Runs `f` with the current addresses.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&InternalAddresses) -> T) -> T {
        f(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}
