//! A primary that intercepts, as a process with the kernel's rules, in namespaces of the test's
//! own: what it keeps of its privileges, and what is left of it when it is killed.
//!
//! The test that cargo runs has the ignored one play its role there (`mpbond_testing::namespaces`).

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mpbond_net::DeviceId;
use mpbond_testing::has_nft;
use mpbond_testing::namespaces::{is_called_for, play, sh};

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn rules_do_not_outlive_their_primary() {
    if !has_nft() {
        return;
    }
    play("-Urnm", "interception::role");
}

fn is_clean() -> bool {
    let left = sh("nft list tables; ip link; ip rule; ip -6 rule");
    !left.contains("mpbond") && !left.contains("\n900") && !left.contains("\n901")
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < LIMIT, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The children of a process, their children, and so on.
fn descendants(parent: u32) -> Vec<u32> {
    let mut all = Vec::new();
    let mut next = vec![parent];
    while let Some(parent) = next.pop() {
        // The exit code is 0 if there is any.
        let ps = Command::new("ps")
            .args(["-o", "pid=", "--ppid", &parent.to_string()])
            .output()
            .unwrap();
        let pids = String::from_utf8(ps.stdout).unwrap();
        let pids: Vec<u32> = pids.split_whitespace().flat_map(str::parse).collect();
        all.extend(&pids);
        next.extend(&pids);
    }
    all
}

fn start(folder: &Path) -> Child {
    let config = folder.join("primary.toml");
    let id = DeviceId::from_bytes([7; 32]);
    let text = format!(
        "identity = \"primary.pem\"\nstatus_socket = \"primary.sock\"\n[proxy]\naddress = \"127.0.0.1:9\"\nid = \"{id}\"\n\
         [[path]]\nname = \"own\"\ninterface = \"lo\"\n[transparent]\nmode = \"tproxy\"\n"
    );
    std::fs::write(&config, text).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .args(["primary", "--config"])
        .arg(&config)
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let socket = folder.join("primary.sock");
    let up = || mpbond::status_socket::ask(&socket).is_ok_and(|s| s.sandbox.is_some());
    wait_until("it answers", up);
    child
}

/// Replaces the primary by a new process; its number, or what was said.
fn upgrade(folder: &Path) -> Result<u32, String> {
    // The new process keeps it open.
    let log = folder.join("upgrade.log");
    let status = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .args(["upgrade", "primary", "--config"])
        .arg(folder.join("primary.toml"))
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .status()
        .unwrap();
    match status.code() {
        Some(0) => {
            let status = mpbond::status_socket::ask(&folder.join("primary.sock"));
            Ok(status.unwrap().process)
        }
        code => {
            assert_eq!(code, Some(1));
            Err(std::fs::read_to_string(&log).unwrap())
        }
    }
}

fn doctor(folder: &Path, more: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .args(["doctor", "primary", "--config"])
        .arg(folder.join("primary.toml"))
        .args(more)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    sh("ip link set lo up");
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();

    let mut primary = start(folder);
    assert!(!is_clean());
    let status = mpbond::status_socket::ask(&folder.join("primary.sock")).unwrap();
    let sandbox = status.sandbox.unwrap();
    // Marks take one or the other, depending on the kernel.
    let kept = sandbox.capabilities.as_slice();
    assert!(
        kept == ["CAP_NET_RAW"] || kept == ["CAP_NET_ADMIN"],
        "{kept:?}"
    );
    assert!(doctor(folder, &[]).contains("nothing is left of earlier runs"));
    let said = doctor(folder, &["--clean"]);
    assert!(said.contains("nothing is left of earlier runs"), "{said}");
    assert!(!is_clean(), "those of a running primary stay");

    // A process that would not intercept, or otherwise, does not take over.
    let file = folder.join("primary.toml");
    let right = std::fs::read_to_string(&file).unwrap();
    for (from, to, reason) in [
        (
            "[transparent]\nmode = \"tproxy\"\n",
            "",
            "has no [transparent]",
        ),
        (
            "\"tproxy\"",
            "\"redirect\"",
            "another `mode` of [transparent]",
        ),
    ] {
        let wrong = right.replace(from, to);
        assert_ne!(wrong, right);
        std::fs::write(&file, wrong).unwrap();
        let said = upgrade(folder).unwrap_err();
        assert!(said.contains(reason), "{said}");
        let status = mpbond::status_socket::ask(&folder.join("primary.sock")).unwrap();
        assert_eq!(status.process, primary.id());
        assert!(sh("nft list tables").contains(&format!("mpbond_{}_", primary.id())));
    }
    std::fs::write(&file, right).unwrap();

    // One that does has rules of its own, and gives up the same privileges.
    let process = upgrade(folder).unwrap();
    assert!(primary.wait().unwrap().success());
    let tables = sh("nft list tables");
    assert_eq!(tables.lines().count(), 1, "{tables}");
    assert!(tables.contains(&format!("mpbond_{process}_")), "{tables}");
    assert!(doctor(folder, &[]).contains("nothing is left of earlier runs"));
    let status = mpbond::status_socket::ask(&folder.join("primary.sock")).unwrap();
    assert_eq!(status.sandbox.unwrap().capabilities, kept);
    sh(&format!("kill -TERM {process}"));
    wait_until("nothing is left", is_clean);
    // One whose rules have gone with the process that holds them ends, to be started again.
    let mut primary = start(folder);
    let holders = descendants(primary.id()).into_iter();
    let holders: Vec<_> = holders.map(|pid| pid.to_string()).collect();
    // One of them may have ended with another.
    sh(&format!("kill -KILL {} || true", holders.join(" ")));
    assert_eq!(primary.wait().unwrap().code(), Some(1));
    doctor(folder, &["--clean"]);
    assert!(is_clean());
    let mut primary = start(folder);

    // Told to stop, it takes them away, though it has given up what that takes: its guard has not.
    sh(&format!("kill -TERM {}", primary.id()));
    assert!(primary.wait().unwrap().success());
    assert!(is_clean());

    // Killed, too.
    let mut primary = start(folder);
    primary.kill().unwrap();
    primary.wait().unwrap();
    wait_until("nothing is left", is_clean);

    // Killed together with the process that would remove the rules: the doctor reports it, and
    // removes them on request.
    let mut primary = start(folder);
    let helpers: Vec<_> = descendants(primary.id())
        .iter()
        .map(u32::to_string)
        .collect();
    assert!(!helpers.is_empty());
    // Stopped, it cannot tell the others to remove the rules while they are killed one by one. One
    // of them may have ended with another.
    sh(&format!(
        "kill -STOP {primary}; kill -KILL {} {primary} || true",
        helpers.join(" "),
        primary = primary.id()
    ));
    primary.wait().unwrap();
    wait_until("the table is gone", || sh("nft list tables").is_empty());
    assert!(!is_clean());
    let said = doctor(folder, &[]);
    assert!(said.contains("doctor primary --clean"), "{said}");
    let said = doctor(folder, &["--clean"]);
    assert!(
        said.contains("removed 0 nft tables and 18 routing"),
        "{said}"
    );
    assert!(is_clean());

    // Or the next start does, also of a primary that intercepts nothing any more.
    sh(
        "nft add table inet mpbond_1073741824_1; ip rule add pref 9000 fwmark 0x6d700002 lookup 28016",
    );
    let text = std::fs::read_to_string(folder.join("primary.toml")).unwrap();
    let (text, _) = text.split_once("[transparent]").unwrap();
    let other = folder.join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("primary.toml"), text).unwrap();
    let mut primary = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .args(["primary", "--config"])
        .arg(other.join("primary.toml"))
        .spawn()
        .unwrap();
    wait_until("the next start cleans up", is_clean);
    primary.kill().unwrap();
    primary.wait().unwrap();
}
