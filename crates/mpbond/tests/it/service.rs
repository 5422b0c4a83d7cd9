//! The systemd units that are shipped: understood by systemd where it is installed, and fitting to
//! what the daemons look for.

use std::path::{Path, PathBuf};
use std::process::Command;

use mpbond_testing::Need;

const ROLES: [&str; 4] = ["primary", "helper", "proxy", "up"];

fn dist() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist")
}

/// The settings of a unit, in order.
fn settings(role: &str) -> Vec<(String, String)> {
    let file = dist().join(format!("mpbond-{role}.service"));
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|l| !l.is_empty() && !l.starts_with(['#', '[']));
    let pairs = lines.map(|l| l.split_once('=').unwrap_or_else(|| panic!("{role}: {l}")));
    pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn only(settings: &[(String, String)], key: &str) -> String {
    let values: Vec<_> = settings.iter().filter(|(k, _)| k == key).collect();
    assert_eq!(values.len(), 1, "{key}: {values:?}");
    values[0].1.clone()
}

#[test]
fn units_run_as_a_user_of_their_own_with_what_they_need() {
    for role in ROLES {
        let settings = settings(role);
        assert_eq!(only(&settings, "User"), "mpbond");
        assert_eq!(only(&settings, "NoNewPrivileges"), "yes");
        assert_eq!(only(&settings, "ProtectSystem"), "strict");
        assert!(!only(&settings, "MemoryMax").is_empty());
        assert_eq!(only(&settings, "Restart"), "on-failure");
        assert_eq!(only(&settings, "RestartSec"), "2");
        assert_eq!(only(&settings, "RestartPreventExitStatus"), "2");
        if settings.iter().any(|(key, _)| key == "ExecReload") {
            // The process that takes over is a child of the one that reloads.
            assert_eq!(only(&settings, "Type"), "notify");
            assert_eq!(only(&settings, "NotifyAccess"), "all");
        }
        let may = only(&settings, "AmbientCapabilities");
        assert_eq!(may, only(&settings, "CapabilityBoundingSet"));
        let wanted = match role {
            "primary" | "up" => "CAP_NET_ADMIN CAP_NET_RAW",
            _ => "",
        };
        assert_eq!(may, wanted, "{role}");
        // Without these the daemon's own sandbox would be refused.
        let calls = settings.iter().filter(|(k, _)| k == "SystemCallFilter");
        let calls: Vec<_> = calls.flat_map(|(_, v)| v.split(' ')).collect();
        for call in ["@system-service", "seccomp", "landlock_restrict_self"] {
            assert!(calls.contains(&call), "{role}: {call}");
        }
    }
}

#[test]
fn the_kill_switch_is_installed_before_the_network_is_configured() {
    let settings = settings("kill-switch");
    let before = only(&settings, "Before");
    assert!(before.split(' ').any(|unit| unit == "network-pre.target"));
    assert_eq!(only(&settings, "Wants"), "network-pre.target");
    // The rules of nftables.service flush those of others.
    assert!(only(&settings, "After").ends_with(" nftables.service"));
    assert_eq!(only(&settings, "PartOf"), "nftables.service");
    assert!(only(&settings, "ExecStart").ends_with("/mpbond kill-switch on"));
}

/// It begins before other services, so that a failure of its sandbox would leave traffic direct.
#[test]
fn the_unit_of_the_kill_switch_may_write_rules_and_read_a_configuration() {
    let settings = settings("kill-switch");
    let may = only(&settings, "CapabilityBoundingSet");
    assert_eq!(may, "CAP_NET_ADMIN CAP_DAC_READ_SEARCH");
    let families = only(&settings, "RestrictAddressFamilies");
    assert!(families.split(' ').any(|family| family == "AF_NETLINK"));
    assert_eq!(only(&settings, "NoNewPrivileges"), "yes");
}

/// A proxy works beside a process with the other roles; what runs already of a role stays
/// (`damage.rs`).
#[test]
fn services_of_single_roles_do_not_end_where_that_of_all_starts() {
    for role in ROLES {
        let settings = settings(role);
        let ends_others = ["Conflicts", "PartOf", "BindsTo"];
        assert!(
            settings
                .iter()
                .all(|(key, _)| !ends_others.contains(&key.as_str())),
            "{role}: {settings:?}"
        );
    }
    // At each start of the system the same one stays.
    let units = "mpbond-primary.service mpbond-helper.service mpbond-proxy.service";
    assert!(settings("up").contains(&("After".to_owned(), units.to_owned())));
}

