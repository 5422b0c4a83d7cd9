//! Rules on the battery of the primary's device, and the floor of a helper's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use mpbond_testing::Need;
use mpbond_testing::namespaces::{is_called_for, play, sh, uevent};

use crate::daemons::{Bond, Ways, download, origin, text, until, until_within};
use crate::log_flood::start;
use crate::policy_reload::apply;

/// 30 s for relays to end, and attempts to dial.
pub const LONG: Duration = Duration::from_secs(90);

/// Folder of the kernel's batteries.
pub const CLASS: &str = "/sys/class/power_supply";

/// Sets the level, and has the kernel tell that it is another one.
pub fn charge(class: &Path, capacity: u8, status: &str) {
    set(class, capacity, status);
    uevent("power_supply");
}

fn set(class: &Path, capacity: u8, status: &str) {
    let battery = class.join("BAT0");
    fs::create_dir_all(&battery).unwrap();
    let files = [
        ("type", "Battery".to_owned()),
        ("capacity", capacity.to_string()),
        ("status", status.to_owned()),
    ];
    for (name, text) in files {
        fs::write(battery.join(name), text + "\n").unwrap();
    }
}

/// Exit code and output of `mpbond explain`.
fn explain(bond: &Bond, arguments: &[&str]) -> (Option<i32>, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .arg("explain")
        .args(arguments)
        .arg("--config")
        .arg(bond.file("primary.toml"))
        .output()
        .unwrap();
    let text = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8(text).unwrap())
}

/// Plays a role that puts a folder in place of the kernel's.
fn play_with_a_battery(role: &str) {
    if Path::new(CLASS).exists() {
        play("-Urnm", role);
    } else {
        Need::Namespaces.is_missing(format_args!("this kernel has no {CLASS}"));
    }
}

/// The folder that is in place of the kernel's from now on.
pub fn class(bond: &Bond, capacity: u8) -> PathBuf {
    let class = bond.file("class");
    set(&class, capacity, "Discharging");
    sh(&format!("mount --bind {} {CLASS}", text(&class)));
    class
}

#[test]
fn connections_are_refused_while_the_battery_is_low() {
    play_with_a_battery("battery::rules");
}

#[test]
fn a_helper_lends_nothing_while_its_battery_is_low() {
    play_with_a_battery("battery::floor");
}

#[test]
#[ignore = "a role of another test"]
fn rules() {
    if !is_called_for() {
        return;
    }
    sh("ip link set lo up");
    let origin = origin();
    let bond = Bond::new(Ways::Own, "policy = \"policy.toml\"", "");
    let class = class(&bond, 81);
    let rule =
        |condition: &str| format!("[[rule]]\nname = \"save\"\n{condition}\nset = \"refuse\"\n");
    fs::write(bond.file("policy.toml"), rule("battery = \"< 20%\"")).unwrap();
    assert_eq!(explain(&bond, &["a.example"]).0, Some(1), "nobody answers");
    let _daemons = [start(&bond, "proxy"), start(&bond, "primary")];
    bond.joined(1);
    assert!(bond.works(origin));
    let (code, text) = explain(&bond, &["a.example"]);
    assert_eq!(code, Some(0), "{text}");
    let first = "no rule applies, the default does: carried by a session\n";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("  battery: 81% (the kernel)\n"), "{text}");
    let (code, text) = explain(&bond, &["192.0.2.1:25", "--uid", "7", "--json"]);
    let why: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (code, &why["passed"][0]["condition"]),
        (Some(0), &"battery".into())
    );
    // Readings begin a second apart at least, also after an event.
    let is_refused = || bond.connect(origin).err() == Some(2);
    charge(&class, 19, "Discharging");
    until("it is low", is_refused);
    // The sandbox does not keep it from a new policy's facts.
    apply(&bond, &rule("battery = \"< 20%\"\ncharging = true"));
    assert!(bond.works(origin), "it is discharging");
    charge(&class, 19, "Charging");
    until("it is charging", is_refused);
    // Many drivers tell no level that changes: a reading is used for 60 s.
    set(&class, 21, "Charging");
    assert_eq!(bond.connect(origin).err(), Some(2), "the reading is used");
    until_within(LONG, "connections are carried", || bond.works(origin));
}

#[test]
#[ignore = "a role of another test"]
fn floor() {
    if !is_called_for() {
        return;
    }
    sh("ip link set lo up");
    let origin = origin();
    // Both links carry bytes in turn: here, the own one alone would be fast enough.
    let bond = Bond::new(Ways::Both, "", "scheduler = \"round-robin\"");
    let class = class(&bond, 19);
    let file = bond.file("helper.toml");
    let config = fs::read_to_string(&file).unwrap();
    let put = |floor: &str| {
        let line = format!("battery_floor = \"{floor}\"\n");
        fs::write(&file, line + &config).unwrap();
    };
    put("20%");
    let _daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    let helper = || {
        let links = bond.status("primary").unwrap().links;
        links
            .into_iter()
            .find(|link| link.kind == "helper")
            .unwrap()
    };
    until("the helper refuses", || {
        let error = helper().error.unwrap_or_default();
        error.ends_with("the battery is low (19%)")
    });
    let notes = bond.status("helper").unwrap().notes;
    assert_eq!(notes, ["the battery is low (19%)"]);
    assert!(bond.works(origin), "over the own link");
    // The level is sufficient for another floor.
    put("10%");
    mpbond::status_socket::reload(&bond.file("helper.sock")).unwrap();
    until_within(LONG, "the helper lends", || helper().state == "up");
    // It sinks while bytes move: nothing is lost when the relays end.
    charge(&class, 9, "Discharging");
    until_within(LONG, "the relays have ended", || {
        let running = download(&bond, origin, 1_000_000);
        assert_eq!(running.end().unwrap(), 1_000_000);
        helper().state != "up"
    });
}
