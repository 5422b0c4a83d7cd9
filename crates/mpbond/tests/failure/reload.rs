//! Configurations that are read again while the daemons run, and downloads that do not notice.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use mpbond_testing::{Need, Outcome, has_script};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::daemons::{Bond, WITHIN, Ways, byte, is_pattern, origin, text, until};

/// A user and group with no rights (Debian: nobody).
const NOBODY: u32 = 65_534;

/// Replaces the configuration of a daemon by another file, as editors do.
pub fn write(bond: &Bond, role: &str, config: &str) {
    let new = bond.file("new.toml");
    fs::write(&new, config).unwrap();
    fs::rename(new, bond.file(&format!("{role}.toml"))).unwrap();
}

pub fn read(bond: &Bond, role: &str) -> String {
    fs::read_to_string(bond.file(&format!("{role}.toml"))).unwrap()
}

/// Puts a line in place of another one.
fn replace(bond: &Bond, role: &str, (before, after): (&str, &str)) {
    let config = read(bond, role);
    assert_eq!(config.matches(before).count(), 1, "{before}: {config}");
    write(bond, role, &config.replace(before, after));
}

fn command(bond: &Bond, role: &str, more: &[&str]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpbond"));
    let file = bond.file(&format!("{role}.toml"));
    command.args(["reload", role, "--config", text(&file)]);
    command.args(more).env_remove("RUST_LOG");
    Outcome::from(command.output().unwrap())
}

