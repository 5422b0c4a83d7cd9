//! Network interfaces: whether a path can be bound to one.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::path::Path;

use mpbond::config::PrimaryConfig;
use mpbond::uplinks::{Uplink, interface_towards, uplinks};
use mpbond_units::shell_word;
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
    /// Interfaces with default routes, the preferred one first.
    uplinks: Vec<Uplink>,
}

fn number(path: impl AsRef<Path>) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The setting of reverse-path filtering that accepts answers over any interface. A name with dots
/// is that of a VLAN (sysctl(8)).
fn return_path(name: &str) -> String {
    match name.contains('.') {
        true => format!("net/ipv4/conf/{name}/rp_filter=2"),
        false => format!("net.ipv4.conf.{name}.rp_filter=2"),
    }
}

/// Own links that are not used.
fn unused<'a>(own: &'a [String], used: &[String]) -> Vec<&'a str> {
    let names = own.iter().filter(|name| !used.contains(name));
    names.map(String::as_str).collect()
}

/// Names of the ways to the Internet: pipes to one helper share its link.
fn ways(config: &PrimaryConfig) -> Vec<&String> {
    let mut devices = HashSet::new();
    let helpers = config.helpers.iter().filter(|h| devices.insert(h.id));
    let paths = config.paths.iter().map(|p| &p.name);
    paths.chain(helpers.map(|h| &h.name)).collect()
}

/// Warns of own links that are not used, and of a single way.
fn warn_of_ways(findings: &mut Findings, ways: &[&String], unused: &[&str], is_bound: bool) {
    let only = match ways {
        [only] => format!("only one way (through \"{only}\"); "),
        _ => String::new(),
    };
    for name in unused {
        let bind = match is_bound {
            true => "",
            false => ", and give the other one its interface, too",
        };
        findings.warn(
            "paths",
            format!("{only}this device's own link {name} is not used"),
            format!("add [[path]] interface = \"{name}\"{bind}"),
        );
    }
    if !only.is_empty() && unused.is_empty() {
        findings.warn(
            "paths",
            format!("{only}nothing is bonded"),
            format!(
                "connect another link of this device, or pair a device that lends its own: \
                 {}",
                findings.pair()
            ),
        );
    }
}

impl Interfaces {
    pub(super) fn read() -> Self {
        let mut by_name: BTreeMap<String, Interface> = BTreeMap::new();
        for entry in getifaddrs().into_iter().flatten() {
            // For an IPv4 address it is the label, such as eth0:1; no interface's name has a colon.
            let mut name = entry.interface_name;
            name.truncate(name.find(':').unwrap_or(name.len()));
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
        Self {
            by_name,
            uplinks: uplinks(),
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

    /// Warns where nothing is bonded: of a single way, and of interfaces with a default route that
    /// neither a path nor a helper uses.
    pub(super) fn check_ways(&self, findings: &mut Findings, config: &PrimaryConfig) {
        let of_paths = config
            .paths
            .iter()
            .map(|p| (p.interface.as_deref(), p.source, None));
        let of_helpers = config.helpers.iter().map(|h| {
            let at = h.address.tcp().map(|to| to.ip());
            (h.interface.as_deref(), h.source, at)
        });
        let mut used: Vec<String> = Vec::new();
        for bound in of_paths.chain(of_helpers) {
            used.extend(match bound {
                (Some(name), ..) => Some(name.to_owned()),
                (None, Some(source), _) => self.owner(source).map(str::to_owned),
                (None, None, Some(to)) => interface_towards(to),
                (None, None, None) => self.preferred().map(str::to_owned),
            });
        }
        self.check_routers(findings, config);
        let own: Vec<String> = self
            .uplinks
            .iter()
            .filter(|u| u.is_usable())
            .map(|u| u.interface.clone())
            .collect();
        let names = ways(config);
        let is_bound = config
            .paths
            .iter()
            .all(|p| p.interface.is_some() || p.source.is_some());
        warn_of_ways(findings, &names, &unused(&own, &used), is_bound);
    }

    /// Warns of paths over a link on which a helper is the router: the helper's link, once more.
    fn check_routers(&self, findings: &mut Findings, config: &PrimaryConfig) {
        for (path, helper) in config
            .paths
            .iter()
            .flat_map(|p| config.helpers.iter().map(move |h| (p, h)))
        {
            let Some(at) = helper.address.tcp() else {
                continue;
            };
            let is_routed = |u: &&Uplink| {
                Some(&u.interface) == path.interface.as_ref() && u.gateways == [at.ip()]
            };
            if let Some(uplink) = self.uplinks.iter().find(is_routed) {
                findings.warn(
                    &format!("path {}", path.name),
                    format!(
                        "the router on {} is the helper \"{}\": both use its link",
                        uplink.interface, helper.name
                    ),
                    "remove this [[path]], and the helper alone uses the link",
                );
            }
        }
    }

    fn preferred(&self) -> Option<&str> {
        self.uplinks.first().map(|u| u.interface.as_str())
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
            && let Some(first) = self.preferred()
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
                format!(
                    "`sudo ip link set {} up`, or connect it as usual",
                    shell_word(name)
                ),
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
                format!(
                    "`sudo ip link set {} mtu 1400`, unless the network really is like that",
                    shell_word(name)
                ),
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
        let preferred = self.preferred().is_none_or(|first| first == name);
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
                format!("`sudo sysctl {}`", shell_word(&return_path(name))),
            );
        }
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::finding::Verdict;

    #[test]
    fn a_link_with_a_default_route_is_used_or_told() {
        let own = ["wlan0", "wwan0", "usb0"].map(str::to_owned);
        assert_eq!(unused(&own, &own[..1]), ["wwan0", "usb0"]);
        assert!(unused(&own, &own).is_empty());
        let laptop = "second laptop".to_owned();
        let told = |ways: &[&String], unused: &[&str], is_bound| {
            let mut findings = Findings::default();
            warn_of_ways(&mut findings, ways, unused, is_bound);
            findings.to_text()
        };
        let text = told(&[&laptop], &["wwan0"], true);
        let expected =
            "only one way (through \"second laptop\"); this device's own link wwan0 is not used";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains("-> add [[path]] interface = \"wwan0\"\n"),
            "{text}"
        );
        let text = told(&[&laptop], &[], true);
        assert!(
            text.contains("(through \"second laptop\"); nothing is bonded"),
            "{text}"
        );
        assert!(told(&[&laptop, &laptop], &[], true).contains("all is well"));
    }

    #[test]
    fn two_pipes_to_one_helper_are_one_way() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("primary.toml");
        let id = |n| mpbond_net::DeviceId::from_bytes([n; 32]).to_string();
        let text = format!(
            "[proxy]\naddress = \"203.0.113.1:4433\"\nid = \"{}\"\n\
             [[helper]]\nname = \"phone\"\nid = \"{}\"\n\
             [[helper.pipe]]\naddress = \"10.0.0.2:4434\"\n\
             [[helper.pipe]]\naddress = \"10.0.1.2:4434\"\n",
            id(1),
            id(2)
        );
        let names = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let config = PrimaryConfig::load(&file).unwrap();
            ways(&config).into_iter().cloned().collect::<Vec<_>>()
        };
        assert_eq!(names(&text), ["phone"]);
        let text = text + "[[path]]\nname = \"own\"\n";
        assert_eq!(names(&text), ["own", "phone"]);
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
