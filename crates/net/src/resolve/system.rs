//! The system's configuration of name resolution: `/etc/resolv.conf` (resolver(5)) and `/etc/hosts`
//! (hosts(5)).

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use mpbond_units::Timestamp;

use super::message::DomainName;

/// Port of name servers.
const DNS_PORT: u16 = 53;

/// Maximum number of servers, as in resolver(5).
const MAX_SERVERS: usize = 3;

/// Maximum number of search domains, as in older C libraries.
const MAX_SEARCH: usize = 6;

/// Maximum size of a file: some block lists are kept in `/etc/hosts`.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Shortest interval between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Maximum time for one server, if there is another attempt.
pub(super) const SERVER_WITHIN: Duration = Duration::from_secs(2);

/// Bounds of `options timeout:` and `attempts:` (resolver(5)).
const TIMEOUTS_S: [u64; 2] = [1, 30];
const ATTEMPTS: [u32; 2] = [1, 5];

/// Files that are read.
#[derive(Clone, Debug)]
pub struct Files {
    /// Servers and search domains.
    pub resolv_conf: PathBuf,
    /// Names with fixed addresses.
    pub hosts: PathBuf,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            resolv_conf: "/etc/resolv.conf".into(),
            hosts: "/etc/hosts".into(),
        }
    }
}

/// Content of `resolv.conf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Servers {
    pub(super) servers: Vec<SocketAddr>,
    pub(super) search: Vec<DomainName>,
    /// Time limit of one server.
    pub(super) timeout: Duration,
    /// Rounds of all servers.
    pub(super) attempts: u32,
}

impl Servers {
    /// Unknown lines and options are ignored, as by the C library. Without a server, there is one
    /// on this host.
    fn parse(text: &str) -> Self {
        let mut new = Self {
            servers: Vec::new(),
            search: Vec::new(),
            timeout: Duration::from_secs(5),
            attempts: 2,
        };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let server = words.next().and_then(server);
                    new.servers.extend(server);
                }
                Some("search" | "domain") => {
                    let domains = words.filter_map(|word| word.parse().ok());
                    new.search = domains.take(MAX_SEARCH).collect();
                }
                Some("options") => {
                    for option in words {
                        new.set(option);
                    }
                }
                _ => {}
            }
        }
        new.servers.truncate(MAX_SERVERS);
        if new.servers.is_empty() {
            let local = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), DNS_PORT);
            new.servers.push(local);
        }
        new
    }

    /// All attempts in their order, with the time limit of each.
    pub(super) fn tries(&self) -> impl Iterator<Item = (SocketAddr, Duration)> {
        let tries = self.attempts as usize * self.servers.len();
        let servers = self.servers.iter().cycle().take(tries);
        servers.enumerate().map(move |(n, server)| {
            let within = match n + 1 == tries {
                true => self.timeout,
                false => self.timeout.min(SERVER_WITHIN),
            };
            (*server, within)
        })
    }

    fn set(&mut self, option: &str) {
        let value = |n: &str| n.parse::<u32>().ok();
        match option.split_once(':') {
            Some(("timeout", n)) => {
                if let Some(n) = value(n) {
                    let seconds = u64::from(n).clamp(TIMEOUTS_S[0], TIMEOUTS_S[1]);
                    self.timeout = Duration::from_secs(seconds);
                }
            }
            Some(("attempts", n)) => {
                if let Some(n) = value(n) {
                    self.attempts = n.clamp(ATTEMPTS[0], ATTEMPTS[1]);
                }
            }
            _ => {}
        }
    }
}

/// Servers of a file like `resolv.conf`; this host's loopback where it names none.
pub fn servers_of(file: &PathBuf) -> Vec<SocketAddr> {
    Servers::parse(&read(file)).servers
}

/// An address of a server; a link-local one has a zone.
fn server(text: &str) -> Option<SocketAddr> {
    let Some((address, zone)) = text.split_once('%') else {
        return Some(SocketAddr::new(text.parse().ok()?, DNS_PORT));
    };
    let scope = match zone.parse() {
        Ok(number) => number,
        Err(_) => rustix::net::netdevice::name_to_index(any_socket().ok()?, zone).ok()?,
    };
    let address = address.parse().ok()?;
    Some(SocketAddrV6::new(address, DNS_PORT, 0, scope).into())
}

fn any_socket() -> std::io::Result<std::net::UdpSocket> {
    std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
}

/// Addresses of the names in `hosts`, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Hosts(HashMap<String, Vec<IpAddr>>);

impl Hosts {
    fn parse(text: &str) -> Self {
        let mut hosts: HashMap<String, Vec<IpAddr>> = HashMap::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse().ok()) else {
                continue;
            };
            for name in words {
                let name = name.trim_end_matches('.').to_ascii_lowercase();
                let addresses = hosts.entry(name).or_default();
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
        Self(hosts)
    }
}

/// What tells a file from its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version(u64, i64, i64, u64);

impl From<Metadata> for Version {
    fn from(meta: Metadata) -> Self {
        Self(meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.size())
    }
}

/// Both files, read again when they have changed.
#[derive(Debug)]
pub(super) struct System {
    files: Files,
    looked: Option<Timestamp>,
    versions: [Option<Version>; 2],
    servers: Servers,
    hosts: Hosts,
}

impl System {
    pub(super) fn new(files: Files) -> Self {
        Self {
            files,
            looked: None,
            versions: [None; 2],
            servers: Servers::parse(""),
            hosts: Hosts::default(),
        }
    }

