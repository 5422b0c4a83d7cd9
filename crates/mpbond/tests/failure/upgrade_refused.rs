//! Upgrades that are not possible: no socket for them, or another user.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use mpbond_testing::Need;
use mpbond_testing::namespaces::sh;
use nix::unistd::geteuid;

use crate::daemons::{Bond, Ways, origin, text};

/// A user without rights.
const OTHER: u32 = 65_534;

#[test]
fn a_daemon_without_a_socket_for_upgrades_works() {
    let bond = Bond::new(Ways::Both, "", "");
    for role in ["proxy", "helper", "primary"] {
        // A folder is there, which is not removed.
        std::fs::create_dir(bond.file(&format!("{role}.sock.upgrade"))).unwrap();
    }
    let _proxy = bond.start("proxy");
    let helper = bond.start("helper");
    let _primary = bond.start("primary");
    bond.joined(2);
    assert!(bond.works(origin()));
    helper.logs("can only be stopped and started again");
    let Err(said) = bond.upgrade("helper") else {
        panic!("it is upgraded");
    };
    assert!(said.contains("start it without --take-over"), "{said}");
    bond.joined(2);
}

/// The sockets' modes do not matter: both processes look at the other's user.
#[test]
fn another_user_does_not_take_a_daemon_over() {
    if !geteuid().is_root() {
        return Need::Root.is_missing("processes of another user");
    }
    let bond = Bond::new(Ways::Own, "", "");
    let proxy = bond.start("proxy");
    let before = bond.status("proxy").unwrap().process;
    let all = |path: &str, mode| {
        set_permissions(bond.file(path), Permissions::from_mode(mode)).unwrap();
    };
    all("", 0o755);
    for socket in ["proxy.sock", "proxy.sock.upgrade"] {
        all(socket, 0o666);
    }
    // A configuration of its own, for the same sockets.
    let theirs = bond.file("theirs");
    std::fs::create_dir(&theirs).unwrap();
    for name in ["proxy.toml", "proxy.pem"] {
        std::fs::copy(bond.file(name), theirs.join(name)).unwrap();
        chown(theirs.join(name), Some(OTHER), Some(OTHER)).unwrap();
    }
    let config = theirs.join("proxy.toml");
    let lines = std::fs::read_to_string(&config).unwrap();
    let socket = format!("status_socket = \"{}\"", text(&bond.file("proxy.sock")));
    let lines = lines.replace("status_socket = \"proxy.sock\"", &socket);
    std::fs::write(&config, lines).unwrap();
    chown(&theirs, Some(OTHER), Some(OTHER)).unwrap();
    // The other user may not reach the folder of this test's program. Another process copies it: a
    // process that another test starts meanwhile would have inherited the file, open for writing.
    let program = bond.file("mpbond");
    sh(&format!(
        "cp {} {}",
        env!("CARGO_BIN_EXE_mpbond"),
        text(&program)
    ));
    let tried = Command::new(program)
        .args(["upgrade", "proxy", "--config", text(&config)])
        .current_dir(&theirs)
        .env_remove("RUST_LOG")
        .uid(OTHER)
        .gid(OTHER)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&tried.stderr);
    assert_eq!(tried.status.code(), Some(1), "{said}");
    assert!(
        said.contains("run this as the user of the daemon that runs"),
        "{said}"
    );
    proxy.logs("not taken over: this one goes on");
    let reason = format!("the other process runs as user {OTHER}");
    assert!(proxy.log().contains(&reason), "{}", proxy.log());
    assert_eq!(bond.status("proxy").unwrap().process, before);
    let _primary = bond.start("primary");
    bond.joined(1);
    assert!(bond.works(origin()));
}
