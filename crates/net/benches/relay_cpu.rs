//! CPU time per byte of the helper's relay beside a plain loop of 64 kB reads
//! and writes, over two veth pairs between two fresh network namespaces.
//!
//! `cargo bench -p mpbond-net --bench relay_cpu`, as root or as a user who may create user
//! namespaces. `RELAY_CPU_PAIRS` sets the number of pairs (20), `RELAY_CPU_ONLY` picks the
//! scenarios whose name contains it. Both schemes run alternately, so that other load affects both;
//! the ratio's interval is the 95 % t-interval of the pairs' log ratios.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unsafe_code
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use mpbond_net::relay::{Relay, RelayEnd, RelayOptions};
use mpbond_statistics::Sample;
use rustix::time::{ClockId, clock_gettime};

const STAGE: &str = "RELAY_CPU_STAGE";
const INCOMING: &str = "10.99.0.1:5000";
const OUTGOING: &str = "10.99.1.2:5001";

struct Scenario {
    name: &'static str,
    /// Single packets, as without offloads.
    single_packets: bool,
    mbit_s: Option<u64>,
    mbytes: u64,
    target: f64,
}

const SCENARIOS: [Scenario; 3] = [
    Scenario {
        name: "full speed, offloads on",
        single_packets: false,
        mbit_s: None,
        mbytes: 2000,
        target: 0.6,
    },
    Scenario {
        name: "100 Mbit/s, 1500-byte packets",
        single_packets: true,
        mbit_s: Some(100),
        mbytes: 16,
        target: 1.05,
    },
    Scenario {
        name: "240 Mbit/s, 1500-byte packets",
        single_packets: true,
        mbit_s: Some(240),
        mbytes: 32,
        target: 1.05,
    },
];

fn main() {
    match std::env::var(STAGE).as_deref() {
        Ok("relay") => relay_stage(),
        Ok("far") => far_stage(),
        _ => {
            // `cargo test --benches` requests only a list or a quick check.
            if std::env::args().any(|a| a == "--list" || a == "--test") {
                return;
            }
            let mut unshare = Command::new("unshare");
            if !rustix::process::geteuid().is_root() {
                unshare.args(["--user", "--map-root-user"]);
            }
            let status = unshare
                .arg("--net")
                .arg(std::env::current_exe().unwrap())
                .env(STAGE, "relay")
                .status()
                .expect("unshare(1) from util-linux");
            std::process::exit(status.code().unwrap_or(1));
        }
    }
}

fn ip(args: &str) {
    let status = Command::new("ip").args(args.split(' ')).status().unwrap();
    assert!(status.success(), "ip {args}");
}

/// Sets an end's address, and Cubic as its congestion control: with a host default that paces
/// (BBR), pacing timers dominate the cost of any relay.
fn address(device: &str, network: u8, host: u8) {
    ip(&format!(
        "addr add 10.99.{network}.{host}/24 dev {device} noprefixroute"
    ));
    ip(&format!("link set {device} up"));
    ip(&format!(
        "route add 10.99.{network}.0/24 dev {device} congctl cubic"
    ));
}

/// The process in the namespace with both far ends, controlled through stdin.
fn far_stage() {
    println!("ready");
    let mut lines = std::io::stdin().lines();
    lines.next().unwrap().unwrap();
    for n in 0..2 {
        address(&format!("far{n}"), n, 2);
    }
    let sink = TcpListener::bind(OUTGOING).unwrap();
    println!("ready");
    for line in lines {
        let line = line.unwrap();
        let mut words = line.split(' ').map(|w| w.parse::<u64>().unwrap());
        let (bytes, mbit_s) = (words.next().unwrap(), words.next().unwrap());
        let source = std::thread::spawn(move || {
            let mut tcp = TcpStream::connect(INCOMING).unwrap();
            if mbit_s > 0 {
                pace(&tcp, mbit_s * 1_000_000 / 8);
            }
            let chunk = vec![0x5a; 256 * 1024];
            let mut left = bytes;
            while left > 0 {
                let n = left.min(chunk.len() as u64);
                tcp.write_all(&chunk[..n as usize]).unwrap();
                left -= n;
            }
        });
        let (mut tcp, _) = sink.accept().unwrap();
        let mut buf = vec![0; 256 * 1024];
        let mut got = 0;
        loop {
            match tcp.read(&mut buf).unwrap() {
                0 => break,
                n => got += n as u64,
            }
        }
        assert_eq!(got, bytes);
        source.join().unwrap();
        println!("done");
    }
}

/// Packets leave one by one at this rate, as from a real link.
fn pace(tcp: &TcpStream, bytes_per_s: u64) {
    // SAFETY: the option takes a u64 since Linux 4.20; the pointer is to one.
    let rc = unsafe {
        libc::setsockopt(
            tcp.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const bytes_per_s).cast(),
            size_of::<u64>() as libc::socklen_t,
        )
    };
    assert_eq!(rc, 0);
}

