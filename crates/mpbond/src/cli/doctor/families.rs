//! Address families in which a proxy reaches the Internet.

use mpbond::families::routed;

use super::finding::Findings;

/// Checks that there is a route for each. No packet is sent.
pub(super) fn check(findings: &mut Findings) {
    let routed = routed(None);
    let families = [
        ("IPv4", routed.is_some_and(|routed| routed.ipv4)),
        ("IPv6", routed.is_some_and(|routed| routed.ipv6)),
    ];
    for (family, has_route) in families {
        if has_route {
            findings.ok("families", format!("{family} has a route"));
        } else {
            findings.warn(
                "families",
                format!("no route for {family}: connections to such addresses are refused"),
                "give this server an address of that family, if its network has it; otherwise \
                 there is nothing to do",
            );
        }
    }
}
