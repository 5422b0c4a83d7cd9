//! Destinations that are not reached: applications get the reason in their protocol, and status and
//! logs have it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::daemons::{Bond, Daemon, WITHIN, Ways, until};
use crate::log_flood::start;

const NO_NAME: &str = "no.such.name.invalid";

fn bond() -> (Bond, [Daemon; 2]) {
    let bond = Bond::new(Ways::Own, "", "");
    let daemons = [start(&bond, "proxy"), start(&bond, "primary")];
    bond.joined(1);
    (bond, daemons)
}

/// An address where nobody listens, and the socket that keeps others from it.
fn nobody() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket.bind(&any.into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

/// Sends a request to the HTTP front; the whole answer.
fn ask(bond: &Bond, request: &str) -> String {
    let mut s = TcpStream::connect(bond.http).unwrap();
    s.set_read_timeout(Some(WITHIN)).unwrap();
    s.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    s.read_to_string(&mut answer).unwrap();
    answer
}

/// The name's code may be that of a time-out where no resolver answers.
#[test]
fn socks_clients_get_the_code_of_the_reason() {
    let (bond, [proxy, primary]) = bond();
    let (_held, nobody) = nobody();
    assert_eq!(bond.connect(nobody).map(drop), Err(5));
    let documentation: SocketAddr = "192.0.2.1:80".parse().unwrap();
    assert_eq!(bond.connect(documentation).map(drop), Err(2));
    let no_name = bond.connect_to_name(NO_NAME, 80).map(drop);
    assert!(matches!(no_name, Err(4 | 6)), "{no_name:?}");

    proxy.logs("192.0.2.1:80 is a documentation address");
    proxy.logs("`allow = [\"192.0.2.1\"]` in [destinations]");
    primary.logs("destination forbidden by the proxy");
    primary.logs("[destinations] in its configuration changes it");
    for daemon in [&proxy, &primary] {
        let log = daemon.log();
        assert!(!log.contains("DEBUG"), "as users have it: {log}");
        let refusal = log.lines().find(|line| line.contains("192.0.2.1"));
        assert!(refusal.is_some_and(|l| l.contains(" INFO ")), "{log}");
    }
    let reasons = || -> Vec<_> {
        let transfers = bond.status("primary").unwrap().transfers;
        let reasons = transfers.into_iter().filter_map(|t| t.reason);
        reasons.collect()
    };
    until("status has the reasons", || reasons().len() == 3);
    let first = ["connection refused", "destination forbidden by the proxy"];
    assert_eq!(reasons()[..2], first);
}

#[test]
fn http_clients_get_a_status_and_a_sentence() {
    let (bond, _daemons) = bond();
    let (_held, nobody) = nobody();
    for request in [
        format!("CONNECT {nobody} HTTP/1.1\r\nHost: {nobody}\r\n\r\n"),
        format!("GET http://{nobody}/ HTTP/1.1\r\nHost: {nobody}\r\n\r\n"),
    ] {
        let answer = ask(&bond, &request);
        assert!(
            answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"),
            "{answer}"
        );
        assert!(
            answer.ends_with("the destination refused the connection\n"),
            "{answer}"
        );
    }
    let forbidden = ask(
        &bond,
        "GET http://192.0.2.1/ HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n",
    );
    assert!(
        forbidden.starts_with("HTTP/1.1 403 Forbidden\r\n"),
        "{forbidden}"
    );
}

/// The second connection to an origin is confirmed without a round trip (ADR 0017); once a
/// destination has failed, the next one waits again.
#[test]
fn a_destination_reached_lately_is_confirmed_at_once() {
    let (bond, [proxy, _primary]) = bond();
    let origin = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = origin.local_addr().unwrap();
    bond.connect(to).unwrap();
    origin.accept().unwrap();
    drop(origin);
    // The proxy can no longer answer, and yet the client is told yes.
    proxy.signal(nix::sys::signal::Signal::SIGSTOP);
    let mut told = bond.connect(to).unwrap();
    proxy.signal(nix::sys::signal::Signal::SIGCONT);
    told.set_read_timeout(Some(WITHIN)).unwrap();
    let error = told.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    until("it is refused with its reason", || {
        std::thread::sleep(Duration::from_millis(100));
        bond.connect(to).map(drop) == Err(5)
    });
}

/// Bytes that a client sends before it is told yes are not lost.
#[test]
fn bytes_sent_too_early_arrive() {
    let (bond, _daemons) = bond();
    let origin = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = origin.local_addr().unwrap();
    let mut s = TcpStream::connect(bond.http).unwrap();
    s.write_all(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\nearly").as_bytes())
        .unwrap();
    let (mut at_origin, _) = origin.accept().unwrap();
    at_origin.set_read_timeout(Some(WITHIN)).unwrap();
    let mut heard = [0; 5];
    at_origin.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"early");
}

/// What the destination says first may overtake the confirmation.
#[test]
fn a_destination_that_speaks_first_is_heard() {
    let (bond, _daemons) = bond();
    let origin = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = origin.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in origin.incoming() {
            let _ = stream.and_then(|mut s| s.write_all(b"220 ready"));
        }
    });
    for _ in 0..3 {
        let mut s = bond.connect(to).unwrap();
        s.set_read_timeout(Some(WITHIN)).unwrap();
        let mut heard = String::new();
        s.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "220 ready");
    }
}

/// A client that leaves before the proxy has an answer frees its stream.
#[test]
fn a_client_that_leaves_while_it_waits_frees_its_stream() {
    let (bond, [proxy, _primary]) = bond();
    proxy.signal(nix::sys::signal::Signal::SIGSTOP);
    let open = || bond.status("primary").unwrap().sessions[0].streams_open;
    let mut s = TcpStream::connect(bond.socks5).unwrap();
    s.write_all(&[5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 1, 0, 80])
        .unwrap();
    until("it waits", || open() == 1);
    drop(s);
    proxy.signal(nix::sys::signal::Signal::SIGCONT);
    until("its stream is over", || open() == 0);
}
