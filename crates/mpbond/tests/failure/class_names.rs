//! Traffic classes that applications ask for with their user name for the proxy.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use mpbond::status::Status;

use crate::daemons::{Bond, WITHIN, Ways, until};
use crate::log_flood::start;

/// A SOCKS5 client with this user name; its connection, or the status of the password exchange.
pub fn socks5(bond: &Bond, user: &str, to: SocketAddr) -> Result<TcpStream, u8> {
    let SocketAddr::V4(to) = to else {
        panic!("IPv4 only")
    };
    let mut tcp = TcpStream::connect(bond.socks5).unwrap();
    tcp.set_read_timeout(Some(WITHIN)).unwrap();
    tcp.write_all(&[5, 2, 0, 2]).unwrap();
    let mut answer = [0; 2];
    tcp.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [5, 2], "it asks for the user name");
    let name = [&[1, user.len() as u8], user.as_bytes(), &[1, b'x']].concat();
    tcp.write_all(&name).unwrap();
    tcp.read_exact(&mut answer).unwrap();
    if answer[1] != 0 {
        return Err(answer[1]);
    }
    let (ip, port) = (to.ip().octets(), to.port().to_be_bytes());
    let request = [&[5, 1, 0, 1], &ip[..], &port].concat();
    tcp.write_all(&request).unwrap();
    let mut reply = [0; 10];
    tcp.read_exact(&mut reply).unwrap();
    assert_eq!(reply[1], 0);
    Ok(tcp)
}

/// An HTTP client with this user name, in Base64; its connection, and the status.
fn http(bond: &Bond, user: &str, to: SocketAddr) -> (TcpStream, String) {
    let mut tcp = TcpStream::connect(bond.http).unwrap();
    tcp.set_read_timeout(Some(WITHIN)).unwrap();
    let field = format!("Proxy-Authorization: Basic {user}");
    let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{field}\r\n\r\n");
    tcp.write_all(request.as_bytes()).unwrap();
    let mut status = [0; 12];
    tcp.read_exact(&mut status).unwrap();
    (tcp, String::from_utf8_lossy(&status).into_owned())
}

/// The class and number of the open streams of the first session.
fn classes(status: &Status) -> Vec<(String, u64)> {
    let session = status.sessions.first();
    let counts = session.into_iter().flat_map(|s| s.streams_by_class.clone());
    counts.collect()
}

#[test]
fn a_user_name_gives_the_class_at_both_ends() {
    let bond = Bond::new(Ways::Own, "", "");
    let (_proxy, primary) = (start(&bond, "proxy"), start(&bond, "primary"));
    bond.joined(1);
    let origin = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = origin.local_addr().unwrap();
    let _plain = socks5(&bond, "me", to).unwrap();
    let _background = socks5(&bond, "me,class=background", to).unwrap();
    // "me,class=realtime:x"
    let (_realtime, status) = http(&bond, "bWUsY2xhc3M9cmVhbHRpbWU6eA==", to);
    assert_eq!(status, "HTTP/1.1 200");
    let expected = ["background", "bulk", "realtime"].map(|class| (class.to_owned(), 1));
    for role in ["primary", "proxy"] {
        until("streams have their classes", || {
            classes(&bond.status(role).unwrap()) == expected
        });
        let transfers = bond.status(role).unwrap().transfers;
        let of = |class: &str| transfers.iter().filter(|t| t.class == class).count();
        assert_eq!(["background", "bulk", "realtime"].map(of), [1; 3], "{role}");
    }

    assert_eq!(socks5(&bond, "me,class=urgent", to).map(drop), Err(1));
    primary.logs("the class is none of realtime, interactive, bulk, background");
    // "me,class=urgent:x"
    let (mut refused, status) = http(&bond, "bWUsY2xhc3M9dXJnZW50Ong=", to);
    assert_eq!(status, "HTTP/1.1 400");
    let mut answer = String::new();
    refused.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("the class is none of"), "{answer}");
    assert_eq!(socks5(&bond, "me,weight=2", to).map(drop), Err(1));
    let log = primary.log();
    assert!(
        !log.contains("only class=CLASS"),
        "one line a minute: {log}"
    );
}
