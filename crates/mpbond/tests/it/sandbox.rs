//! Capabilities, files and system calls that real daemons have dropped, by the kernel's account;
//! and that the daemons still work.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mpbond::status::Status;
use mpbond::status_socket::ask;
use mpbond_net::Identity;
use mpbond_testing::free_address as free;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const LIMIT: Duration = Duration::from_secs(20);

/// A server that sends one word on each connection.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            stream.unwrap().write_all(b"word").unwrap();
        }
    });
    address
}

struct Daemon {
    child: Child,
    socket: PathBuf,
}

impl Daemon {
    fn start(folder: &Path, role: &str, text: &str) -> Self {
        let config = folder.join(format!("{role}.toml"));
        let keys = format!("identity = \"{role}.pem\"\nstatus_socket = \"{role}.sock\"\n");
        std::fs::write(&config, keys + text).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_mpbond"))
            .args([role, "--config"])
            .arg(&config)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let socket = folder.join(format!("{role}.sock"));
        Self { child, socket }
    }

    fn wait(&self, wanted: impl Fn(&Status) -> bool) -> Status {
        let deadline = Instant::now() + LIMIT;
        loop {
            match ask(&self.socket) {
                Ok(status) if wanted(&status) => return status,
                other => assert!(Instant::now() < deadline, "it stays like this: {other:?}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A line of every thread's /proc/PID/task/TID/status.
    fn of_threads(&self, key: &str) -> Vec<String> {
        let tasks = format!("/proc/{}/task", self.child.id());
        let tasks = std::fs::read_dir(tasks).unwrap();
        // A thread may have ended since it was listed.
        let texts =
            tasks.filter_map(|t| std::fs::read_to_string(t.ok()?.path().join("status")).ok());
        texts
            .map(|text| {
                let line = text.lines().find_map(|l| l.strip_prefix(key)).unwrap();
                line.trim_start_matches(':').trim().to_owned()
            })
            .collect()
    }

    /// Stops it as systemd does; what it has logged.
    fn stop(mut self) -> String {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).unwrap();
        let mut log = String::new();
        let mut lines = BufReader::new(self.child.stderr.take().unwrap());
        while lines.read_line(&mut log).unwrap() > 0 {}
        assert!(self.child.wait().unwrap().success(), "{log}");
        assert!(!self.socket.exists(), "the status socket is left: {log}");
        log
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Answer of a server whose *name* the proxy has to look up.
fn fetch(socks5: SocketAddr, port: u16) -> String {
    let mut s = TcpStream::connect(socks5).unwrap();
    s.set_read_timeout(Some(LIMIT)).unwrap();
    let name = b"localhost";
    let head = [5, 1, 0, 5, 1, 0, 3, name.len() as u8];
    s.write_all(&[&head[..], name, &port.to_be_bytes()].concat())
        .unwrap();
    let mut reply = [0; 12];
    s.read_exact(&mut reply).unwrap();
    assert_eq!(reply[3], 0, "{reply:?}");
    let mut word = String::new();
    s.read_to_string(&mut word).unwrap();
    word
}

#[test]
fn daemons_work_and_have_given_up_what_they_do_not_need() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let id = |name: &str| Identity::load_or_create(folder.join(format!("{name}.pem"))).unwrap();
    let (proxy_at, helper_at, socks5) = (free(), free(), free());
    let (proxy_id, helper_id, primary_id) = (id("proxy"), id("helper"), id("primary"));
    let trust = format!("trust = \"{}\"\n", primary_id.id());

    let proxy = Daemon::start(
        folder,
        "proxy",
        &format!(
            "{trust}listen = \"{proxy_at}\"\nworkers = 2\nmetrics = \"{}\"\n[destinations]\nallow = [\"127.0.0.0/8\", \"::1/128\"]\n",
            free()
        ),
    );
    let helper = Daemon::start(
        folder,
        "helper",
        &format!(
            "{trust}listen = \"{helper_at}\"\nproxies = \"{proxy_at}\"\nmax_bytes_per_month = \"1 GB\"\n"
        ),
    );
    let primary = Daemon::start(
        folder,
        "primary",
        &format!(
            "[proxy]\naddress = \"{proxy_at}\"\nid = \"{}\"\n[[helper]]\naddress = \"{helper_at}\"\nid = \"{}\"\n[socks5]\nlisten = \"{socks5}\"\n",
            proxy_id.id(),
            helper_id.id(),
        ),
    );
    primary.wait(|s| s.sessions.iter().any(|s| s.state == "up"));
    assert_eq!(fetch(socks5, origin().port()), "word");

    for (daemon, threads) in [(&primary, 1), (&helper, 1), (&proxy, 3)] {
        let sandbox = daemon.wait(|s| s.sandbox.is_some()).sandbox.unwrap();
        assert!(sandbox.capabilities.is_empty(), "{sandbox:?}");
        let held = daemon.of_threads("CapPrm");
        assert!(held.len() >= threads, "{held:?}");
        assert!(held.iter().all(|c| c == "0000000000000000"), "{held:?}");
        assert!(daemon.of_threads("NoNewPrivs").iter().all(|n| n == "1"));
        if sandbox.calls_refused.is_some() {
            assert!(daemon.of_threads("Seccomp").iter().all(|mode| mode == "2"));
        }
        assert_eq!(sandbox.problems.is_empty(), sandbox.landlock_abi.is_some());
    }
    let log = primary.stop();
    assert!(log.contains("sandbox: no capabilities"), "{log}");
    let log = helper.stop();
    assert!(!log.contains("cannot be kept over a restart"), "{log}");
    let budget = std::fs::read_to_string(folder.join("helper.budget")).unwrap();
    assert!(budget.contains("used_bytes"), "{budget}");
    proxy.stop();
}

#[test]
fn it_can_be_switched_off() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("sandbox = false\nlisten = \"{}\"\n", free());
    let proxy = Daemon::start(folder.path(), "proxy", &text);
    let status = proxy.wait(|_| true);
    assert_eq!(status.sandbox, None);
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find_map(|l| l.strip_prefix("CapEff:")).unwrap();
    let threads = proxy.of_threads("CapEff");
    assert!(threads.iter().all(|c| c == own.trim()), "{threads:?}");
}
