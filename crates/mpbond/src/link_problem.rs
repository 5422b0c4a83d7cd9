//! Why an own link cannot carry anything: states of its interface that no connection reports.

use std::net::IpAddr;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;

use crate::addresses;

/// Why packets cannot leave through this interface, or from this source address; `None` where
/// nothing speaks against it, and where routes decide.
pub(crate) fn link_problem(interface: Option<&str>, source: Option<IpAddr>) -> Option<String> {
    if interface.is_none() && source.is_none() {
        return None;
    }
    let all: Vec<InterfaceAddress> = getifaddrs().ok()?.collect();
    let found = all.iter().find(|i| match (interface, source) {
        (Some(name), _) => i.interface_name == name,
        (None, source) => addresses::of(i) == source,
    });
    let Some(found) = found else {
        return Some(match (interface, source) {
            (Some(name), _) => format!("there is no interface {name}"),
            (None, Some(source)) => format!("no interface has the address {source}"),
            (None, None) => return None,
        });
    };
    let name = &found.interface_name;
    if !found.flags.contains(InterfaceFlags::IFF_UP) {
        Some(format!("{name} is down"))
    } else if !found.flags.contains(InterfaceFlags::IFF_RUNNING) {
        Some(format!("{name} has no carrier"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_works_and_others_are_missing() {
        let address = |text: &str| Some(text.parse().unwrap());
        assert_eq!(link_problem(None, None), None);
        assert_eq!(link_problem(Some("lo"), None), None);
        assert_eq!(link_problem(None, address("127.0.0.1")), None);
        let missing = link_problem(Some("none0"), None).unwrap();
        assert_eq!(missing, "there is no interface none0");
        let missing = link_problem(None, address("192.0.2.1")).unwrap();
        assert_eq!(missing, "no interface has the address 192.0.2.1");
    }
}
