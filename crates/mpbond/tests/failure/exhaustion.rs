//! Descriptors, disks and standard error that are used up.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::budget::own_path_is_backup;
use crate::daemons::{Bond, Daemon, Ways, download, origin, text, until, until_within};
use mpbond_testing::namespaces::unshare;

/// More than a daemon with so few descriptors can serve.
const CLIENTS: usize = 80;
const FEW: &str = "ulimit -n 48; exec \"$0\" \"$@\"";

/// An origin that keeps every connection and sends nothing.
fn silent_origin() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || while stream.read(&mut [0; 1]).is_ok_and(|n| n > 0) {});
        }
    });
    address
}

/// What lasts must not keep a processor busy.
fn does_not_spin(daemon: &Daemon) {
    let before = daemon.processor_time();
    thread::sleep(Duration::from_secs(2));
    let used = daemon.processor_time() - before;
    assert!(used < Duration::from_millis(500), "{used:?} in two seconds");
}

#[test]
fn a_proxy_without_descriptors_refuses_streams_says_so_and_recovers() {
    let (silent, origin) = (silent_origin(), origin());
    let bond = Bond::new(Ways::Own, "", "");
    let proxy = bond.start_by("proxy", FEW);
    let _primary = bond.start("primary");
    bond.joined(1);
    // Those that are told yes at once, since others have reached the destination, are reset.
    let clients: Vec<TcpStream> = (0..CLIENTS)
        .filter_map(|_| bond.connect(silent).ok())
        .collect();
    let refused = CLIENTS - clients.len();
    proxy.logs("no descriptors left: streams are refused");
    let reset = |s: &TcpStream| {
        s.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let read = { s }.read(&mut [0; 1]);
        read.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset)
    };
    let mut resets = refused;
    until("those that are too many are refused or reset", || {
        resets += clients.iter().filter(|s| reset(s)).count();
        resets >= CLIENTS - 48
    });
    assert!(resets < CLIENTS, "the others are served");
    does_not_spin(&proxy);
    drop(clients);
    until("it recovers", || bond.works(origin));
}

#[test]
fn a_proxy_without_descriptors_for_connections_says_so_and_recovers() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "", "");
    let proxy = bond.start_by("proxy", FEW);
    // Unauthenticated connections that send nothing; one source may have 64.
    let strangers: Vec<TcpStream> = (0..60)
        .map(|_| TcpStream::connect(bond.proxy).unwrap())
        .collect();
    proxy.logs("cannot accept connections");
    does_not_spin(&proxy);
    drop(strangers);
    let _primary = bond.start("primary");
    bond.joined(1);
    until("it recovers", || bond.works(origin));
}

#[test]
fn a_primary_without_descriptors_lets_clients_wait_says_so_and_recovers() {
    let (silent, origin) = (silent_origin(), origin());
    let bond = Bond::new(Ways::Own, "", "");
    let _proxy = bond.start("proxy");
    let primary = bond.start_by("primary", FEW);
    bond.joined(1);
    // A descriptor each, of those that are left; the rest stay in the kernel's queue.
    let clients: Vec<TcpStream> = (0..CLIENTS)
        .map(|n| match n < 20 {
            true => bond.connect(silent).unwrap(),
            false => TcpStream::connect(bond.socks5).unwrap(),
        })
        .collect();
    primary.logs("cannot accept a connection");
    does_not_spin(&primary);
    drop(clients);
    until("it recovers", || bond.works(origin));
}

/// Logs go to a disk that is full: they are lost, and nothing else is.
#[test]
fn logs_that_cannot_be_written_stop_nothing() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "", "");
    let line = "exec \"$0\" \"$@\" 2>/dev/full";
    let mut proxy = bond.start_by("proxy", line);
    let mut primary = bond.start_by("primary", line);
    bond.joined(1);
    assert!(bond.works(origin));
    assert!(primary.stop().success());
    assert!(proxy.stop().success());
}

#[test]
fn answers_that_cannot_be_written_are_failures() {
    let run = |line: &str| {
        let mpbond = env!("CARGO_BIN_EXE_mpbond");
        let output = Command::new("sh")
            .args(["-c", line, mpbond])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), error)
    };
    let (code, error) = run("\"$0\" completions bash >/dev/full");
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("No space left on device"), "{error}");
    // No word can be said, and the code is still the right one.
    let (code, _) = run("\"$0\" trust nonsense 2>/dev/full");
    assert_eq!(code, Some(2));
}