/// Programs on events belong to the owner of /etc/mpbond, as mpbond.tmpfiles makes them.
#[test]
fn the_unit_of_programs_on_events_runs_them_as_their_owner() {
    let settings = settings("on");
    assert_eq!(only(&settings, "User"), "mpbond");
    assert!(only(&settings, "ExecStart").ends_with("/mpbond on --exec /etc/mpbond/on.d"));
    assert_eq!(only(&settings, "RestartPreventExitStatus"), "2");
    let tmpfiles = std::fs::read_to_string(dist().join("mpbond.tmpfiles")).unwrap();
    assert!(
        tmpfiles
            .lines()
            .any(|line| line == "Z /etc/mpbond - mpbond mpbond -")
    );
}

/// The process between the daemons' sockets and Bluetooth has their user and no right of theirs.
#[test]
fn the_unit_of_bluetooth_has_its_sockets_and_no_keys() {
    let settings = settings("bluetooth@");
    assert_eq!(only(&settings, "User"), "mpbond");
    assert_eq!(only(&settings, "CapabilityBoundingSet"), "");
    assert_eq!(only(&settings, "InaccessiblePaths"), "-/etc/mpbond");
    let families = only(&settings, "RestrictAddressFamilies");
    assert_eq!(families, "AF_UNIX AF_BLUETOOTH");
    assert!(!settings.iter().any(|(key, _)| key == "PrivateNetwork"));
    // The sockets of both daemons, where their units allow them.
    let runtime = only(&settings, "RuntimeDirectory");
    for role in ["primary", "helper"] {
        let unit = self::settings(role);
        assert_eq!(only(&unit, "RuntimeDirectory"), runtime);
        assert_eq!(only(&unit, "User"), "mpbond");
    }
}

#[test]
fn systemd_understands_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut units = Vec::new();
    for role in ROLES.iter().chain(&["kill-switch", "on"]) {
        let name = format!("mpbond-{role}.service");
        let text = std::fs::read_to_string(dist().join(&name)).unwrap();
        // It looks whether the program is there.
        let text = text.replace("/usr/local/bin/mpbond", env!("CARGO_BIN_EXE_mpbond"));
        let unit = folder.path().join(name);
        std::fs::write(&unit, text).unwrap();
        units.push(unit);
    }
    // An instance of the template; its program may not have been built.
    let text = std::fs::read_to_string(dist().join("mpbond-bluetooth@.service")).unwrap();
    let program = env!("CARGO_BIN_EXE_mpbond");
    let text = text.replace("/usr/local/bin/mpbond-bluetooth", program);
    let unit = folder.path().join("mpbond-bluetooth@phone.service");
    std::fs::write(&unit, text).unwrap();
    units.push(unit);
    let verify = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args(&units)
        .output();
    let Ok(verify) = verify else {
        return Need::Systemd.is_missing("there is no systemd-analyze");
    };
    let said = String::from_utf8_lossy(&verify.stderr);
    // It must report nothing about these units; others on this machine are ignored.
    let ours: Vec<_> = said.lines().filter(|l| l.contains("mpbond")).collect();
    assert!(ours.is_empty(), "{ours:#?}");
}

#[test]
fn the_user_can_be_made() {
    let sysusers = Command::new("systemd-sysusers")
        .arg("--dry-run")
        .arg(dist().join("mpbond.sysusers"))
        .output();
    let Ok(sysusers) = sysusers else {
        return Need::Systemd.is_missing("there is no systemd-sysusers");
    };
    let said = String::from_utf8_lossy(&sysusers.stderr);
    assert!(sysusers.status.success(), "{said}");
    assert!(!said.contains("mpbond.sysusers:"), "{said}");
}

#[test]
fn daemons_use_the_folders_that_systemd_gives() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proxy.toml");
    std::fs::write(&file, "workers = 1\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .args(["proxy", "--check"])
        .env("CONFIGURATION_DIRECTORY", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, format!("{}: fine\n", file.display()));
}
