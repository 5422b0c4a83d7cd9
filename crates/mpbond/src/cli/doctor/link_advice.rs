//! Advice on links: commands that add a route or correct an MTU.

use mpbond_units::shell_word;

/// Advice for a destination without a route.
pub(super) fn no_route(interface: Option<&str>) -> String {
    let link = interface.unwrap_or("any interface");
    let name = interface.map_or("INTERFACE".into(), shell_word);
    format!(
        "there is no route through {link}: it needs one even beside a better one (`sudo ip route \
         add default via GATEWAY dev {name} metric 700`)"
    )
}

/// Advice for the link that a helper lends.
pub(super) fn correct_mtu_of_helper() -> &'static str {
    "on the helper, correct the MTU of the link that it lends (`sudo ip link set INTERFACE mtu \
     1300`, or what passes)"
}

/// Advice for a link of this device, whose interface need not be known.
pub(super) fn correct_mtu(interface: Option<&str>) -> String {
    let name = interface.map_or("INTERFACE".into(), shell_word);
    format!("correct the MTU of the link (`sudo ip link set {name} mtu 1300`, or what passes)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_the_interface_where_it_is_known() {
        for (interface, name) in [(Some("wlan0"), "wlan0"), (None, "INTERFACE")] {
            let command = format!("`sudo ip route add default via GATEWAY dev {name} metric 700`");
            let said = no_route(interface);
            assert!(said.contains(&command), "{said}");
            let said = correct_mtu(interface);
            assert!(
                said.contains(&format!("`sudo ip link set {name} mtu 1300`")),
                "{said}"
            );
        }
    }
}
