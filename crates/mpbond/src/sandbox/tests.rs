//! There is no way back out of a sandbox: what is tried in one is tried by a process of its own,
//! this test binary started again.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::*;

const ROLE: &str = "MPBOND_SANDBOX_ROLE";

/// Runs one of the ignored tests below, and gives it this text.
fn play(role: &str, text: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", &format!("sandbox::tests::{role}")])
        .args(["--nocapture", "--test-threads=1"])
        .env(ROLE, text)
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
    eprintln!("{text}");
}

fn denied<T: std::fmt::Debug>(result: io::Result<T>) -> bool {
    match result {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => true,
        other => panic!("{other:?}"),
    }
}

fn raw(domain: Domain, kind: Type, protocol: Option<Protocol>) -> io::Result<Socket> {
    Socket::new(domain, kind, protocol)
}

#[test]
fn what_is_not_needed_is_out_of_reach() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["outside", "inside", "sockets"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("file"), "text").unwrap();
    }
    play("role_confined", folder.path().to_str().unwrap());
    assert_eq!(
        fs::read_to_string(folder.path().join("inside/file")).unwrap(),
        "changed"
    );
}

#[test]
#[ignore = "a role: see the top of this file"]
fn role_confined() {
    let Some(folder) = std::env::var_os(ROLE) else {
        return;
    };
    let folder = Path::new(&folder);
    let file = |name: &str| folder.join(name).join("file");
    // All of it works before.
    fs::read(file("outside")).unwrap();
    Command::new("true").status().unwrap();

    let mut plan = Plan {
        places: for_names(),
        ..Plan::default()
    };
    plan.places
        .extend(Place::around(&file("inside"), Access::Change));
    plan.status_socket(&file("sockets"));
    let status = plan.enter(0);
    println!("{}", status.summary());
    let others = |p: &String| p.contains("threads were started before");
    let problems: Vec<_> = status.problems.iter().filter(|p| !others(p)).collect();
    assert!(status.no_new_privileges && status.capabilities.is_empty());
    assert!(capabilities::held().is_empty());

    if status.landlock_abi.is_some() {
        assert!(denied(fs::read(file("outside"))));
        assert!(denied(fs::write(file("outside"), "x")));
        assert!(denied(fs::remove_file(file("outside"))));
        assert!(denied(fs::read_dir(folder)));
        assert!(denied(fs::read(file("sockets"))));
        assert!(denied(fs::write(folder.join("sockets/new"), "x")));
        assert!(denied(fs::create_dir(folder.join("inside/folder"))));
        let there = thread_result(move || fs::read("/proc/self/status"));
        assert!(denied(there), "threads are held to it as well");
    } else {
        println!("no Landlock here: {problems:?}");
    }
    // As trust files and books of tokens are written.
    fs::write(folder.join("inside/new"), "changed").unwrap();
    fs::rename(folder.join("inside/new"), file("inside")).unwrap();
    assert_eq!(fs::read(file("inside")).unwrap(), b"changed");
    fs::remove_file(file("sockets")).unwrap();

    if status.calls_refused.is_some() {
        assert!(Command::new("true").status().is_err());
        assert!(denied(raw(Domain::PACKET, Type::RAW, None)));
        let icmp = Some(Protocol::ICMPV4);
        assert!(denied(raw(Domain::IPV4, Type::RAW, icmp)));
        assert!(denied(
            unshare(CloneFlags::CLONE_NEWUSER).map_err(Into::into)
        ));
    } else {
        println!("no filter here: {problems:?}");
    }
    // Threads, connections and names go on.
    assert_eq!(thread_result(|| Ok(7)).unwrap(), 7);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    assert!(("localhost", 80).to_socket_addrs().unwrap().count() > 0);
}

/// A program as it is installed: functions and lines are in a file beside it.
#[test]
fn a_stripped_program_has_functions_and_lines_in_backtraces() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("built");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let strip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.ci/strip");
    let stripped = folder.path().join("stripped");
    let done = Command::new(strip).arg(&stripped).arg(&program).status();
    assert!(done.unwrap().success());
    fs::remove_file(program).unwrap();
    let output = Command::new(stripped.join("built"))
        .args(["--ignored", "--exact", "sandbox::tests::role_panics"])
        .args(["--nocapture", "--test-threads=1"])
        .env(ROLE, "1")
        .env("RUST_BACKTRACE", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("sandbox::tests::panics_in_it"), "{text}");
    assert!(text.contains("src/sandbox/tests.rs:"), "{text}");
}

#[test]
#[ignore = "a role: see the top of this file"]
fn role_panics() {
    if std::env::var_os(ROLE).is_some() {
        panics_in_it();
    }
}

#[inline(never)]
fn panics_in_it() {
    Plan::default().enter(0);
    panic!("for its backtrace");
}

fn thread_result<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    std::thread::spawn(work).join().unwrap()
}

#[test]
fn needs_keep_the_least_that_does() {
    play("role_needs", "1");
}

#[test]
#[ignore = "a role: see the top of this file"]
fn role_needs() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let allowed = fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let (allowed, available) = (allowed.unwrap(), available.unwrap());
    let is_allowed = |name: &&str| allowed.split_whitespace().any(|a| a == *name);
    let restricted = available.split_whitespace().find(|name| !is_allowed(name));
    let any = available.split_whitespace().find(is_allowed).unwrap();

    let mut plan = Plan::default();
    plan.congestion(Some(any));
    plan.congestion(restricted);
    plan.needs.push(Need::Interface);
    plan.needs.push(Need::Mark);
    let kept = plan.enter(0).capabilities;
    println!("for {plan:?}: {kept:?}");
    if !geteuid().is_root() {
        return assert!(kept.is_empty());
    }
    let admin = kept.contains(&"CAP_NET_ADMIN".to_owned());
    assert!(admin || restricted.is_none(), "{restricted:?}");
    // Of all that root may: one, since it does for the mark as well.
    assert_eq!(kept.len(), 1, "{kept:?}");
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    SockRef::from(&socket).set_mark(1).unwrap();
    for name in restricted.into_iter().chain([any]) {
        SockRef::from(&socket)
            .set_tcp_congestion(name.as_bytes())
            .unwrap();
    }
}

#[test]
fn root_goes_on_reading_files_of_others() {
    if !geteuid().is_root() {
        return mpbond_testing::Need::Root.is_missing("only root reads what is another user's");
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("file"), "text").unwrap();
    for path in [home.join("file"), home.clone()] {
        std::os::unix::fs::chown(&path, Some(65_534), Some(65_534)).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    }
    play("role_root", home.to_str().unwrap());
}

#[test]
#[ignore = "a role: see the top of this file"]
fn role_root() {
    let Some(home) = std::env::var_os(ROLE) else {
        return;
    };
    let file = Path::new(&home).join("file");
    let plan = Plan {
        places: Place::around(&file, Access::Change),
        ..Plan::default()
    };
    let kept = plan.enter(0).capabilities;
    assert_eq!(kept, ["CAP_CHOWN", "CAP_DAC_OVERRIDE"]);
    fs::read(&file).unwrap();
}
