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

const SOURCES: u8 = 64;
const EACH: usize = 64;

/// The figure is 2 s; machines of tests are slow and shared. In turn, a newcomer would wait for
/// eight times ten seconds.
const JOINS_WITHIN: Duration = Duration::from_secs(60);

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
            let source = |n: usize| Ipv4Addr::new(10, 7, 0, (n % usize::from(SOURCES)) as u8 + 1);
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

/// The time that a primary takes to join, from the start of its process.
fn joins(bond: &Bond, subflows: usize) -> Duration {
    let start = Instant::now();
    let _primary = bond.start("primary");
    bond.joined_within(JOINS_WITHIN, subflows);
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
        sh(&format!("ip addr add 10.7.0.{n}/32 dev lo"));
    }
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let origin = origin();
    for (ways, subflows) in [(Ways::Own, 1), (Ways::Helper, 1)] {
        let bond = Bond::new(ways, "", "");
        let _proxy = bond.start("proxy");
        let _helper = bond.start("helper");
        let (target, name) = match ways {
            Ways::Own => (bond.proxy, "proxy"),
            _ => (bond.helper, "helper"),
        };
        let crowd = Crowd::gather(target);
        // Time for all of them to connect: more than the daemon takes.
        thread::sleep(Duration::from_secs(3));
        let first = joins(&bond, subflows);
        let again = joins(&bond, subflows);
        let closed = crowd.closed.load(SeqCst);
        println!("{name}: joined after {first:?}, then {again:?}; {closed} strangers dropped");
        assert!(
            first < JOINS_WITHIN && again < JOINS_WITHIN,
            "{first:?}, {again:?}"
        );
        let _primary = bond.start("primary");
        bond.joined_within(JOINS_WITHIN, subflows);
        assert!(bond.works(origin));
    }
}
