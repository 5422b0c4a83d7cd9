//! The resolver of the local network, for local names.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use mpbond_net::resolve::servers_of;

/// Files that name resolvers: where the first one names this host, the others have those behind its
/// own resolver (systemd-resolved; NetworkManager with dnsmasq). That one must not be asked: it
/// would ask them, and be intercepted.
const FILES: [&str; 3] = [
    "/etc/resolv.conf",
    "/run/systemd/resolve/resolv.conf",
    "/run/NetworkManager/no-stub-resolv.conf",
];

/// Shortest interval between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Resolvers of the local network, as the system knows them.
#[derive(Debug)]
pub struct LocalResolvers {
    /// Networks that are reached directly; nothing is sent elsewhere.
    direct: Vec<IpNet>,
    found: Mutex<Option<(Instant, Vec<SocketAddr>)>>,
}

impl LocalResolvers {
    /// Those within these networks, or on a link.
    pub fn new(direct: Vec<IpNet>) -> Self {
        Self {
            direct,
            found: Mutex::default(),
        }
    }

    /// The present ones.
    pub fn find(&self) -> Vec<SocketAddr> {
        let Ok(mut found) = self.found.lock() else {
            return Vec::new();
        };
        match &*found {
            Some((looked, found)) if looked.elapsed() < LOOK_EVERY => found.clone(),
            _ => {
                let new = self.read(&FILES.map(PathBuf::from));
                *found = Some((Instant::now(), new.clone()));
                new
            }
        }
    }

    fn read(&self, files: &[PathBuf]) -> Vec<SocketAddr> {
        for file in files {
            let mut servers = servers_of(file);
            if servers.iter().all(|server| server.ip().is_loopback()) {
                continue;
            }
            servers.retain(|server| self.is_direct(server.ip()));
            return servers;
        }
        Vec::new()
    }

    fn is_direct(&self, ip: IpAddr) -> bool {
        let on_link = match ip {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        !ip.is_loopback() && (on_link || self.direct.iter().any(|net| net.contains(&ip)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_behind_that_of_this_host_and_within_reach() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["stub", "behind"].map(|name| folder.path().join(name));
        let resolvers = LocalResolvers::new(vec!["192.168.0.0/16".parse().unwrap()]);
        assert_eq!(resolvers.read(&files), []);
        std::fs::write(&files[0], "nameserver 127.0.0.53\n").unwrap();
        assert_eq!(resolvers.read(&files), []);
        let text = "nameserver 192.168.1.1\nnameserver 9.9.9.9\nnameserver fe80::1%1\n";
        std::fs::write(&files[1], text).unwrap();
        let servers = ["192.168.1.1:53", "[fe80::1%1]:53"].map(|s| s.parse().unwrap());
        assert_eq!(resolvers.read(&files), servers);
    }
}
