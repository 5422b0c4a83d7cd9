//! Reasons why the kernel calls a host unreachable: no route, nobody with its address on the link,
//! or a refusal on the way. The error is the same; routes and neighbours tell them apart.

use std::net::IpAddr;
use std::process::Command;

use super::link_advice::no_route;

/// Why a host is unreachable, and what to do, as far as `ip` knows.
pub(super) fn reason(to: IpAddr, interface: Option<&str>) -> Option<String> {
    let family = if to.is_ipv4() { "-4" } else { "-6" };
    let bound = |option| interface.into_iter().flat_map(move |name| [option, name]);
    let address = to.to_string();
    let of_link = ["route", "show", "table", "all", "match", &address];
    // The kernel takes a destination without a route for a neighbour, if an interface is bound.
    let routes = ip([family].into_iter().chain(of_link).chain(bound("dev")))?;
    if routes.trim().is_empty() {
        return Some(no_route(interface));
    }
    let get = [family, "route", "get", &address];
    let route = ip(get.into_iter().chain(bound("oif")))?;
    let (router, link) = (after(&route, "via"), after(&route, "dev")?);
    let hop = router.unwrap_or(&address);
    let neighbour = ip([family, "neigh", "show", hop, "dev", link])?;
    Some(of_neighbour(&neighbour, to, router, link))
}

/// Own address of a TCP connection, as routes and their rules choose it.
pub(super) fn own_address(to: IpAddr, interface: Option<&str>) -> Option<IpAddr> {
    let address = to.to_string();
    let bound = interface.into_iter().flat_map(|name| ["oif", name]);
    let route = ip(["route", "get", &address, "ipproto", "tcp"]
        .into_iter()
        .chain(bound))?;
    after(&route, "src")?.parse().ok()
}

fn of_neighbour(neighbour: &str, to: IpAddr, router: Option<&str>, link: &str) -> String {
    let is_there = neighbour.contains("lladdr");
    let protocol = if to.is_ipv4() {
        "ARP"
    } else {
        "neighbour discovery"
    };
    match (is_there, router) {
        (false, None) => format!(
            "nobody on {link} has the address {to} (no answer to {protocol}): is it right, and is \
             that device switched on and in this network?"
        ),
        (false, Some(router)) => format!(
            "the router {router} on {link} does not answer ({protocol}): is this device still in \
             that network?"
        ),
        (true, _) => format!(
            "a firewall or router on the way through {link} refuses: does that of {to} let this \
             device in?"
        ),
    }
}

/// Output of `ip`, if it is there.
fn ip<'a>(args: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let output = Command::new("ip").args(args).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The word after another one.
fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let mut words = text.split_whitespace().skip_while(|w| *w != word);
    words.nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_neighbour_is_no_firewall() {
        let to = "10.6.0.9".parse().unwrap();
        let route = "10.6.0.9 via 10.6.0.2 dev pipe0 src 10.6.0.1 uid 0";
        assert_eq!(after(route, "via"), Some("10.6.0.2"));
        assert_eq!(after(route, "dev"), Some("pipe0"));
        for (neighbour, router, word) in [
            (
                "10.6.0.9 dev pipe0 FAILED",
                None,
                "nobody on pipe0 has the address 10.6.0.9",
            ),
            ("", None, "no answer to ARP"),
            (
                "10.6.0.2 INCOMPLETE",
                Some("10.6.0.2"),
                "the router 10.6.0.2 on pipe0 does not",
            ),
            (
                "10.6.0.9 lladdr 0a:00 REACHABLE",
                None,
                "a firewall or router",
            ),
        ] {
            let said = of_neighbour(neighbour, to, router, "pipe0");
            assert!(said.contains(word), "{said}");
        }
    }
}
