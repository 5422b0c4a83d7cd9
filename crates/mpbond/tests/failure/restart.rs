//! Daemons that die, stop, stand still and come back.

use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::net::{TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::daemons::{Bond, Ways, download, origin, until};

const MB: u32 = 1_000_000;

/// 1.5 s, which the path manager's own tests hold to the millisecond, and as much for a busy
/// machine.
pub const WITHIN_THREE_SECONDS: Duration = Duration::from_secs(3);

#[test]
fn new_connections_go_direct_within_three_seconds_of_a_proxys_death_until_it_is_back() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "on_proxy_loss = \"direct\"", "");
    let proxy = bond.start("proxy");
    let primary = bond.start("primary");
    bond.joined(1);
    let running = download(&bond, origin, 100 * MB);
    proxy.kill();
    // New connections go direct; the log and `mpbond status` report it.
    let asked = Instant::now();
    assert!(bond.works(origin), "{}", primary.log());
    // `--nocapture` shows the figures.
    eprintln!("figure: the first went direct after {:?}", asked.elapsed());
    assert!(asked.elapsed() < WITHIN_THREE_SECONDS, "{}", primary.log());
    let asked = Instant::now();
    assert!(bond.works(origin), "{}", primary.log());
    eprintln!("figure: the second went direct after {:?}", asked.elapsed());
    primary.logs("no path to the proxy works: new connections go direct");
    let status = bond.status("primary").unwrap();
    let note = |n: &String| n.starts_with("no path to the proxy has worked for ");
    assert!(status.notes.iter().any(note), "{status:#?}");
    // Those that are open wait: it could be the network.
    assert!(!running.is_over());
    // The new proxy does not have the session.
    let back = Instant::now();
    let _proxy = bond.start("proxy");
    bond.joined(1);
    eprintln!(
        "figure: joined {:?} after the proxy's start",
        back.elapsed()
    );
    let broken = running.end().unwrap_err();
    assert_eq!(broken.kind(), ErrorKind::ConnectionReset);
    primary.logs("the proxy is reached again");
    assert!(bond.works(origin));
    let to = origin.to_string();
    let over_it = || {
        let status = bond.status("proxy").unwrap();
        status.transfers.iter().any(|t| t.destination == to)
    };
    assert!(over_it(), "it went direct: {}", primary.log());
    let status = bond.status("primary").unwrap();
    assert!(!status.notes.iter().any(note), "{status:#?}");
}

#[test]
fn without_a_proxy_connections_are_refused_where_that_is_wanted() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "on_proxy_loss = \"fail\"", "");
    let primary = bond.start("primary");
    // SOCKS5: network unreachable.
    assert_eq!(bond.connect(origin).map(drop), Err(3));
    primary.logs("no path to the proxy works: new connections are refused");
    let mut s = std::net::TcpStream::connect(bond.http).unwrap();
    s.write_all(format!("CONNECT {origin} HTTP/1.1\r\nHost: {origin}\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    s.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}

#[test]
fn a_proxy_that_is_told_to_stop_resets_what_is_open() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "", "");
    let mut proxy = bond.start("proxy");
    let _primary = bond.start("primary");
    bond.joined(1);
    let running = download(&bond, origin, 100 * MB);
    assert!(proxy.stop().success());
    let broken = running.end().unwrap_err();
    assert_eq!(broken.kind(), ErrorKind::ConnectionReset);
}

/// The primary gets no message while the proxy is down.
#[test]
fn a_proxy_that_comes_back_without_trust_delays_no_application() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "", "");
    let proxy = bond.start("proxy");
    let primary = bond.start("primary");
    bond.joined(1);
    let running = download(&bond, origin, 100 * MB);
    proxy.kill();
    let file = bond.file("proxy.trusted");
    std::fs::write(&file, "").unwrap();
    let _proxy = bond.start("proxy");
    let back = Instant::now();
    let broken = running.end().unwrap_err();
    assert_eq!(broken.kind(), ErrorKind::ConnectionReset);
    // `resume_for` is a minute.
    assert!(back.elapsed() < Duration::from_secs(30));
    primary.logs("the proxy no longer trusts this device");
    primary.logs(
        "the proxy does not trust this device, and ends what it had open: run `mpbond trust ",
    );
    // It goes on trying at the usual intervals, in case the device is trusted later.
    sleep(Duration::from_secs(3));
    let tried = primary.log().matches("subflow connected").count();
    assert!(tried < 12, "{tried} attempts: {}", primary.log());
}