    /// Reads files that have changed; whether the servers are others now.
    pub(super) fn refresh(&mut self, now: Timestamp) -> bool {
        let is_due = |last: Timestamp| now.since(last) >= LOOK_EVERY;
        if !self.looked.is_none_or(is_due) {
            return false;
        }
        self.looked = Some(now);
        let version = |path: &PathBuf| std::fs::metadata(path).ok().map(Version::from);
        let versions = [&self.files.resolv_conf, &self.files.hosts].map(version);
        let [servers, hosts] = self.versions;
        self.versions = versions;
        if versions[1] != hosts {
            self.hosts = Hosts::parse(&read(&self.files.hosts));
        }
        let mut are_others = false;
        if versions[0] != servers {
            let new = Servers::parse(&read(&self.files.resolv_conf));
            are_others = new != self.servers;
            self.servers = new;
        }
        are_others
    }

    /// Replaces the servers until the files change.
    #[cfg(test)]
    pub(super) fn use_servers(&mut self, servers: Vec<SocketAddr>) {
        self.servers.servers = servers;
    }

    #[cfg(test)]
    pub(super) fn use_times(&mut self, timeout: Duration, attempts: u32) {
        (self.servers.timeout, self.servers.attempts) = (timeout, attempts);
    }

    #[cfg(test)]
    pub(super) fn search(&mut self, domains: &[&str]) {
        self.servers.search = domains.iter().flat_map(|d| d.parse()).collect();
    }

    pub(super) fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Fixed addresses of a name. `localhost` and names below it always have them (RFC 6761,
    /// section 6.3); `invalid` (section 6.4) and `onion` (RFC 7686, section 2) have none.
    pub(super) fn fixed(&self, host: &str) -> Option<Vec<IpAddr>> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        if let Some(addresses) = self.hosts.0.get(&host) {
            return Some(addresses.clone());
        }
        match host.rsplit('.').next() {
            Some("localhost") => Some(vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]),
            Some("invalid" | "onion") => Some(Vec::new()),
            _ => None,
        }
    }
}

/// The text of a file; nothing, if it cannot be read.
fn read(path: &PathBuf) -> String {
    let mut octets = Vec::new();
    if let Ok(file) = File::open(path) {
        // What has been read until an error counts.
        let _ = file.take(MAX_FILE_BYTES).read_to_end(&mut octets);
    }
    String::from_utf8_lossy(&octets).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_domains_and_options() {
        let text = "# comment\nnameserver 192.0.2.1\nnameserver nonsense\n\
                    nameserver 2001:db8::1\nnameserver fe80::1%7\nnameserver 192.0.2.4\n\
                    domain old.example\nsearch a.example b.example\n\
                    options ndots:2 timeout:100 attempts:0 edns0\n";
        let servers = Servers::parse(text);
        let expected = ["192.0.2.1:53", "[2001:db8::1]:53", "[fe80::1%7]:53"];
        let expected: Vec<SocketAddr> = expected.iter().map(|a| a.parse().unwrap()).collect();
        assert_eq!(servers.servers, expected);
        let search: [DomainName; 2] = ["a.example", "b.example"].map(|d| d.parse().unwrap());
        assert_eq!(servers.search, search);
        assert_eq!(servers.timeout, Duration::from_secs(30));
        assert_eq!(servers.attempts, 1);
        let none = Servers::parse("");
        assert_eq!(none.servers, ["127.0.0.1:53".parse().unwrap()]);
    }

    #[test]
    fn fixed_names() {
        let mut system = System::new(Files::default());
        system.hosts = Hosts::parse(
            "192.0.2.1 Server server.example. # comment\nnonsense x\n2001:db8::1 server\n#1.1.1.1 y",
        );
        let both = ["192.0.2.1", "2001:db8::1"].map(|a| a.parse().unwrap());
        assert_eq!(system.fixed("SERVER"), Some(both.to_vec()));
        assert_eq!(system.fixed("server.example"), Some(vec![both[0]]));
        assert_eq!(system.fixed("x"), None);
        assert_eq!(system.fixed("y"), None);
        let local: [IpAddr; 2] = ["::1", "127.0.0.1"].map(|a| a.parse().unwrap());
        assert_eq!(system.fixed("localhost"), Some(local.to_vec()));
        assert_eq!(system.fixed("app.LocalHost."), Some(local.to_vec()));
        assert_eq!(system.fixed("notlocalhost"), None);
        for none in ["name.invalid.", "facebookcorewwwi.onion"] {
            assert_eq!(system.fixed(none), Some(Vec::new()));
        }
    }

    #[test]
    fn files_are_read_again_when_they_have_changed_at_most_once_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files {
            resolv_conf: folder.path().join("resolv.conf"),
            hosts: folder.path().join("hosts"),
        };
        let mut system = System::new(files.clone());
        let ms = Timestamp::from_millis;
        assert!(!system.refresh(ms(0)), "as without a file");
        std::fs::write(&files.resolv_conf, "nameserver 192.0.2.9").unwrap();
        std::fs::write(&files.hosts, "192.0.2.1 here").unwrap();
        assert!(!system.refresh(ms(999)));
        assert!(system.refresh(ms(1_000)));
        assert_eq!(system.servers().servers[0].to_string(), "192.0.2.9:53");
        assert!(system.fixed("here").is_some());
        assert!(!system.refresh(ms(2_000)), "nothing has changed");
        // Another file, as programs replace it.
        let next = folder.path().join("next");
        std::fs::write(&next, "nameserver 192.0.2.8").unwrap();
        std::fs::rename(next, &files.resolv_conf).unwrap();
        assert!(system.refresh(ms(3_000)));
    }
}
