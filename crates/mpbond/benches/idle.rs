//! What it costs to be there: memory of an idle proxy and of idle sessions with two subflows each,
//! and wake-ups of idle daemons, those of a primary, a helper and a proxy that are joined included.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mpbond::driver::{Clock, Driver, FairQueue, Seat, TransferLog};
use mpbond::memory::Memory;
use mpbond_net::Identity;
use mpbond_net::tls::TlsStream;
use mpbond_session::{Session, SessionConfig, SubflowSetup};

const SESSIONS: usize = 160;
const PER_DEVICE: usize = 16;
const WATCH: Duration = Duration::from_secs(10);

fn free() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Daemon {
    /// Starts a daemon with the configuration in `folder`, and waits until it answers.
    fn start(role: &str, folder: &Path) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_mpbond"))
            .args([role, "--config"])
            .arg(folder.join(format!("{role}.toml")))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let daemon = Self(child);
        let deadline = Instant::now() + Duration::from_secs(10);
        while mpbond::status_socket::ask(&folder.join(format!("{role}.sock"))).is_err() {
            assert!(Instant::now() < deadline, "the {role} did not start");
            thread::sleep(Duration::from_millis(20));
        }
        daemon
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.0.id())).unwrap()
    }

    fn field(&self, file: &str, name: &str) -> u64 {
        let text = self.file(file);
        let line = text.lines().find(|l| l.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    fn resident_kb(&self) -> u64 {
        self.field("status", "VmRSS:")
    }

    /// Voluntary context switches of all threads: each is a wake-up that ended in sleep again.
    fn wakeups(&self) -> u64 {
        fs::read_dir(format!("/proc/{}/task", self.0.id()))
            .unwrap()
            .map(|t| {
                let text = fs::read_to_string(t.unwrap().path().join("status")).unwrap();
                let line = text.lines().find(|l| l.starts_with("voluntary")).unwrap();
                line.split_whitespace()
                    .nth(1)
                    .unwrap()
                    .parse::<u64>()
                    .unwrap()
            })
            .sum()
    }
}

/// Whether a target was missed.
static MISSED: AtomicBool = AtomicBool::new(false);

fn verdict(reached: bool) -> &'static str {
    if reached {
        return "reached";
    }
    MISSED.store(true, Ordering::Relaxed);
    "MISSED"
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let proxy_id = Identity::load_or_create(file("proxy.pem")).unwrap().id();
    let devices: Vec<Identity> = (0..SESSIONS / PER_DEVICE)
        .map(|_| Identity::generate().unwrap())
        .collect();
    let listen = free();
    let mut config = fs::File::create(file("proxy.toml")).unwrap();
    let trust: Vec<String> = devices.iter().map(|d| format!("\"{}\"", d.id())).collect();
    writeln!(
        config,
        "listen = \"{listen}\"\nidentity = \"proxy.pem\"\nstatus_socket = \"proxy.sock\"\ntrust = [{}]",
        trust.join(", ")
    )
    .unwrap();
    let proxy = Daemon::start("proxy", folder.path());
    thread::sleep(Duration::from_millis(500));
    let empty = proxy.resident_kb();
    println!(
        "proxy, idle: {:.1} MB resident   target 20 MB   {}",
        empty as f64 / 1e3,
        verdict(empty < 20_000)
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let local = tokio::task::LocalSet::new();
    let drivers = local.block_on(&runtime, async {
        let mut drivers = Vec::new();
        let turns = FairQueue::start();
        for n in 0..SESSIONS {
            let identity = &devices[n / PER_DEVICE];
            let session = Session::client(SessionConfig::default(), [n as u8; 32]);
            let seat = Seat::take(&turns, &Memory::unbounded()).unwrap();
            let (driver, notices) = Driver::start(
                session,
                proxy_id,
                Clock::start(),
                TransferLog::default(),
                seat,
            );
            for path in ["a", "b"] {
                let tcp = tokio::net::TcpStream::connect(listen).await.unwrap();
                let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
                let tls = TlsStream::connect(tcp, identity, proxy_id, deadline)
                    .await
                    .unwrap();
                let setup = SubflowSetup {
                    name: path.to_owned(),
                    ..SubflowSetup::default()
                };
                driver.add_subflow(tls, setup);
                while !driver.inspect(|session, _, _| session.is_established()) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            drivers.push((driver, notices));
        }
        // Everything that was under way has arrived.
        tokio::time::sleep(Duration::from_secs(2)).await;
        drivers
    });
    let status = mpbond::status_socket::ask(&file("proxy.sock")).unwrap();
    let whole = status
        .sessions
        .iter()
        .filter(|s| s.subflows.len() == 2)
        .count();
    assert_eq!(whole, SESSIONS, "not all sessions are there");
    let each = (proxy.resident_kb() - empty) as f64 / SESSIONS as f64;
    println!(
        "idle session, two subflows: {each:.1} kB   target 48 kB   {}",
        verdict(each < 48.0)
    );
    let before = proxy.wakeups();
    local.block_on(&runtime, async { tokio::time::sleep(WATCH).await });
    let rate = (proxy.wakeups() - before) as f64 / WATCH.as_secs_f64();
    println!(
        "idle proxy with {SESSIONS} sessions: {rate:.2} wake-ups/s   target 1   {}",
        verdict(rate < 1.0)
    );
    drop(drivers);
    drop(proxy);
    joined_with_a_helper();
    if MISSED.load(Ordering::Relaxed) {
        std::process::exit(1);
    }
}

/// Wake-ups of a primary, a helper and a proxy that are joined over both paths and have nothing to
/// do.
fn joined_with_a_helper() {
    let folder = tempfile::tempdir().unwrap();
    let id = |name: &str| {
        let key = folder.path().join(format!("{name}.pem"));
        Identity::load_or_create(key).unwrap().id()
    };
    let (primary_id, helper_id, proxy_id) = (id("primary"), id("helper"), id("proxy"));
    let (proxy, helper, socks5) = (free(), free(), free());
    let files = [
        (
            "proxy",
            format!("listen = \"{proxy}\"\ntrust = [\"{primary_id}\"]\n"),
        ),
        (
            "helper",
            format!(
                "name = \"helper\"\nlisten = \"{helper}\"\nproxies = \"{proxy}\"\n\
                 trust = [\"{primary_id}\"]\n"
            ),
        ),
        (
            "primary",
            format!(
                "[proxy]\naddress = \"{proxy}\"\nid = \"{proxy_id}\"\n[[path]]\nname = \"own\"\n\
                 [[helper]]\nname = \"helper\"\naddress = \"{helper}\"\nid = \"{helper_id}\"\n\
                 [socks5]\nlisten = \"{socks5}\"\n"
            ),
        ),
    ];
    let daemons = files.map(|(role, text)| {
        let keys = format!("identity = \"{role}.pem\"\nstatus_socket = \"{role}.sock\"\n");
        fs::write(folder.path().join(format!("{role}.toml")), keys + &text).unwrap();
        (role, Daemon::start(role, folder.path()))
    });
    let socket = folder.path().join("primary.sock");
    let up = || {
        let status = mpbond::status_socket::ask(&socket).ok()?;
        let subflows = &status.sessions.first()?.subflows;
        Some(subflows.iter().filter(|s| s.state == "up").count())
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while up() != Some(2) {
        assert!(Instant::now() < deadline, "not joined over both paths");
        thread::sleep(Duration::from_millis(20));
    }
    // The last report of the helper has been passed on.
    thread::sleep(Duration::from_secs(2));
    let before = daemons.each_ref().map(|(_, daemon)| daemon.wakeups());
    thread::sleep(WATCH);
    for ((role, daemon), before) in daemons.iter().zip(before) {
        let rate = (daemon.wakeups() - before) as f64 / WATCH.as_secs_f64();
        println!(
            "idle {role}, joined with a helper: {rate:.2} wake-ups/s   target 1   {}",
            verdict(rate < 1.0)
        );
    }
}