/// Has a daemon read its configuration: what it has applied, and what needs a restart.
fn reload(bond: &Bond, role: &str) -> (Vec<String>, Vec<String>) {
    let outcome = command(bond, role, &["--json"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let answer: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(answer["role"], json!(role));
    let file = bond.file(&format!("{role}.toml"));
    assert_eq!(answer["file"], json!(text(&file)));
    let list = |key: &str| serde_json::from_value(answer[key].clone()).unwrap();
    (list("applied"), list("restart"))
}

/// Makes a change that applies.
#[track_caller]
pub fn apply(bond: &Bond, role: &str, change: (&str, &str), expected: &[&str]) {
    replace(bond, role, change);
    let (applied, restart) = reload(bond, role);
    assert_eq!(applied, expected);
    assert!(restart.is_empty(), "{restart:?}");
}

/// A download that goes on, at some 5 MB/s, until it is told to end.
struct Endless {
    stop: Arc<AtomicBool>,
    came: Arc<AtomicUsize>,
    origin: thread::JoinHandle<usize>,
    client: thread::JoinHandle<std::io::Result<()>>,
}

impl Endless {
    fn start(bond: &Bond) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut at_client = bond.connect(listener.local_addr().unwrap()).unwrap();
        at_client.write_all(b"x").unwrap();
        let (mut at_origin, _) = listener.accept().unwrap();
        let (stop, came) = <(Arc<AtomicBool>, Arc<AtomicUsize>)>::default();
        let stopped = Arc::clone(&stop);
        let origin = thread::spawn(move || {
            let mut at = 0;
            while !stopped.load(Ordering::Relaxed) {
                let bytes: Vec<u8> = (at..at + 50_000).map(byte).collect();
                if at_origin.write_all(&bytes).is_err() {
                    break;
                }
                at += bytes.len();
                thread::sleep(Duration::from_millis(10));
            }
            at_origin.shutdown(Shutdown::Write).unwrap();
            at
        });
        let count = Arc::clone(&came);
        let client = thread::spawn(move || receive(at_client, &count));
        Self {
            stop,
            came,
            origin,
            client,
        }
    }

    /// Waits until more has come than can have been on the way.
    fn goes_on(&self) {
        let before = self.came.load(Ordering::Relaxed);
        until("the download goes on", || {
            assert!(!self.client.is_finished(), "it is over");
            self.came.load(Ordering::Relaxed) > before + 2_000_000
        });
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.origin.join().unwrap();
        self.client.join().unwrap().unwrap();
        assert_eq!(self.came.load(Ordering::Relaxed), sent);
    }
}

fn receive(mut s: TcpStream, came: &AtomicUsize) -> std::io::Result<()> {
    s.set_read_timeout(Some(WITHIN))?;
    let mut block = vec![0; 1 << 16];
    loop {
        let at = came.load(Ordering::Relaxed);
        match s.read(&mut block)? {
            0 => return Ok(()),
            n => {
                assert!(is_pattern(at, &block[..n]), "wrong bytes after {at}");
                came.fetch_add(n, Ordering::Relaxed);
            }
        }
    }
}

/// Names of the primary's links, in the order of its status.
fn links(bond: &Bond) -> Vec<String> {
    let status = bond.status("primary").unwrap();
    status.links.into_iter().map(|l| l.name).collect()
}

const OWN: &str = "[[path]]\nname = \"own\"\n";
const SECOND: &str = "[[path]]\nname = \"second\"\ninterface = \"lo\"\n";

#[test]
fn a_download_does_not_notice_that_paths_and_helpers_come_and_go() {
    let bond = Bond::new(Ways::Both, "on_proxy_loss = \"fail\"", "");
    let config = read(&bond, "primary");
    let (head, rest) = config.split_once("[[helper]]").unwrap();
    let (helper, tail) = rest.split_once("[socks5]").unwrap();
    let (helper, tail) = (format!("[[helper]]{helper}"), format!("[socks5]{tail}"));
    write(&bond, "primary", &format!("{head}{tail}"));
    let _proxy = bond.start("proxy");
    let _helper = bond.start("helper");
    let primary = bond.start("primary");
    bond.joined(1);
    let running = Endless::start(&bond);
    let own = ("[socks5]", &*format!("{helper}[socks5]"));
    apply(&bond, "primary", own, &["[[helper]] \"helper\" added"]);
    bond.joined(2);
    assert_eq!(links(&bond), ["own", "helper"]);
    running.goes_on();
    apply(&bond, "primary", (OWN, ""), &["[[path]] \"own\" removed"]);
    bond.joined(1);
    assert_eq!(links(&bond), ["helper"]);
    running.goes_on();
    let second = (&*helper, &*format!("{SECOND}{helper}"));
    apply(&bond, "primary", second, &["[[path]] \"second\" added"]);
    bond.joined(2);
    assert_eq!(links(&bond), ["second", "helper"], "own paths come first");
    running.goes_on();
    let unpair = |device| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpbond"));
        let file = bond.file("primary.toml");
        command.args(["unpair", device, "--config", text(&file)]);
        Outcome::from(command.output().unwrap())
    };
    let unknown = unpair("tablet");
    assert_eq!(unknown.code, 2);
    assert!(
        unknown
            .stderr
            .contains("no [[helper]] has the name \"tablet\"")
    );
    let outcome = unpair("helper");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("mpbond reload primary"),
        "{}",
        outcome.stdout
    );
    let removed = vec!["[[helper]] \"helper\" removed".to_owned()];
    assert_eq!(reload(&bond, "primary"), (removed, Vec::new()));
    bond.joined(1);
    assert_eq!(links(&bond), ["second"]);
    until("the helper has no relay", || {
        bond.status("helper").unwrap().relays.is_empty()
    });
    running.goes_on();
    // The only path is bound otherwise, and is away for a moment.
    let moved = ("interface = \"lo\"", "source = \"127.0.0.1\"");
    apply(&bond, "primary", moved, &["[[path]] \"second\" changed"]);
    bond.joined(1);
    running.goes_on();
    running.end();
    let log = primary.log();
    assert!(!log.contains("opening a new session"), "{log}");
}

