//! Daemons without a place for their status socket, in a mount namespace of the test's own.

use std::fs;

use crate::daemons::{Bond, Daemon, Ways, origin, text, until};
use mpbond_testing::namespaces::{is_called_for, play, sh};

const ROLES: [&str; 3] = ["proxy", "helper", "primary"];

#[test]
fn daemons_run_and_say_once_that_there_is_no_place_for_their_status_socket() {
    play("-Urm", "no_status::role");
}

/// Daemons with the default place for their status socket.
fn bond() -> Bond {
    let bond = Bond::new(Ways::Both, "on_proxy_loss = \"fail\"", "");
    for role in ROLES {
        let file = bond.file(&format!("{role}.toml"));
        let config = fs::read_to_string(&file).unwrap();
        let line = format!("status_socket = \"{role}.sock\"\n");
        let without = config.replace(&line, "");
        assert_ne!(config, without);
        fs::write(file, without).unwrap();
    }
    bond
}

/// Starts all daemons by a line of shell; they work without a status socket.
fn work(bond: &Bond, line: &str, socket: impl Fn(&str) -> String) {
    let origin = origin();
    let mut daemons = ROLES.map(|role| bond.start_unseen(role, line));
    for (role, daemon) in ROLES.into_iter().zip(&daemons) {
        daemon.logs(&format!("no status socket {}: ", socket(role)));
    }
    daemons[2].logs("SOCKS5");
    until("connections work", || bond.works(origin));
    daemons[1].logs("relay opened");
    assert!(bond.works(origin));
    let said = |daemon: &Daemon| daemon.log().matches("status socket").count();
    assert_eq!(daemons.each_ref().map(said), [1, 1, 1]);
    for daemon in daemons.iter_mut().rev() {
        assert!(daemon.stop().success(), "{}", daemon.log());
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    // Root's: `/run/mpbond` is missing and cannot be made.
    let bond = bond();
    sh("mount -t tmpfs -o ro none /run");
    let line = "unset RUNTIME_DIRECTORY; exec \"$0\" \"$@\"";
    work(&bond, line, |role| format!("/run/mpbond/{role}.sock"));

    // A user's, who has no runtime folder, in a home that is read-only with all that is in it.
    let bond = self::bond();
    let home = bond.file("home");
    let folder = home.join(".config/mpbond");
    fs::create_dir_all(&folder).unwrap();
    for file in fs::read_dir(bond.folder.path()).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), folder.join(file.file_name())).unwrap();
        }
    }
    let (home, folder) = (text(&home), text(&folder));
    sh(&format!(
        "mount --bind {home} {home}; mount -o remount,bind,ro {home}"
    ));
    // In a namespace without any user, nobody is root.
    let line = format!(
        "unset RUNTIME_DIRECTORY CONFIGURATION_DIRECTORY XDG_RUNTIME_DIR XDG_CONFIG_HOME
         HOME={home} exec unshare -U \"$0\" \"$1\" --log debug"
    );
    work(&bond, &line, |role| format!("{folder}/{role}.sock"));
}