#[test]
fn a_helper_that_is_told_to_stop_says_so_and_nothing_is_lost() {
    let origin = origin();
    let bond = Bond::new(Ways::Both, "", "");
    let _proxy = bond.start("proxy");
    let mut helper = bond.start("helper");
    let primary = bond.start("primary");
    bond.joined(2);
    let running = download(&bond, origin, 10 * MB);
    let told = Instant::now();
    assert!(helper.stop().success());
    eprintln!("figure: the helper left within {:?}", told.elapsed());
    assert!(told.elapsed() < Duration::from_secs(20));
    primary.logs("the helper leaves: the helper stops");
    assert_eq!(running.end().unwrap(), 10 * MB as usize);
    let links = bond.status("primary").unwrap().links;
    let link = links.iter().find(|l| l.name == "helper").unwrap();
    assert_ne!(link.state, "up", "{links:?}");
}

#[test]
fn a_helper_that_dies_is_joined_again_when_it_is_back() {
    let origin = origin();
    let bond = Bond::new(Ways::Both, "", "");
    let _proxy = bond.start("proxy");
    let helper = bond.start("helper");
    let _primary = bond.start("primary");
    bond.joined(2);
    let running = download(&bond, origin, 10 * MB);
    helper.kill();
    assert_eq!(running.end().unwrap(), 10 * MB as usize);
    bond.joined(1);
    let _helper = bond.start("helper");
    bond.joined(2);
}

/// All that leads to the proxy is one helper: while that is away there is no path at all.
#[test]
fn a_session_without_any_path_goes_on_when_one_is_back() {
    let origin = origin();
    let bond = Bond::new(Ways::Helper, "", "");
    let _proxy = bond.start("proxy");
    let helper = bond.start("helper");
    let _primary = bond.start("primary");
    bond.joined(1);
    let running = download(&bond, origin, 20 * MB);
    helper.kill();
    sleep(Duration::from_secs(2));
    assert!(!running.is_over(), "it waits");
    let _helper = bond.start("helper");
    assert_eq!(running.end().unwrap(), 20 * MB as usize);
}

#[test]
fn a_session_without_any_path_for_longer_than_configured_is_over() {
    let origin = origin();
    let short = "resume_for = \"1s\"";
    let bond = Bond::new(Ways::Helper, short, short);
    let proxy = bond.start("proxy");
    let helper = bond.start("helper");
    let primary = bond.start("primary");
    bond.joined(1);
    let running = download(&bond, origin, 100 * MB);
    helper.kill();
    let broken = running.end().unwrap_err();
    assert_eq!(broken.kind(), ErrorKind::ConnectionReset);
    for daemon in [&primary, &proxy] {
        daemon.logs("no path to the other end for too long");
    }
    let _helper = bond.start("helper");
    bond.joined(1);
    assert!(bond.works(origin), "with a new session");
}

#[test]
fn daemons_that_stand_still_go_on_where_they_were() {
    let origin = origin();
    let bond = Bond::new(Ways::Both, "", "");
    let daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(2);
    for daemon in &daemons {
        let running = download(&bond, origin, 10 * MB);
        daemon.signal(Signal::SIGSTOP);
        sleep(Duration::from_secs(3));
        daemon.signal(Signal::SIGCONT);
        assert_eq!(running.end().unwrap(), 10 * MB as usize);
    }
}

/// Its kernel still answers, so no connection breaks: only silence shows the failure.
#[test]
fn while_a_proxy_is_silent_new_connections_go_direct() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "", "");
    let proxy = bond.start("proxy");
    let primary = bond.start("primary");
    bond.joined(1);
    let running = download(&bond, origin, 10 * MB);
    proxy.signal(Signal::SIGSTOP);
    // The first ones find out.
    let asked = Instant::now();
    until("connections go direct", || {
        bond.works_within(Duration::from_secs(3), origin)
    });
    eprintln!(
        "figure: silent, one went direct after {:?}",
        asked.elapsed()
    );
    primary.logs("no path to the proxy works: new connections go direct");
    proxy.signal(Signal::SIGCONT);
    assert_eq!(running.end().unwrap(), 10 * MB as usize);
    primary.logs("the proxy is reached again");
    assert!(bond.works(origin));
}

/// The beginning of a ClientHello, and one that ends in the middle of its second record.
pub const HELLO: &[u8] = &[22, 3, 1, 0, 6, 1, 0, 0, 9, 3, 3, 22, 3, 1, 0, 7, 8, 9];

/// The next connection of a listener that does not block.
pub fn accept(listener: &TcpListener) -> TcpStream {
    let mut accepted = None;
    until("an origin is reached", || {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (stream, _) = accepted.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream
}

/// A client that waits for the reply has said nothing: its connection goes direct, whatever it will
/// say.
#[test]
fn a_client_that_waits_for_a_silent_proxy_is_served_direct() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "", "");
    let proxy = bond.start("proxy");
    let _primary = bond.start("primary");
    bond.joined(1);
    sleep(Duration::from_secs(6));
    proxy.signal(Signal::SIGSTOP);
    let asked = Instant::now();
    assert!(bond.works(origin));
    assert!(
        asked.elapsed() < WITHIN_THREE_SECONDS,
        "{:?}",
        asked.elapsed()
    );
}

