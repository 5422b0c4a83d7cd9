//! A proxy that was started without `--config`, and its file in the default place, which comes and
//! goes: in a network namespace of the test's own, where the default port is free.

use std::fs;
use std::path::Path;
use std::process::Command;

use mpbond_testing::Outcome;
use mpbond_testing::namespaces::{is_called_for, play, sh};
use nix::sys::signal::Signal;

use crate::daemons::{Bond, Daemon, Ways, origin, text, until};

#[test]
fn a_default_configuration_that_has_vanished_is_an_error_and_the_one_in_force_stays() {
    play("-Urn", "default_file::role");
}

/// The bound of a proxy's memory, in MiB.
fn memory(bond: &Bond) -> u64 {
    bond.status("proxy").unwrap().memory.unwrap().most_bytes >> 20
}

/// Starts a proxy whose default folders are that of the bond.
fn start(bond: &Bond) -> Daemon {
    let folder = text(bond.folder.path());
    let line = format!(
        "export CONFIGURATION_DIRECTORY={folder} RUNTIME_DIRECTORY={folder}
         exec \"$0\" \"$1\" --log debug </dev/null"
    );
    bond.start_by("proxy", &line)
}

fn reload(folder: &Path) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpbond"));
    command.args(["reload", "proxy"]).env_remove("RUST_LOG");
    for variable in ["CONFIGURATION_DIRECTORY", "RUNTIME_DIRECTORY"] {
        command.env(variable, folder);
    }
    Outcome::from(command.output().unwrap())
}

/// Without its file, the proxy says so to all who ask, and keeps its bound.
fn is_refused(bond: &Bond, proxy: &Daemon, mib: u64) {
    let before = proxy.log().len();
    proxy.signal(Signal::SIGHUP);
    until("the log says so", || {
        let log = proxy.log()[before..].to_owned();
        log.contains("configuration not applied, the one in force stays: ")
            && log.contains("proxy.toml")
    });
    let told = reload(bond.folder.path());
    assert_eq!(told.code, 2, "{}", told.stderr);
    assert_eq!(told.stderr.lines().count(), 1, "{}", told.stderr);
    assert!(told.stderr.contains("proxy.toml"), "{}", told.stderr);
    assert_eq!(memory(bond), mib);
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    sh("ip link set lo up");
    let bond = Bond::new(Ways::Own, "", "memory = \"64 MiB\"");
    let (file, away) = (bond.file("proxy.toml"), bond.file("away.toml"));
    let proxy = start(&bond);
    let _primary = bond.start("primary");
    bond.joined(1);
    fs::rename(&file, &away).unwrap();
    is_refused(&bond, &proxy, 64);
    assert!(bond.works(origin()), "what it allows stays allowed");
    fs::rename(&away, &file).unwrap();
    assert_eq!(reload(bond.folder.path()).code, 0);
    proxy.kill();

    // There is none at the start, which is no error, nor is it at a reload. Then one comes.
    fs::rename(&file, &away).unwrap();
    let proxy = start(&bond);
    let told = reload(bond.folder.path());
    assert_eq!(told.code, 0, "{}", told.stderr);
    fs::write(&file, "memory = \"65 MiB\"\n").unwrap();
    assert_eq!(reload(bond.folder.path()).code, 0);
    assert_eq!(memory(&bond), 65);
    fs::remove_file(&file).unwrap();
    is_refused(&bond, &proxy, 65);
}
