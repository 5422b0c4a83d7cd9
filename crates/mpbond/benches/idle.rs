//! What it costs to be there: memory of an idle proxy and of idle sessions with two subflows each,
//! and wake-ups of idle daemons.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
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

fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "MISSED" }
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
    let child = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .args(["proxy", "--config"])
        .arg(file("proxy.toml"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let proxy = Daemon(child);
    let deadline = Instant::now() + Duration::from_secs(10);
    while mpbond::status_socket::ask(&file("proxy.sock")).is_err() {
        assert!(Instant::now() < deadline, "the proxy did not start");
        thread::sleep(Duration::from_millis(20));
    }
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
        "idle session, two subflows: {each:.1} KB   target 48 KB   {}",
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
}
