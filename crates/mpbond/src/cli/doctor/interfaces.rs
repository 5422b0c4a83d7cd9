//! Network interfaces: whether a path can be bound to one.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

use mpbond::config::{HelperAddress, PrimaryConfig};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use super::finding::Findings;

/// Minimum MTU of IPv6 links (RFC 8200, section 5).
const LEAST_MTU: u32 = 1280;

#[derive(Debug)]
struct Interface {
    up: bool,
    /// A cable is plugged in, a radio is associated.
    running: bool,
    addresses: Vec<IpAddr>,
    mtu: Option<u32>,
}

/// The interfaces of this host.
#[derive(Debug)]
pub(super) struct Interfaces {
    by_name: BTreeMap<String, Interface>,
    /// Interfaces of IPv4's default routes, the preferred one first.
    default_routes: Vec<String>,
}

fn number(path: impl AsRef<Path>) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Source address of packets to an address, as routes say; none is sent.
fn source_towards(to: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(to).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Interfaces of default routes that are not used, each once.
fn unused<'a>(default_routes: &'a [String], used: &[&str]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in default_routes.iter().map(String::as_str) {
        if !used.contains(&name) && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

impl Interfaces {
    pub(super) fn read() -> Self {
        let mut by_name: BTreeMap<String, Interface> = BTreeMap::new();
        for entry in getifaddrs().into_iter().flatten() {
            let name = entry.interface_name;
            let interface = by_name.entry(name.clone()).or_insert_with(|| Interface {
                up: entry.flags.contains(InterfaceFlags::IFF_UP),
                running: entry.flags.contains(InterfaceFlags::IFF_RUNNING),
                addresses: Vec::new(),
                mtu: number(format!("/sys/class/net/{name}/mtu")),
            });
            let Some(address) = entry.address else {
                continue;
            };
            if let Some(v4) = address.as_sockaddr_in() {
                interface.addresses.push(v4.ip().into());
            } else if let Some(v6) = address.as_sockaddr_in6()
                && !v6.ip().is_unicast_link_local()
            {
                interface.addresses.push(v6.ip().into());
            }
        }
        let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
        Self {
            by_name,
            default_routes: default_routes(&routes),
        }
    }

    /// Of a proxy's addresses, the first one of a family that the path has; otherwise the first.
    pub(super) fn choose(
        &self,
        interface: Option<&str>,
        source: Option<IpAddr>,
        remotes: &[IpAddr],
    ) -> Option<IpAddr> {
        let bound = interface.and_then(|name| self.by_name.get(name));
        let own = source.into_iter().chain(
            bound
                .filter(|_| source.is_none())
                .into_iter()
                .flat_map(|i| i.addresses.iter().copied()),
        );
        let families: Vec<bool> = own.map(|ip| ip.is_ipv4()).collect();
        let same = |remote: &&IpAddr| families.contains(&remote.is_ipv4());
        remotes.iter().find(same).or(remotes.first()).copied()
    }

    /// Warns of interfaces with a default route that neither a path nor a helper uses.
    pub(super) fn check_unused(&self, findings: &mut Findings, config: &PrimaryConfig) {
        let of_paths = config
            .paths
            .iter()
            .map(|p| (p.interface.as_deref(), p.source));
        let of_helpers = config.helpers.iter().map(|h| match h.address {
            HelperAddress::At(to) => {
                let by = h.source.or_else(|| source_towards(to));
                (h.interface.as_deref(), by)
            }
            HelperAddress::Discover => (h.interface.as_deref(), h.source),
        });
        let mut used = Vec::new();
        for bound in of_paths.chain(of_helpers) {
            used.extend(match bound {
                (Some(name), _) => Some(name),
                (None, Some(source)) => self.owner(source),
                (None, None) => self.default_routes.first().map(String::as_str),
            });
        }
        for name in unused(&self.default_routes, &used) {
            findings.warn(
                "paths",
                format!("this device's own link {name} is not used"),
                format!(
                    "to use it, add [[path]] with interface = \"{name}\" (and one for each other \
                     link: with more than one, each is bound)"
                ),
            );
        }
    }

    /// The interface with this address.
    fn owner(&self, address: IpAddr) -> Option<&str> {
        let has = |i: &Interface| i.addresses.contains(&address);
        let owner = self.by_name.iter().find(|(_, i)| has(i));
        owner.map(|(name, _)| name.as_str())
    }

    /// Whether a connection to `remote` can be bound as configured.
    pub(super) fn check(
        &self,
        findings: &mut Findings,
        check: &str,
        interface: Option<&str>,
        source: Option<IpAddr>,
        remote: IpAddr,
    ) {
        if let Some(source) = source
            && source.is_ipv4() != remote.is_ipv4()
        {
            findings.fail(
                check,
                format!("calls {remote} from {source}: one is IPv4, the other IPv6"),
                "write a `source` of the same kind as the address that is called",
            );
            return;
        }
        let owner = source.and_then(|source| self.owner(source));
        if let (Some(source), None) = (source, owner) {
            findings.fail(
                check,
                format!("no interface here has the address {source}"),
                format!(
                    "`ip address` lists them; addresses that change are better bound by \
                     `interface` ({})",
                    self.names()
                ),
            );
            return;
        }
        let name = interface.or(owner);
        let Some(name) = name else {
            findings.ok(check, "goes as routes say");
            return;
        };
        if !self.check_named(findings, check, name) {
            return;
        }
        let Some(found) = self.by_name.get(name) else {
            return;
        };
        if !found
            .addresses
            .iter()
            .any(|a| a.is_ipv4() == remote.is_ipv4())
        {
            findings.fail(
                check,
                format!("{name} has no address of the kind that {remote} has"),
                "wait for DHCP, or give it one (`ip address add`)",
            );
        }
        self.check_return_path(findings, check, name, remote);
        if interface.is_none()
            && let Some(first) = self.default_routes.first()
            && first != name
            && !remote.is_loopback()
        {
            findings.warn(
                check,
                format!(
                    "is bound to an address of {name}, but the default route goes through {first}"
                ),
                format!(
                    "bind it by `interface = \"{name}\"`, or have `ip rule add from` send its \
                     packets the right way"
                ),
            );
        }
    }

    /// Checks that this interface exists, is up and has a usable MTU.
    pub(super) fn check_named(&self, findings: &mut Findings, check: &str, name: &str) -> bool {
        let Some(found) = self.by_name.get(name) else {
            findings.fail(
                check,
                format!("there is no interface \"{name}\" here"),
                format!("there are {}", self.names()),
            );
            return false;
        };
        if !found.up {
            findings.fail(
                check,
                format!("{name} is down"),
                format!("`ip link set {name} up`, or connect it as usual"),
            );
            return false;
        }
        if !found.running {
            findings.fail(
                check,
                format!("{name} is up, but not connected to anything"),
                "join the network, plug the cable in, or switch mobile data on",
            );
            return false;
        }
        if let Some(mtu) = found.mtu
            && mtu < LEAST_MTU
        {
            findings.warn(
                check,
                format!("{name} carries packets of {mtu} bytes at most"),
                format!("`ip link set {name} mtu 1400`, unless the network really is like that"),
            );
        }
        let addresses: Vec<String> = found.addresses.iter().map(ToString::to_string).collect();
        findings.ok(check, format!("{name} is up, {}", addresses.join(", ")));
        true
    }

    /// Checks reverse-path filtering: the strict mode drops packets that arrive on an interface
    /// that is not the preferred way back, so that a working path looks dead (RFC 3704, section
    /// 2.2).
    fn check_return_path(&self, findings: &mut Findings, check: &str, name: &str, to: IpAddr) {
        let preferred = self
            .default_routes
            .first()
            .is_none_or(|first| first == name);
        if to.is_ipv6() || to.is_loopback() || preferred {
            return;
        }
        let setting = |which: &str| {
            number(format!("/proc/sys/net/ipv4/conf/{which}/rp_filter")).unwrap_or_default()
        };
        // The kernel takes the larger of the two.
        if setting("all").max(setting(name)) == 1 {
            findings.warn(
                check,
                format!("answers that arrive by {name} may be dropped (rp_filter is strict)"),
                format!("`sysctl net.ipv4.conf.{name}.rp_filter=2`"),
            );
        }
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
        names.join(", ")
    }
}

/// Interfaces of the default routes in the text of /proc/net/route, by rising metric.
fn default_routes(text: &str) -> Vec<String> {
    let mut routes: Vec<(u32, String)> = text
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut columns = line.split_whitespace();
            let interface = columns.next()?;
            let destination = columns.next()?;
            let metric = columns.nth(4)?.parse().ok()?;
            let mask = columns.next()?;
            let all = "00000000";
            (destination == all && mask == all).then(|| (metric, interface.to_owned()))
        })
        .collect();
    routes.sort();
    routes.into_iter().map(|(_, interface)| interface).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::finding::Verdict;

    #[test]
    fn the_preferred_default_route_is_first() {
        let text = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                    wwan0\t00000000\t0100000A\t0003\t0\t0\t700\t00000000\t0\t0\t0\n\
                    wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
                    wlan0\t0001A8C0\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0\n";
        assert_eq!(default_routes(text), ["wlan0", "wwan0"]);
        assert!(default_routes("").is_empty());
        assert!(default_routes("x\ny z\n").is_empty());
    }

    #[test]
    fn a_link_with_a_default_route_is_used_or_told() {
        let routes = ["wlan0", "wwan0", "usb0", "wwan0"].map(str::to_owned);
        assert_eq!(unused(&routes, &["wlan0"]), ["wwan0", "usb0"]);
        assert!(unused(&routes, &["usb0", "wwan0", "wlan0"]).is_empty());
    }

    #[test]
    fn what_is_not_there_fails() {
        let interfaces = Interfaces::read();
        let local = "127.0.0.1".parse().unwrap();
        for (interface, source, expected) in [
            (Some("nowhere0"), None, "there is no interface"),
            (
                None,
                Some("192.0.2.77".parse().unwrap()),
                "no interface here has",
            ),
            (
                None,
                Some("::1".parse().unwrap()),
                "one is IPv4, the other IPv6",
            ),
        ] {
            let mut findings = Findings::default();
            interfaces.check(&mut findings, "path x", interface, source, local);
            assert!(findings.any(Verdict::Fail));
            assert!(
                findings.to_text().contains(expected),
                "{}",
                findings.to_text()
            );
        }
        let mut findings = Findings::default();
        interfaces.check(&mut findings, "path x", None, None, local);
        assert!(!findings.any(Verdict::Fail));
    }
}