/// The system's route may lead over a link whose cap is used up, here by the handshakes.
#[test]
fn a_client_waits_for_a_silent_proxy_while_a_cap_excludes_a_link() {
    let origin = origin();
    let bond = Bond::new(Ways::Both, "policy = \"policy.toml\"", "");
    let policy = "[policy]\nzone = \"UTC\"\n[[link]]\nname = \"helper\"\n\
                  cap = { bytes = \"1 kB\" }\n";
    std::fs::write(bond.file("policy.toml"), policy).unwrap();
    let proxy = bond.start("proxy");
    let _helper = bond.start("helper");
    let primary = bond.start("primary");
    until("a path works", || bond.works(origin));
    primary.logs("the cap of a link is used up: it carries nothing more");
    sleep(Duration::from_secs(6));
    proxy.signal(Signal::SIGSTOP);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| bond.works(origin));
        primary.logs("connection waits for it, since a cap or a floor excludes a link");
        proxy.signal(Signal::SIGCONT);
        assert!(client.join().unwrap());
    });
    assert!(!primary.log().contains("goes direct, over one path"));
}

/// Nothing is under way when the proxy falls silent: only the first new connections can find out.
#[test]
fn new_connections_go_direct_within_three_seconds_of_a_silence_at_rest() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let origin = listener.local_addr().unwrap();
    let bond = Bond::new(Ways::Both, "", "");
    let proxy = bond.start("proxy");
    let _helper = bond.start("helper");
    let primary = bond.start("primary");
    bond.joined(2);
    // The next connections are told yes at once.
    drop(bond.connect(origin).unwrap());
    drop(accept(&listener));
    sleep(Duration::from_secs(6));
    proxy.signal(Signal::SIGSTOP);
    // One that says nothing, one that opens a TLS connection, and one whose bytes nobody may
    // repeat.
    let asked = Instant::now();
    let _quiet = bond.connect(origin).unwrap();
    let mut tls = bond.connect(origin).unwrap();
    tls.write_all(HELLO).unwrap();
    let mut plain = bond.connect(origin).unwrap();
    plain.write_all(b"POST /order HTTP/1.1").unwrap();
    let mut accepted = [accept(&listener), accept(&listener)];
    let took = asked.elapsed();
    eprintln!("figure: silent at rest, the first two went direct after {took:?}");
    assert!(took < WITHIN_THREE_SECONDS, "{took:?}");
    for at_origin in &mut accepted {
        let wait = Some(Duration::from_secs(3));
        at_origin.set_read_timeout(wait).unwrap();
    }
    let mut heard = [0; HELLO.len()];
    let i = (0..2).position(|i| accepted[i].read_exact(&mut heard).is_ok());
    let at_origin = &mut accepted[i.unwrap()];
    assert_eq!(heard, HELLO);
    // Both ways, from there on.
    at_origin.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    tls.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
    tls.write_all(b"more").unwrap();
    at_origin.read_exact(&mut answer[..4]).unwrap();
    assert_eq!(&answer[..4], b"more");
    primary.logs("connection waits for it");
    primary.logs("no path to the proxy works: new connections go direct");
    let asked = Instant::now();
    drop(bond.connect(origin).unwrap());
    // Less than the 1.5 s in which it is found out.
    let known_by_now = Duration::from_millis(1_400);
    assert!(asked.elapsed() < known_by_now, "{:?}", asked.elapsed());
    drop(accept(&listener));
    // The third one has waited, and is heard once.
    proxy.signal(Signal::SIGCONT);
    let mut said = Vec::new();
    until("what was said once is heard", || {
        let mut s = accept(&listener);
        s.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let mut block = [0; 100];
        let n = s.read(&mut block).unwrap_or(0);
        said.push(block[..n].to_vec());
        said.last().unwrap().starts_with(b"POST /order")
    });
    eprintln!(
        "figure: connections after the proxy went on: {}",
        said.len()
    );
}

/// An origin at which the proxy never arrives would hold a stopped daemon's port for ever.
#[test]
fn a_primary_that_is_told_to_stop_resets_what_is_open() {
    let bond = Bond::new(Ways::Own, "", "");
    let _proxy = bond.start("proxy");
    let mut primary = bond.start("primary");
    bond.joined(1);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut at_client = bond.connect(listener.local_addr().unwrap()).unwrap();
    at_client.write_all(b"hello").unwrap();
    let (mut at_origin, _) = listener.accept().unwrap();
    at_origin.read_exact(&mut [0; 5]).unwrap();
    assert!(primary.stop().success());
    let error = at_client.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}