struct Far {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Far {
    fn start() -> Self {
        let mut child = Command::new("unshare")
            .arg("--net")
            .arg(std::env::current_exe().unwrap())
            .env(STAGE, "far")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut far = Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        far.expect("ready");
        for n in 0..2 {
            let pid = far.child.id();
            ip(&format!(
                "link add near{n} type veth peer name far{n} netns {pid}"
            ));
            address(&format!("near{n}"), n, 1);
        }
        far.send("links are there");
        far.expect("ready");
        far
    }

    fn send(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    fn expect(&mut self, expected: &str) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), expected);
    }

    fn set_single_packets(&self, on: bool) {
        let segments = if on { 1 } else { 65535 };
        for n in 0..2 {
            ip(&format!("link set near{n} gso_max_segs {segments}"));
            let status = Command::new("nsenter")
                .arg(format!("--net=/proc/{}/ns/net", self.child.id()))
                .args(["ip", "link", "set"])
                .args([&format!("far{n}"), "gso_max_segs", &segments.to_string()])
                .status()
                .unwrap();
            assert!(status.success());
        }
    }
}

#[derive(Clone, Copy)]
enum Scheme {
    Loop,
    Relay,
}

fn relay_stage() {
    let pairs: usize = std::env::var("RELAY_CPU_PAIRS").map_or(20, |n| n.parse().unwrap());
    let listener = {
        let mut far = Far::start();
        let listener = TcpListener::bind(INCOMING).unwrap();
        let only = std::env::var("RELAY_CPU_ONLY").unwrap_or_default();
        for scenario in SCENARIOS.iter().filter(|s| s.name.contains(&only)) {
            far.set_single_packets(scenario.single_packets);
            run(&mut far, &listener, scenario, pairs);
        }
        let Far {
            mut child, stdin, ..
        } = far;
        drop(stdin);
        child.wait().unwrap();
        listener
    };
    drop(listener);
}

fn run(far: &mut Far, listener: &TcpListener, scenario: &Scenario, pairs: usize) {
    let mut log_ratios = Vec::new();
    let mut sums = [0.0; 2];
    for pair in 0..=pairs {
        // The second scheme finds warmer caches: alternate the order.
        let order = if pair % 2 == 0 {
            [Scheme::Loop, Scheme::Relay]
        } else {
            [Scheme::Relay, Scheme::Loop]
        };
        let mut cpu = [0.0; 2];
        for scheme in order {
            cpu[scheme as usize] = one(far, listener, scenario, scheme);
        }
        if pair == 0 {
            continue; // warms up both
        }
        log_ratios.push((cpu[1] / cpu[0]).ln());
        sums[0] += cpu[0];
        sums[1] += cpu[1];
    }
    let log_ratios = Sample::new(log_ratios);
    let mean = log_ratios.mean().unwrap();
    // One pair has no spread.
    let half = log_ratios.margin_of_error().unwrap_or(f64::INFINITY);
    let per_gb = |s: f64| s / pairs as f64 / (scenario.mbytes as f64 / 1000.0);
    let upper = (mean + half).exp();
    println!(
        "{:32} loop {:.3} s/GB, relay {:.3} s/GB, ratio {:.3} [{:.3}, {:.3}], target {:.2}: {}",
        scenario.name,
        per_gb(sums[0]),
        per_gb(sums[1]),
        mean.exp(),
        (mean - half).exp(),
        upper,
        scenario.target,
        if upper <= scenario.target {
            "reached"
        } else {
            "missed"
        }
    );
}

/// Relays one transfer and returns the CPU seconds of the relaying thread.
fn one(far: &mut Far, listener: &TcpListener, scenario: &Scenario, scheme: Scheme) -> f64 {
    let bytes = scenario.mbytes * 1_000_000;
    far.send(&format!("{bytes} {}", scenario.mbit_s.unwrap_or(0)));
    let (hs, _) = listener.accept().unwrap();
    let pipe = TcpStream::connect(OUTGOING).unwrap();
    pipe.set_nodelay(true).unwrap();
    let name = match scheme {
        Scheme::Loop => "loop",
        Scheme::Relay => "relay",
    };
    let relaying = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            match scheme {
                Scheme::Loop => plain_loop(hs, pipe),
                Scheme::Relay => our_relay(hs, pipe),
            }
            cpu_of_this_thread()
        })
        .unwrap();
    let cpu = relaying.join().unwrap();
    far.expect("done");
    cpu.as_secs_f64()
}

fn plain_loop(mut from: TcpStream, mut to: TcpStream) {
    let mut buf = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buf).unwrap() {
            0 => break,
            n => to.write_all(&buf[..n]).unwrap(),
        }
    }
}

fn our_relay(hs: TcpStream, pipe: TcpStream) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        for socket in [&hs, &pipe] {
            socket.set_nonblocking(true).unwrap();
        }
        let hs = tokio::net::TcpStream::from_std(hs).unwrap();
        let pipe = tokio::net::TcpStream::from_std(pipe).unwrap();
        let relay = Relay::new(pipe, hs, RelayOptions::default()).unwrap();
        // The sink closes both directions once it has all bytes.
        let end = relay.run().await;
        assert!(matches!(end, RelayEnd::Finished), "{end:?}");
    });
}

fn cpu_of_this_thread() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}
