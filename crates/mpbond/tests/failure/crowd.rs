//! Crowds of strangers that connect and say nothing, in namespaces of the test's own.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};

use crate::daemons::{Bond, Ways, origin};
use mpbond_testing::namespaces::{is_called_for, play, sh};
use mpbond_testing::{is_within, median};

const SOURCES: u8 = 64;
const EACH: usize = 64;

/// Time within which a newcomer joins. In turn, it would wait for eight times ten seconds.
const JOINS_WITHIN: Duration = Duration::from_secs(2);

/// Newcomers whose median counts.
const NEWCOMERS: u8 = 3;

fn stranger(n: u8) -> Ipv4Addr {
    [10, 7, 0, n].into()
}

/// An address from which none has authenticated before; those with the numbers of strangers can be
/// used.
fn newcomer(n: u8) -> Ipv4Addr {
    [10, 8, 0, n].into()
}

/// Connections that the crowd opens again at a time, each half second.
const AGAIN: usize = 1_000;

#[test]
fn a_newcomer_joins_while_64_sources_hold_64_silent_connections_each() {
    play("-Urnm", "crowd::role");
}

/// Connections that are opened again when they are closed.
struct Crowd {
    ends: Arc<AtomicBool>,
    closed: Arc<AtomicUsize>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Crowd {
    fn gather(target: SocketAddr) -> Self {
        let (ends, closed) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (ended, count) = (Arc::clone(&ends), Arc::clone(&closed));
        let thread = thread::spawn(move || {
            let source = |n: usize| stranger((n % usize::from(SOURCES)) as u8 + 1);
            let all = EACH * usize::from(SOURCES);
            let mut crowd: Vec<TcpStream> = (0..all).map(|n| silent(source(n), target)).collect();
            while !ended.load(SeqCst) {
                let mut again = 0;
                for (n, stream) in crowd.iter_mut().enumerate() {
                    let read = stream.read(&mut [0; 1]);
                    let is_open = |e: &std::io::Error| {
                        matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
                    };
                    if again < AGAIN && !read.is_err_and(|e| is_open(&e)) {
                        again += 1;
                        count.fetch_add(1, SeqCst);
                        *stream = silent(source(n), target);
                    }
                }
                thread::sleep(Duration::from_millis(500));
            }
        });
        Self {
            ends,
            closed,
            thread: Some(thread),
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.ends.store(true, SeqCst);
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

/// A connection from this address, which may be on its way still.
fn silent(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // It leaves no state behind: ports are used again.
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    socket.bind(&SocketAddrV4::new(from, 0).into()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let _ = socket.connect(&to.into());
    socket.into()
}

/// Length of the kernel's queue of a listener.
fn queue_of(listener: SocketAddr) -> u32 {
    let line = sh(&format!("ss -Hltn sport = :{}", listener.port()));
    // State, connections in the queue, its length.
    let length = line.split_whitespace().nth(2);
    length.unwrap().parse().unwrap()
}

/// The time that a primary takes to join over its only way, from this address, counted from the
/// start of its process.
fn joins(bond: &Bond, way: &str, from: Ipv4Addr) -> Duration {
    let file = bond.file("primary.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let name = format!("name = \"{way}\"\n");
    let (before, after) = config.split_once(&name).unwrap();
    // An earlier newcomer's.
    let after = match after.strip_prefix("source = ") {
        Some(rest) => rest.split_once('\n').unwrap().1,
        None => after,
    };
    let from = format!("source = \"{from}\"\n");
    std::fs::write(&file, [before, &name, &from, after].concat()).unwrap();
    let start = Instant::now();
    let _primary = bond.start("primary");
    bond.joined(1);
    start.elapsed()
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    sh("ip link set lo up");
    for n in 1..=SOURCES {
        let (of_crowd, newcomer) = (stranger(n), newcomer(n));
        sh(&format!(
            "ip addr add {of_crowd}/32 dev lo; ip addr add {newcomer}/32 dev lo"
        ));
    }
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let origin = origin();
    for (ways, name, way) in [
        (Ways::Own, "proxy", "own"),
        (Ways::Helper, "helper", "helper"),
    ] {
        let bond = Bond::new(ways, "", "");
        let _proxy = bond.start("proxy");
        let _helper = bond.start("helper");
        let target = match ways {
            Ways::Own => bond.proxy,
            _ => bond.helper,
        };
        assert_eq!(queue_of(target), 4_096, "new namespaces have this limit");
        let crowd = Crowd::gather(target);
        // Time for all of them to connect: more than the daemon takes.
        thread::sleep(Duration::from_secs(3));
        let mut sources = (1..).map(newcomer);
        let what = format!("a newcomer joins a {name}");
        is_within(&what, JOINS_WITHIN, || {
            let sources = sources.by_ref().take(NEWCOMERS.into());
            median(sources.map(|from| joins(&bond, way, from)).collect())
        });
        let closed = crowd.closed.load(SeqCst);
        println!("{name}: {closed} strangers dropped");
        assert!(closed > 0);
        let _primary = bond.start("primary");
        bond.joined(1);
        assert!(bond.works(origin));
    }
}
