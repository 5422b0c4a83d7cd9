//! Rules on the battery of the primary's device.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mpbond_testing::Need;
use mpbond_testing::namespaces::{is_called_for, play, sh};

use crate::daemons::{Bond, Ways, origin, text, until_within};
use crate::log_flood::start;
use crate::policy_reload::apply;

/// Folder of the kernel's batteries.
const CLASS: &str = "/sys/class/power_supply";

fn charge(class: &Path, capacity: u8, status: &str) {
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

#[test]
fn connections_are_refused_while_the_battery_is_low() {
    if Path::new(CLASS).exists() {
        play("-Urm", "policy_battery::on_a_battery");
    } else {
        Need::Namespaces.is_missing(format_args!("this kernel has no {CLASS}"));
    }
}

#[test]
#[ignore = "a role of another test"]
fn on_a_battery() {
    if !is_called_for() {
        return;
    }
    let origin = origin();
    let bond = Bond::new(Ways::Own, "policy = \"policy.toml\"", "");
    let class = bond.file("class");
    charge(&class, 81, "Discharging");
    sh(&format!("mount --bind {} {CLASS}", text(&class)));
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
    charge(&class, 19, "Discharging");
    // A reading is used for 10 s.
    until_within(Duration::from_secs(30), "connections are refused", || {
        bond.connect(origin).err() == Some(2)
    });
    // The sandbox does not keep it from a new policy's facts.
    apply(&bond, &rule("battery = \"< 20%\"\ncharging = true"));
    assert!(bond.works(origin), "it is discharging");
    charge(&class, 19, "Charging");
    until_within(Duration::from_secs(30), "connections are refused", || {
        bond.connect(origin).err() == Some(2)
    });
}