#[test]
fn a_wrong_configuration_changes_nothing() {
    let origin = origin();
    let bond = Bond::new(Ways::Both, "", "");
    let daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(2);
    let running = Endless::start(&bond);
    for (role, daemon) in ["proxy", "helper", "primary"].into_iter().zip(&daemons) {
        let right = read(&bond, role);
        write(&bond, role, "enabled = false\nnonsense = 1\n");
        let outcome = command(&bond, role, &[]);
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains(": unknown key"),
            "{}",
            outcome.stderr
        );
        daemon.signal(Signal::SIGHUP);
        daemon.logs("configuration not applied, the one in force stays");
        // The daemon itself says so to a client that knows the socket alone.
        let socket = bond.file(&format!("{role}.sock"));
        let answer = mpbond::status_socket::reload(&socket).unwrap();
        let wrong = format!("{answer:?}");
        assert!(wrong.starts_with("Wrong("), "{wrong}");
        write(&bond, role, &right);
        assert_eq!(reload(&bond, role), (vec![], vec![]));
    }
    bond.joined(2);
    assert!(bond.works(origin));
    running.goes_on();
    running.end();
}

#[test]
fn sighup_has_every_daemon_read_its_configuration_and_ends_none() {
    let origin = origin();
    let bond = Bond::new(Ways::Helper, "", "memory = \"64 MiB\"");
    // Without a terminal, as a service.
    let start = |role| bond.start_by(role, "exec \"$0\" \"$@\" </dev/null");
    let daemons = ["proxy", "helper", "primary"].map(start);
    bond.joined(1);
    let running = Endless::start(&bond);
    replace(&bond, "proxy", ("64 MiB", "65 MiB"));
    for daemon in &daemons {
        daemon.signal(Signal::SIGHUP);
        daemon.logs("configuration read");
    }
    let memory = bond.status("proxy").unwrap().memory.unwrap();
    assert_eq!(memory.most_bytes, 65 << 20);
    running.goes_on();
    running.end();
    assert!(bond.works(origin));
}

/// SIGHUP of a terminal that is closed is the end, as of any program that was started there.
#[test]
fn a_daemon_at_a_terminal_ends_with_it_and_not_by_a_signal() {
    if !has_script() {
        return;
    }
    let bond = Bond::new(Ways::Own, "", "");
    let log = bond.file("terminal.log");
    let line = format!(
        "exec script -qec \"exec $0 $* 2>>{}\" /dev/null </dev/null >/dev/null",
        text(&log)
    );
    let terminal = bond.start_by("proxy", &line);
    let process = Pid::from_raw(bond.status("proxy").unwrap().process as i32);
    let logs = |words: &str| {
        let log = || fs::read_to_string(&log).unwrap();
        until(words, || log().contains(words));
    };
    kill(process, Signal::SIGHUP).unwrap();
    logs("configuration read");
    assert!(bond.status("proxy").is_some());
    terminal.kill();
    logs("reason=\"SIGHUP\"");
}

