//! Locks (flock) that other programs hold on the folder of a daemon and on the files in it.

use std::fs::{File, read_dir};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use mpbond_net::Identity;
use mpbond_testing::Outcome;
use serde_json::Value;

use crate::daemons::{Bond, Ways, origin, text, until};

/// Devices that enrol at once. Each waits for a lock for 5 s: one after the other, they would keep
/// everybody else waiting for longer than [`crate::daemons::WITHIN`].
const NEWCOMERS: usize = 10;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpbond"));
    command.args(args).env_remove("RUST_LOG");
    command.stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Outcome {
    Outcome::from(command(args).output().unwrap())
}

fn lock(file: File) -> File {
    file.lock().unwrap();
    file
}

/// Holds the lock that programs of this user take before they change a file.
fn lock_changes(bond: &Bond, of: &str) -> File {
    let file = bond.file(&format!(".{of}.lock"));
    lock(File::create(file).unwrap())
}

fn id(bond: &Bond) -> String {
    let key = bond.file("primary.pem");
    Identity::load_or_create(key).unwrap().id().to_string()
}

/// What a stranger can open of a folder that others may read.
fn lock_everything(folder: &Path) -> Vec<File> {
    let files = read_dir(folder).unwrap().map(|f| f.unwrap().path());
    let files = files.filter(|f| f.is_file() && f.extension().is_none_or(|e| e != "lock"));
    let all = std::iter::once(folder.to_owned()).chain(files);
    all.map(|f| lock(File::open(f).unwrap())).collect()
}

#[test]
fn locks_of_strangers_on_folder_and_files_do_not_delay_untrust() {
    let bond = Bond::new(Ways::Helper, "", "");
    let (_proxy, _helper) = (bond.start("proxy"), bond.start("helper"));
    let _primary = bond.start("primary");
    bond.joined(1);
    let held = lock_everything(bond.folder.path());
    assert!(held.len() > 5, "{held:?}");
    let untrust = |role: &str| {
        let identity = bond.file(&format!("{role}.pem"));
        let done = run(&["untrust", &id(&bond), "--identity", text(&identity)]);
        assert_eq!(done.code, 0, "{}", done.stderr);
    };
    untrust("helper");
    until("the relay is over", || {
        bond.status("helper").unwrap().relays.is_empty()
    });
    untrust("proxy");
    until("the session is over", || {
        bond.status("proxy").unwrap().sessions.is_empty()
    });
}

#[test]
fn untrust_ends_with_the_reason_when_a_lock_is_not_released_and_the_daemon_goes_on() {
    let bond = Bond::new(Ways::Own, "", "");
    let _proxy = bond.start("proxy");
    let _primary = bond.start("primary");
    bond.joined(1);
    let held = lock_changes(&bond, "proxy.trusted");
    let identity = bond.file("proxy.pem");
    let untrust = || run(&["untrust", &id(&bond), "--identity", text(&identity)]);
    let done = untrust();
    assert_ne!(done.code, 0);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    for said in [".proxy.trusted.lock for more than 5 s", "stays trusted"] {
        assert!(done.stderr.contains(said), "{}", done.stderr);
    }
    assert!(bond.works(origin()));
    drop(held);
    assert_eq!(untrust().code, 0);
}

/// A token for so many devices.
fn token(bond: &Bond, uses: usize) -> String {
    let (file, uses) = (bond.file("proxy.toml"), uses.to_string());
    let args = ["proxy", "enrol", "--json", "--uses", &uses, "--config"];
    let made = run(&[&args[..], &[text(&file)]].concat());
    assert_eq!(made.code, 0, "{}", made.stderr);
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    made["token"].as_str().unwrap().to_owned()
}

#[test]
fn ten_devices_whose_enrolment_waits_for_a_lock_keep_nobody_waiting() {
    let bond = Bond::new(Ways::Own, "", "");
    let origin = origin();
    let _proxy = bond.start("proxy");
    let token = token(&bond, NEWCOMERS + 1);
    let enrol = |n: usize| -> Child {
        let file = bond.file(&format!("newcomer{n}.toml"));
        std::fs::write(&file, format!("identity = \"newcomer{n}.pem\"\n")).unwrap();
        let args = ["pair", &token, "--yes", "--role", "primary", "--config"];
        let mut pair = command(&[&args[..], &[text(&file)]].concat());
        pair.stdout(Stdio::null()).stderr(Stdio::piped());
        pair.spawn().unwrap()
    };
    let held = lock_changes(&bond, "proxy.enrol");
    let newcomers: Vec<Child> = (0..NEWCOMERS).map(enrol).collect();
    let _primary = bond.start("primary");
    bond.joined(1);
    assert!(bond.works(origin));
    for newcomer in newcomers {
        let done = newcomer.wait_with_output().unwrap();
        assert!(!done.status.success());
    }
    drop(held);
    let done = Outcome::from(enrol(NEWCOMERS).wait_with_output().unwrap());
    assert_eq!(done.code, 0, "{}", done.stderr);
}