/// Keys, trust and records on a full disk: one line that names the file, and what was there stays.
#[test]
fn files_on_a_full_disk_are_whole_or_as_they_were() {
    let Some(mut command) = unshare("-Urm") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
set -e
mount -t tmpfs -o size=64k none "$1"
cd "$1"
"$0" trust --identity there.pem "$2" --name first
cp there.trusted before
# Full to the last byte.
dd if=/dev/zero of=fill bs=1k 2>/dev/null || true
set +e
for line in "id --create --identity new.pem" "trust --identity there.pem $3" \
    "untrust --identity there.pem $2"; do
    "$0" $line >/dev/null 2>&3
    echo "code $?" >&3
done
cmp before there.trusted >&3 && echo "as it was" >&3
test -e new.pem || echo "no half a key" >&3
rm fill
"$0" id --create --identity new.pem >/dev/null && echo "and then it works" >&3
"#;
    let id = |n: u8| mpbond_net::DeviceId::from_bytes([n; 32]).to_string();
    let log = folder.path().join("log");
    let place = folder.path().join("full");
    std::fs::create_dir(&place).unwrap();
    let output = command
        .args(["sh", "-c", &format!("exec 3>>{}; {script}", text(&log))])
        .arg(env!("CARGO_BIN_EXE_mpbond"))
        .args([text(&place), &id(1), &id(2)])
        .output()
        .unwrap();
    let said = std::fs::read_to_string(&log).unwrap_or_default();
    let rest = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    let full = |line: &str, file: &str| {
        line.starts_with("mpbond: ") && line.contains(file) && line.contains("No space left")
    };
    let [new, one, trust, two, untrust, three, kept, none, works] = lines[..] else {
        panic!("{said}\n{rest}");
    };
    assert!(full(new, "new.pem"), "{said}");
    assert!(full(trust, "there.trusted"), "{said}");
    assert!(full(untrust, "there.trusted"), "{said}");
    let told = format!("nothing has changed: {} stays trusted", id(1));
    assert!(untrust.contains(&told), "{said}");
    assert_eq!([one, two, three], ["code 1", "code 1", "code 1"], "{said}");
    let rest = ["as it was", "no half a key", "and then it works"];
    assert_eq!([kept, none, works], rest, "{said}");
}

/// As on a full disk, no file of an account takes its name: a folder has it. A helper writes its
/// account 30 s after its start.
#[test]
fn an_account_that_cannot_be_written_is_in_the_status_of_helper_and_primary() {
    let origin = origin();
    let bond = Bond::new(Ways::Both, "policy = \"policy.toml\"", "");
    let file = bond.file("helper.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let budget = "max_bytes_per_month = \"1 GB\"\n".to_owned();
    std::fs::write(&file, budget + &config).unwrap();
    let policy = "[policy]\nzone = \"UTC\"\n[[link]]\nname = \"helper\"\n\
                  cap = { bytes = \"10 MB\" }\n";
    std::fs::write(bond.file("policy.toml"), policy).unwrap();
    own_path_is_backup(&bond);
    let daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    until("both links are up", || {
        let links = bond.status("primary").unwrap().links;
        links.len() == 2 && links.iter().all(|link| link.state == "up")
    });
    let files = [("helper", "helper.budget"), ("primary", "primary.usage")];
    for (role, name) in files {
        assert_eq!(bond.status(role).unwrap().account_problem, None, "{role}");
        // Its daemon may write it until then.
        until("a folder is in its place", || {
            let _ = std::fs::remove_file(bond.file(name));
            std::fs::create_dir_all(bond.file(name).join("folder")).is_ok()
        });
    }
    let running = download(&bond, origin, 4_000_000);
    assert_eq!(running.end().unwrap(), 4_000_000);
    for ((role, name), daemon) in files.into_iter().rev().zip(daemons.iter().rev()) {
        let mut said = None;
        until_within(Duration::from_secs(60), "the status says so", || {
            said = bond.status(role).unwrap().account_problem;
            said.is_some()
        });
        let said = said.unwrap_or_default();
        let begins = format!("{name} cannot be written (");
        assert!(said.contains(&begins), "{role}: {said}");
        daemon.logs("the account cannot be kept over a restart");
        // Until it can be written.
        std::fs::remove_dir_all(bond.file(name)).unwrap();
    }
    until("the primary has written its account", || {
        bond.status("primary").unwrap().account_problem.is_none()
    });
    assert!(bond.file("primary.usage").is_file());
}
