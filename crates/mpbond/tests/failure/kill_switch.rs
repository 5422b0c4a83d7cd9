//! Applications whose primary is killed or stopped: with a kill switch they do not reach the
//! network past the proxy, in namespaces of the test's own.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::Signal;

use crate::apart::Apart;
use crate::daemons::{Daemon, until};
use mpbond_testing::has_nft;
use mpbond_testing::namespaces::{is_called_for, play, sh};

/// Public addresses of the origin.
const ORIGIN: [&str; 2] = ["11.0.0.1", "2600::1"];
/// Ports of the origin: web, DNS, and a service over UDP.
const WEB: u16 = 80;
const DNS: u16 = 53;
const OTHER: u16 = 4000;

#[test]
fn a_kill_switch_stays_when_its_primary_is_killed() {
    if !has_nft() {
        return;
    }
    play("-Urnm", "kill_switch::role");
}

/// The origin's view: sources of packets that came past the proxy.
#[derive(Clone, Default)]
struct Origin(Arc<Mutex<Vec<String>>>);

impl Origin {
    fn start() -> Self {
        let origin = Self::default();
        for port in [WEB, DNS] {
            let listener = TcpListener::bind(("::", port)).unwrap();
            let seen = origin.clone();
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let stream = stream.unwrap();
                    if let Ok(peer) = stream.peer_addr() {
                        seen.note("TCP", port, peer.ip());
                    }
                    let _ = std::io::Write::write_all(&mut &stream, b"hello");
                }
            });
        }
        for port in [DNS, OTHER] {
            let socket = UdpSocket::bind(("::", port)).unwrap();
            let seen = origin.clone();
            thread::spawn(move || {
                loop {
                    let (_, from) = socket.recv_from(&mut [0; 100]).unwrap();
                    seen.note("UDP", port, from.ip());
                }
            });
        }
        origin
    }

    /// The proxy's connections come from the origin's own addresses: they share a host.
    fn note(&self, kind: &str, port: u16, from: IpAddr) {
        let from = from.to_canonical();
        if !ORIGIN.contains(&from.to_string().as_str()) {
            self.0
                .lock()
                .unwrap()
                .push(format!("{kind} {port} from {from}"));
        }
    }

    fn has_seen_nothing(&self) {
        let seen = self.0.lock().unwrap();
        assert!(seen.is_empty(), "past the proxy: {seen:?}");
    }

    /// Waits for everything that [`Applications::try_all`] sends once, and forgets it.
    fn sees_all(&self) {
        let own = ["10.9.0.2", "fd00:9::2"];
        let ways = [("TCP", WEB), ("UDP", DNS), ("UDP", OTHER)];
        let all = own.map(|ip| ways.map(|(kind, port)| format!("{kind} {port} from {ip}")));
        let mut all = all.concat();
        all.sort();
        until("the origin has seen them", || {
            let mut seen = self.0.lock().unwrap();
            seen.sort();
            *seen == all
        });
        self.0.lock().unwrap().clear();
    }
}

/// Applications in the primary's namespace.
struct Applications(File);

impl Applications {
    fn of(apart: &Apart) -> Self {
        Self(File::open(format!("/proc/{}/ns/net", apart.pid())).unwrap())
    }

    /// Tries to reach the origin in every way; the addresses that answer over TCP.
    fn try_all(&self) -> Vec<&'static str> {
        let there = self.0.try_clone().unwrap();
        let thread = thread::spawn(move || {
            setns(there, CloneFlags::CLONE_NEWNET).unwrap();
            ORIGIN.map(ip).into_iter().for_each(send_udp);
            let mut answered = ORIGIN.to_vec();
            answered.retain(|origin| says_hello((ip(origin), WEB).into()));
            answered
        });
        thread.join().unwrap()
    }

    /// A connection to a service of the origin's host, and its end there.
    fn open(&self) -> (TcpStream, TcpStream) {
        let service = TcpListener::bind((ORIGIN[0], 0)).unwrap();
        let to = service.local_addr().unwrap();
        let there = self.0.try_clone().unwrap();
        let thread = thread::spawn(move || {
            setns(there, CloneFlags::CLONE_NEWNET).unwrap();
            TcpStream::connect(to).unwrap()
        });
        (thread.join().unwrap(), service.accept().unwrap().0)
    }
}

