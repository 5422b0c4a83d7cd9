//! The primary's address changes under a download: between network namespaces of the test's own.
//!
//! The test runs this binary again under `unshare` with the ignored one, which is the role that is
//! played there; run by hand on a host, that does nothing.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::daemons::{Bond, Ways, download, origin, unshare};

const ROLE: &str = "MPBOND_FAILURE_ROLE";

#[test]
fn another_address_is_joined_from_at_once() {
    let Some(mut command) = unshare("-Urnm") else {
        return;
    };
    let output = command
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "address::role", "--nocapture"])
        .env(ROLE, "1")
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

fn sh(command: &str) {
    let output = Command::new("sh").args(["-ec", command]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {error}");
}

/// Another network namespace, held by a process that waits for its input to end.
fn namespace() -> Child {
    let mut holder = Command::new("unshare")
        .args(["-n", "sh", "-c", "echo up; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(holder.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    holder
}

/// The proxy, the origin and the application are here; the primary is in another namespace.
#[test]
#[ignore = "a role: see the top of this file"]
fn role() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let mut there = namespace();
    let pid = there.id();
    sh(&format!(
        "ip link set lo up
         ip link add far0 type veth peer name near0 netns {pid}
         ip addr add 10.9.0.1/24 dev far0
         ip link set far0 up
         nsenter -t {pid} -n ip link set lo up
         nsenter -t {pid} -n ip addr add 10.9.0.2/24 dev near0
         nsenter -t {pid} -n ip link set near0 up"
    ));
    // The application speaks to the primary over a link of its own, which stays as it is.
    sh(&format!(
        "ip link add app0 type veth peer name app1 netns {pid}
         ip addr add 10.8.0.1/24 dev app0
         ip link set app0 up
         nsenter -t {pid} -n ip addr add 10.8.0.2/24 dev app1
         nsenter -t {pid} -n ip link set app1 up"
    ));
    let mut bond = Bond::new(Ways::Own, "", "");
    for (file, key, to) in [
        ("proxy.toml", "listen", "10.9.0.1"),
        ("primary.toml", "address", "10.9.0.1"),
        ("primary.toml", "[socks5]\nlisten", "10.8.0.2"),
    ] {
        let path = bond.file(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let (from, to) = (format!("{key} = \"127.0.0.1"), format!("{key} = \"{to}"));
        assert!(text.contains(&from), "{text}");
        std::fs::write(path, text.replace(&from, &to)).unwrap();
    }
    bond.socks5.set_ip([10, 8, 0, 2].into());
    let origin = origin();
    let _proxy = bond.start("proxy");
    let enter = format!("exec nsenter -t {pid} -n \"$0\" \"$@\"");
    let primary = bond.start_by("primary", &enter);
    bond.joined(1);
    let running = download(&bond, origin, 10_000_000);
    let changed = Instant::now();
    sh(&format!(
        "nsenter -t {pid} -n ip addr del 10.9.0.2/24 dev near0
         nsenter -t {pid} -n ip addr add 10.9.0.3/24 dev near0"
    ));
    primary.logs("its address is gone");
    bond.joined(1);
    eprintln!("figure: joined anew after {:?}", changed.elapsed());
    // Silence alone would have been given up after more than 15 s.
    assert!(
        changed.elapsed() < Duration::from_secs(10),
        "{}",
        primary.log()
    );
    assert_eq!(running.end().unwrap(), 10_000_000);
    drop(primary);
    let _ = there.kill();
    let _ = there.wait();
}
