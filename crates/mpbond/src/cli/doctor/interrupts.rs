//! Interrupts of a helper's uplink: whether packets may wait for each other (NAPI, GRO).

use std::path::Path;

use mpbond_units::shell_word;

use super::finding::Findings;

/// Where the kernel shows interfaces.
const INTERFACES: &str = "/sys/class/net";

/// Tells how the packets of an interface wait for each other, where they do not yet.
pub(super) fn check(findings: &mut Findings, interface: &str) {
    if could_wait(&Path::new(INTERFACES).join(interface)) {
        let name = shell_word(interface);
        findings.ok(
            "uplink",
            format!(
                "packets of {interface} are passed on at once; to let them wait 0.2 ms for each \
                 other may save processor time above 12 Mbit/s, until the next start: `echo 2 | \
                 sudo tee {INTERFACES}/{name}/napi_defer_hard_irqs` and `echo 200000 | sudo tee \
                 {INTERFACES}/{name}/gro_flush_timeout`"
            ),
        );
    }
}

/// Whether the driver has NAPI, as far as the kernel shows it, and neither setting is in use.
/// Software interfaces have no interrupts, and most drivers for USB no NAPI. Most drivers for WiFi
/// receive by the NAPI of another device, which the settings of the interface do not reach.
fn could_wait(folder: &Path) -> bool {
    if ["phy80211", "wireless"]
        .iter()
        .any(|name| folder.join(name).exists())
    {
        return false;
    }
    let is_zero = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name));
        text.is_ok_and(|text| text.trim() == "0")
    };
    let bus = std::fs::canonicalize(folder.join("device/subsystem"));
    let has_napi = bus.is_ok_and(|bus| bus.file_name().is_some_and(|name| name != "usb"));
    has_napi && is_zero("gro_flush_timeout") && is_zero("napi_defer_hard_irqs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_interfaces_with_interrupts_and_no_setting_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let interface = |bus: Option<&str>, flush: &str, defer: &str| {
            let own = tempfile::tempdir_in(folder.path()).unwrap().keep();
            std::fs::write(own.join("gro_flush_timeout"), flush).unwrap();
            std::fs::write(own.join("napi_defer_hard_irqs"), defer).unwrap();
            if let Some(bus) = bus {
                std::fs::create_dir_all(own.join(bus)).unwrap();
                std::fs::create_dir(own.join("device")).unwrap();
                std::os::unix::fs::symlink(own.join(bus), own.join("device/subsystem")).unwrap();
            }
            own
        };
        assert!(could_wait(&interface(Some("pci"), "0\n", "0\n")));
        assert!(!could_wait(&interface(Some("pci"), "200000\n", "2\n")));
        assert!(!could_wait(&interface(Some("usb"), "0\n", "0\n")));
        assert!(!could_wait(&interface(None, "0\n", "0\n")));
        for name in ["phy80211", "wireless"] {
            let wifi = interface(Some("pci"), "0\n", "0\n");
            std::fs::create_dir(wifi.join(name)).unwrap();
            assert!(!could_wait(&wifi), "{name}");
        }
        assert!(!could_wait(&folder.path().join("none")));
    }
}