#[test]
fn a_restart_is_asked_for_where_it_is_needed() {
    let bond = Bond::new(Ways::Own, "scheduler = \"mpbond\"", "");
    let _proxy = bond.start("proxy");
    let _primary = bond.start("primary");
    bond.joined(1);
    replace(&bond, "primary", ("\"mpbond\"", "\"min-rtt\""));
    let listen = format!("[http]\nlisten = \"{}\"\n", bond.http);
    replace(&bond, "primary", (&listen, ""));
    let outcome = command(&bond, "primary", &[]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    for key in ["scheduler", "[http]"] {
        let line = format!("  not applied, needs a restart: {key}\n");
        assert!(outcome.stdout.contains(&line), "{}", outcome.stdout);
    }
    assert!(!outcome.stdout.contains(" applied: "), "{}", outcome.stdout);
    let advice = "start it again to use it: ";
    assert!(outcome.stdout.contains(advice), "{}", outcome.stdout);
    // It goes on being said until it is done, or undone.
    let expected = ["scheduler", "[http]"].map(str::to_owned).to_vec();
    assert_eq!(reload(&bond, "primary"), (vec![], expected.clone()));
    let status = bond.status("primary").unwrap();
    assert_eq!(status.needs_restart, expected);
    let note = "the configuration has changes that need a restart: scheduler, [http]";
    assert!(status.notes.iter().any(|n| n == note), "{:?}", status.notes);
    replace(&bond, "primary", ("\"min-rtt\"", "\"mpbond\""));
    write(&bond, "primary", &(read(&bond, "primary") + &listen));
    assert_eq!(reload(&bond, "primary"), (vec![], vec![]));
    let status = bond.status("primary").unwrap();
    assert!(status.needs_restart.is_empty(), "{status:?}");
}

/// The daemon is found at the default place of its role, if it has the same configuration.
#[test]
fn a_daemon_whose_status_socket_has_changed_in_its_file_is_found() {
    let bond = Bond::new(Ways::Own, "", "memory = \"64 MiB\"");
    let proxy = bond.start("proxy");
    let copy = read(&bond, "proxy");
    replace(&bond, "proxy", ("proxy.sock", "other.sock"));
    replace(&bond, "proxy", ("64 MiB", "65 MiB"));
    fs::write(
        bond.file("copy.toml"),
        copy.replace("proxy.sock", "copy.sock"),
    )
    .unwrap();
    let reload = |file: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpbond"));
        command.args(["reload", "proxy", "--config", file]);
        command.current_dir(bond.folder.path());
        // As systemd names the folder of status sockets.
        command.env("RUNTIME_DIRECTORY", bond.folder.path());
        Outcome::from(command.env_remove("RUST_LOG").output().unwrap())
    };
    let other = reload("copy.toml");
    assert_eq!(other.code, 1, "{}", other.stdout);
    assert!(other.stderr.contains("SIGHUP"), "{}", other.stderr);
    assert!(!proxy.log().contains("configuration read"));
    let outcome = reload("proxy.toml");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    for line in [
        "  applied: memory\n",
        "  not applied, needs a restart: status_socket\n",
    ] {
        assert!(outcome.stdout.contains(line), "{}", outcome.stdout);
    }
    let memory = bond.status("proxy").unwrap().memory.unwrap();
    assert_eq!(memory.most_bytes, 65 << 20);
}

#[test]
fn a_helper_that_is_switched_off_and_on_ends_its_relays_and_lends_again() {
    let bond = Bond::new(Ways::Both, "", "");
    // Without a name, the host name is read again, too.
    replace(&bond, "helper", ("name = \"helper\"", "enabled = true"));
    let _proxy = bond.start("proxy");
    let _helper = bond.start("helper");
    let _primary = bond.start("primary");
    bond.joined(2);
    let running = Endless::start(&bond);
    apply(
        &bond,
        "helper",
        ("enabled = true", "enabled = false"),
        &["enabled"],
    );
    bond.joined(1);
    until("the primary knows", || {
        let links = bond.status("primary").unwrap().links;
        let error = links.into_iter().find_map(|l| l.error);
        error.is_some_and(|e| e.contains("lending is switched off"))
    });
    running.goes_on();
    apply(
        &bond,
        "helper",
        ("enabled = false", "enabled = true"),
        &["enabled"],
    );
    bond.joined(2);
    // Another proxy is none of this primary's.
    let own = format!("proxies = \"{}\"", bond.proxy);
    let other = "proxies = \"127.0.0.9:9\"";
    apply(&bond, "helper", (&own, other), &["proxies"]);
    bond.joined(1);
    running.goes_on();
    apply(&bond, "helper", (other, &own), &["proxies"]);
    bond.joined(2);
    running.end();
}