/// Whether an octet passes in time.
fn passes(from: &mut TcpStream, to: &mut TcpStream, within: Duration) -> bool {
    to.set_read_timeout(Some(within)).unwrap();
    std::io::Write::write_all(from, b"a").is_ok() && to.read(&mut [0]).is_ok_and(|n| n == 1)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn says_hello(to: SocketAddr) -> bool {
    let Ok(mut s) = TcpStream::connect_timeout(&to, Duration::from_secs(5)) else {
        return false;
    };
    s.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut word = [0; 5];
    s.read_exact(&mut word).is_ok() && word == *b"hello"
}

fn send_udp(to: IpAddr) {
    let any = match to {
        IpAddr::V4(_) => "0.0.0.0:0",
        IpAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(any).unwrap();
    // Refused by the kill switch.
    let _ = socket.send_to(b"anybody?", (to, DNS));
    let _ = socket.send_to(b"anybody?", (to, OTHER));
}

/// Applications that go on trying, until dropped.
struct Trying {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Trying {
    fn start(applications: &Applications) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (there, over) = (applications.0.try_clone().unwrap(), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            setns(there, CloneFlags::CLONE_NEWNET).unwrap();
            while !over.load(SeqCst) {
                for origin in ORIGIN.map(ip) {
                    for port in [WEB, DNS] {
                        let within = Duration::from_millis(100);
                        let _ = TcpStream::connect_timeout(&(origin, port).into(), within);
                    }
                    send_udp(origin);
                }
                thread::sleep(Duration::from_millis(2));
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Trying {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn configure(apart: &Apart, plain: &str, mode: &str, kill_switch: &str) {
    let more = format!(
        "[transparent]\nmode = \"{mode}\"\nresolvers = \"11.0.0.1\"\nkill_switch = \"{kill_switch}\"\n"
    );
    std::fs::write(apart.bond.file("primary.toml"), plain.to_owned() + &more).unwrap();
}

/// Starts the primary, and waits until applications reach the origin through the proxy, over both
/// families.
fn start(apart: &Apart, applications: &Applications) -> Daemon {
    let primary = apart.start_primary();
    apart.bond.joined(1);
    until("applications reach the origin", || {
        applications.try_all() == ORIGIN
    });
    primary
}

fn kill_switch(apart: &Apart, to: &str) -> String {
    apart.run_there(&format!(
        "{} kill-switch {to}",
        env!("CARGO_BIN_EXE_mpbond")
    ))
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::new();
    sh("ip addr add 11.0.0.1/32 dev lo
        ip addr add 2600::1/128 dev lo
        ip addr add fd00:9::1/64 dev far0 nodad
        ip addr add fd00:8::1/64 dev app0 nodad");
    apart.there(&[
        "addr add fd00:9::2/64 dev near0 nodad",
        "route add default via 10.9.0.1",
        "-6 route add default via fd00:9::1",
    ]);
    let path = apart.bond.file("proxy.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let more = text.replace("\"127.0.0.0/8\"", "[\"11.0.0.0/8\", \"2600::/16\"]");
    assert_ne!(text, more);
    std::fs::write(path, more).unwrap();
    let plain = std::fs::read_to_string(apart.bond.file("primary.toml")).unwrap();
    let origin = Origin::start();
    let applications = Applications::of(&apart);
    let _proxy = apart.bond.start("proxy");

    for mode in ["redirect", "tproxy"] {
        eprintln!("mode {mode}");
        configure(&apart, &plain, mode, "permanent");
        let primary = start(&apart, &applications);
        let status = apart.bond.status("primary").unwrap();
        assert_eq!(status.kill_switch.as_deref(), Some("permanent"));
        assert_eq!(kill_switch(&apart, ""), "on\n");
        let trying = Trying::start(&applications);

        // SIGHUP ends nothing.
        primary.signal(Signal::SIGHUP);
        primary.logs("configuration read");
        assert_eq!(applications.try_all(), ORIGIN);

        // Killed, with nothing running: no way out.
        primary.kill();
        until("interception is gone", || {
            apart.run_there("nft list tables") == "table inet mpbond_kill_switch\n"
        });
        assert!(applications.try_all().is_empty());

        // The next one takes over; told to stop, it leaves the kill switch where it is.
        let mut primary = start(&apart, &applications);
        assert!(primary.stop().success());
        assert!(applications.try_all().is_empty());
        let mut primary = start(&apart, &applications);
        drop(trying);
        origin.has_seen_nothing();
        assert!(primary.stop().success());

        // Removed by its command; what the origin notices then shows that it would have before.
        assert!(kill_switch(&apart, "off").starts_with("off: "));
        assert_eq!(kill_switch(&apart, "off"), "off, as it was before\n");
        assert_eq!(applications.try_all(), ORIGIN);
        origin.sees_all();

        // The other kind ends with an orderly stop, and only with that.
        configure(&apart, &plain, mode, "until-stop");
        start(&apart, &applications).kill();
        assert!(applications.try_all().is_empty());
        let mut primary = start(&apart, &applications);
        origin.has_seen_nothing();
        assert!(primary.stop().success());
        assert_eq!(applications.try_all(), ORIGIN, "{}", primary.log());
        origin.sees_all();
    }

    // Before any primary runs, as at boot: connections that are open are cut off, too. And a
    // configuration without it ends it.
    configure(&apart, &plain, "redirect", "permanent");
    let file = apart.bond.file("primary.toml");
    let on = format!("on --config {}", file.display());
    let (mut near, mut far) = applications.open();
    assert!(passes(&mut near, &mut far, Duration::from_secs(60)));
    assert_eq!(kill_switch(&apart, &on), "on\n");
    assert!(!passes(&mut near, &mut far, Duration::from_secs(1)));
    assert!(applications.try_all().is_empty());
    configure(&apart, &plain, "redirect", "off");
    let primary = start(&apart, &applications);
    primary.logs("the kill switch of an earlier run is off now");
    assert_eq!(kill_switch(&apart, ""), "off\n");
}
