//! Origins that misbehave, and names that do not resolve: what applications see is what they would
//! have seen without us.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::daemons::{Bond, Daemon, WITHIN, Ways};

fn bond() -> (Bond, [Daemon; 2]) {
    let bond = Bond::new(Ways::Own, "", "");
    let daemons = [bond.start("proxy"), bond.start("primary")];
    bond.joined(1);
    (bond, daemons)
}

/// An origin that does this to every connection.
fn origin(act: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let act = act.clone();
            thread::spawn(move || act(stream));
        }
    });
    address
}

#[test]
fn a_reset_half_way_is_a_reset() {
    let (bond, _daemons) = bond();
    let to = origin(|mut s| {
        s.write_all(&[7; 1000]).unwrap();
        s.read_exact(&mut [0; 1]).unwrap();
        socket2::SockRef::from(&s)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    });
    let mut s = bond.connect(to).unwrap();
    s.read_exact(&mut [0; 1000]).unwrap();
    s.write_all(&[1]).unwrap();
    let error = s.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn an_origin_that_never_answers_is_the_applications_to_give_up() {
    let (bond, _daemons) = bond();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let s = bond.connect(listener.local_addr().unwrap()).unwrap();
    s.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let (mut at_origin, _) = listener.accept().unwrap();
    at_origin.set_read_timeout(Some(WITHIN)).unwrap();
    let error = (&s).read(&mut [0; 1]).unwrap_err();
    assert!(matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut
    ));
    drop(s);
    // The origin's connection is closed when no application waits any more.
    let read = at_origin.read(&mut [0; 1]);
    assert!(
        read.as_ref()
            .map_or_else(|e| e.kind() == ErrorKind::ConnectionReset, |n| *n == 0),
        "{read:?}"
    );
}

#[test]
fn a_half_that_is_closed_leaves_the_other_open() {
    let (bond, _daemons) = bond();
    let to = origin(|mut s| {
        s.write_all(b"all I say").unwrap();
        s.shutdown(Shutdown::Write).unwrap();
        let mut heard = Vec::new();
        s.read_to_end(&mut heard).unwrap();
        assert_eq!(heard.len(), 500_000);
        // The next request is sent only after the whole answer has arrived.
        let to: [u8; 6] = heard[..6].try_into().unwrap();
        let to = SocketAddr::from((
            [to[0], to[1], to[2], to[3]],
            u16::from_be_bytes([to[4], to[5]]),
        ));
        TcpStream::connect(to).unwrap();
    });
    let witness = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let SocketAddr::V4(at) = witness.local_addr().unwrap() else {
        panic!("IPv4 only")
    };
    let mut s = bond.connect(to).unwrap();
    let mut heard = String::new();
    s.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "all I say");
    let mut words = vec![0; 500_000];
    words[..4].copy_from_slice(&at.ip().octets());
    words[4..6].copy_from_slice(&at.port().to_be_bytes());
    s.write_all(&words).unwrap();
    s.shutdown(Shutdown::Write).unwrap();
    witness.accept().unwrap();
}

/// Lengths are between origin and application: what came is what is handed on.
#[test]
fn a_content_length_that_lies_is_the_applications_to_notice() {
    let (bond, _daemons) = bond();
    for (claimed, sent) in [(100, 40), (10, 40)] {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {claimed}\r\n\r\n{}",
            "x".repeat(sent)
        );
        let whole = answer.clone();
        let to = origin(move |mut s| {
            // The head of the request is all there is.
            let mut heard = Vec::new();
            while !heard.ends_with(b"\r\n\r\n") {
                let mut one = [0];
                s.read_exact(&mut one).unwrap();
                heard.push(one[0]);
            }
            s.write_all(answer.as_bytes()).unwrap();
        });
        let mut s = TcpStream::connect(bond.http).unwrap();
        s.set_read_timeout(Some(WITHIN)).unwrap();
        s.write_all(format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes())
            .unwrap();
        let mut got = String::new();
        s.read_to_string(&mut got).unwrap();
        assert_eq!(got, whole, "claimed {claimed}, sent {sent}");
    }
}

/// Without a proxy the primary looks the name up itself, before it answers.
#[test]
fn without_a_proxy_a_name_that_does_not_resolve_is_refused_as_such() {
    let bond = Bond::new(Ways::Own, "on_proxy_loss = \"direct\"", "");
    let _primary = bond.start("primary");
    let refused = bond.connect_to_name("no.such.name.invalid", 80).map(drop);
    // Host unreachable; time-out where the resolver does not answer.
    assert!(matches!(refused, Err(4 | 6)), "{refused:?}");
}