#[test]
fn another_budget_of_a_helper_applies_and_what_was_used_stays_used() {
    let bond = Bond::new(Ways::Helper, "", "");
    let budget = "max_bytes_per_month = \"1 GB\"\n";
    write(
        &bond,
        "helper",
        &(budget.to_owned() + &read(&bond, "helper")),
    );
    let _proxy = bond.start("proxy");
    let _helper = bond.start("helper");
    let _primary = bond.start("primary");
    bond.joined(1);
    let running = Endless::start(&bond);
    let account = || bond.status("helper").unwrap().budget.unwrap();
    until("it relays", || account().used_bytes > 1_000_000);
    let key = "max_bytes_per_month";
    apply(&bond, "helper", ("1 GB", "1 MB"), &[key]);
    bond.joined(0);
    let spent = account();
    assert_eq!(spent.max_bytes, Some(1_000_000));
    assert!(spent.used_bytes > 1_000_000, "{spent:?}");
    apply(&bond, "helper", ("1 MB", "2 GB"), &[key]);
    bond.joined(1);
    let more = account();
    assert_eq!(more.max_bytes, Some(2_000_000_000));
    assert!(more.used_bytes >= spent.used_bytes, "{spent:?} {more:?}");
    running.goes_on();
    running.end();
}

#[test]
fn destinations_that_are_denied_are_for_new_connections_only() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "on_proxy_loss = \"fail\"", "");
    let _proxy = bond.start("proxy");
    let _primary = bond.start("primary");
    bond.joined(1);
    let running = Endless::start(&bond);
    assert!(bond.works(origin));
    let allow = "allow = \"127.0.0.0/8\"";
    let key = "[destinations] allow";
    apply(&bond, "proxy", (allow, "allow = \"192.0.2.0/24\""), &[key]);
    assert!(!bond.works(origin));
    running.goes_on();
    apply(&bond, "proxy", ("allow = \"192.0.2.0/24\"", allow), &[key]);
    assert!(bond.works(origin));
    running.goes_on();
    running.end();
}

#[test]
fn another_policy_for_a_lost_proxy_applies_to_new_connections() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "on_proxy_loss = \"fail\"", "");
    // There is no proxy.
    let _primary = bond.start("primary");
    assert!(!bond.works(origin));
    let key = "on_proxy_loss";
    apply(&bond, "primary", ("\"fail\"", "\"direct\""), &[key]);
    until("connections go direct", || bond.works(origin));
    let status = bond.status("primary").unwrap();
    assert_eq!(status.on_proxy_loss.as_deref(), Some("direct"));
    apply(&bond, "primary", ("\"direct\"", "\"fail\""), &[key]);
    assert!(!bond.works(origin));
}

#[test]
fn other_users_cannot_have_a_daemon_read_its_configuration() {
    if !nix::unistd::geteuid().is_root() {
        return Need::Root.is_missing("only root can become another user");
    }
    let bond = Bond::new(Ways::Own, "", "memory = \"64 MiB\"");
    let everybody = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(bond.folder.path(), everybody(0o755)).unwrap();
    let proxy = bond.start("proxy");
    replace(&bond, "proxy", ("64 MiB", "65 MiB"));
    fs::set_permissions(bond.file("proxy.toml"), everybody(0o644)).unwrap();
    let file = bond.file("proxy.toml");
    let mut theirs = Command::new(env!("CARGO_BIN_EXE_mpbond"));
    theirs.args(["reload", "proxy", "--config", text(&file)]);
    let Ok(theirs) = theirs.uid(NOBODY).gid(NOBODY).output() else {
        return Need::Root.is_missing("other users may not run the program where it is");
    };
    let theirs = Outcome::from(theirs);
    assert_eq!(theirs.code, 1, "{}", theirs.stderr);
    let refused = "only root and the user of the daemon may do this";
    assert!(theirs.stderr.contains(refused), "{}", theirs.stderr);
    assert!(
        !proxy.log().contains("configuration read"),
        "{}",
        proxy.log()
    );
    let memory = bond.status("proxy").unwrap().memory.unwrap();
    assert_eq!(memory.most_bytes, 64 << 20);
}
