//! The resolvers of the network that this host is in: for local names, and for all names while
//! connections go direct.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use mpbond_net::resolve::servers_of;

use crate::addresses;

/// Files that name resolvers: where the first one names this host, at whichever of its addresses,
/// the others have those behind its own resolver (systemd-resolved; NetworkManager with dnsmasq).
/// That one must not be asked: it would ask them, and be intercepted.
const FILES: [&str; 3] = [
    "/etc/resolv.conf",
    "/run/systemd/resolve/resolv.conf",
    "/run/NetworkManager/no-stub-resolv.conf",
];

/// Shortest interval between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Resolvers of the network, as the system knows them.
#[derive(Debug)]
pub struct LocalResolvers {
    /// Networks that are reached directly, also while there is a session.
    direct: Vec<IpNet>,
    files: Vec<PathBuf>,
    found: Mutex<Option<(Instant, Vec<SocketAddr>)>>,
}

impl LocalResolvers {
    /// Those of local names are within these networks, or on a link.
    pub fn new(direct: Vec<IpNet>) -> Self {
        Self::of_files(&FILES, direct)
    }

    /// The same, of files like [`FILES`].
    pub(super) fn of_files(files: &[impl AsRef<Path>], direct: Vec<IpNet>) -> Self {
        Self {
            direct,
            files: files.iter().map(|file| file.as_ref().to_owned()).collect(),
            found: Mutex::default(),
        }
    }

    /// The present ones that are asked for local names.
    pub fn find(&self) -> Vec<SocketAddr> {
        let mut servers = self.all();
        servers.retain(|server| self.is_direct(server.ip()));
        servers
    }

    /// All present ones, which are asked for all names while connections go direct.
    pub fn all(&self) -> Vec<SocketAddr> {
        let Ok(mut found) = self.found.lock() else {
            return Vec::new();
        };
        match &*found {
            Some((looked, found)) if looked.elapsed() < LOOK_EVERY => found.clone(),
            _ => {
                let own = addresses::own().unwrap_or_default();
                let new = read(&self.files, &own);
                *found = Some((Instant::now(), new.clone()));
                new
            }
        }
    }

    fn is_direct(&self, ip: IpAddr) -> bool {
        let on_link = match ip {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        on_link || self.direct.iter().any(|net| net.contains(&ip))
    }
}

fn read(files: &[PathBuf], own: &HashSet<IpAddr>) -> Vec<SocketAddr> {
    for file in files {
        let mut servers = servers_of(file);
        servers.retain(|server| !server.ip().is_loopback() && !own.contains(&server.ip()));
        if !servers.is_empty() {
            return servers;
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_behind_that_of_this_host_and_within_reach() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["stub", "behind"].map(|name| folder.path().join(name));
        let own = HashSet::from(["192.168.1.5", "fe80::5"].map(|a| a.parse().unwrap()));
        let read = || read(&files, &own);
        assert_eq!(read(), []);
        std::fs::write(&files[0], "nameserver 127.0.0.53\n").unwrap();
        assert_eq!(read(), []);
        let text = "nameserver 192.168.1.5\nnameserver fe80::5%1\n";
        std::fs::write(&files[0], text).unwrap();
        assert_eq!(read(), []);
        let text = "nameserver 192.168.1.1\nnameserver 9.9.9.9\nnameserver fe80::1%1\n";
        std::fs::write(&files[1], text).unwrap();
        let all = ["192.168.1.1:53", "9.9.9.9:53", "[fe80::1%1]:53"].map(|s| s.parse().unwrap());
        assert_eq!(read(), all);
        let resolvers = LocalResolvers::new(vec!["192.168.0.0/16".parse().unwrap()]);
        let found = all.map(|server| resolvers.is_direct(server.ip()));
        assert_eq!(found, [true, false, true]);
    }
}
