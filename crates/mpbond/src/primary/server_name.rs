//! Server name in the ClientHello of an intercepted connection (RFC 6066, section 3).
//!
//! The octets are looked at while they wait in the client's socket, and stay there.

use std::io;
use std::time::Duration;

use rustix::net::{RecvFlags, recv};
use rustls::server::Acceptor;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};

/// Interval at which a ClientHello that is not complete is looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Maximum length of a ClientHello, with the headers of its records.
const MAX_OCTETS: usize = 16 << 10;

/// Result of looking at the first octets of a connection.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// A ClientHello that may go on.
    Incomplete,
    /// A ClientHello with its server name, or something else.
    Complete(Option<String>),
}

/// The server name that a client sends first, if its ClientHello arrives within this time.
pub(super) async fn server_name(client: &TcpStream, within: Duration) -> Option<String> {
    let deadline = Instant::now() + within;
    loop {
        timeout_at(deadline, client.readable()).await.ok()?.ok()?;
        match client.try_io(Interest::READABLE, || peek(client)) {
            Ok(Look::Complete(name)) => return name,
            Ok(Look::Incomplete) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        if Instant::now() >= deadline {
            return None;
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Looks at the octets in a socket. Nothing of them is held meanwhile: a silent client costs no
/// memory.
fn peek(client: &TcpStream) -> io::Result<Look> {
    let mut octets = [0; MAX_OCTETS];
    let (length, _) = recv(client, &mut octets, RecvFlags::PEEK)?;
    match look(octets.get(..length).unwrap_or_default()) {
        Look::Incomplete if length == 0 || length == MAX_OCTETS => Ok(Look::Complete(None)),
        looked => Ok(looked),
    }
}

fn look(octets: &[u8]) -> Look {
    let mut acceptor = Acceptor::default();
    let mut rest = octets;
    while !rest.is_empty() {
        match acceptor.read_tls(&mut rest) {
            Ok(1..) => {}
            Ok(0) | Err(_) => return Look::Complete(None),
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let name = accepted.client_hello().server_name().map(str::to_owned);
                return Look::Complete(name);
            }
            Ok(None) => {}
            Err(_) => return Look::Complete(None),
        }
    }
    Look::Incomplete
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    /// The ClientHello of rustls for a name or an address.
    fn hello(name: &str) -> Vec<u8> {
        let config = ClientConfig::builder()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut octets = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut octets).unwrap();
        }
        octets
    }

    /// The same message in records of up to `length` octets (RFC 8446, section 5.1).
    fn in_records(hello: &[u8], length: usize) -> Vec<u8> {
        let (header, message) = hello.split_at(5);
        let records = message.chunks(length).flat_map(|part| {
            let length = u16::try_from(part.len()).unwrap().to_be_bytes();
            [&header[..3], &length, part].concat()
        });
        records.collect()
    }

    #[test]
    fn the_name_is_found_once_the_message_is_complete() {
        let hello = hello("www.example.org");
        let found = Look::Complete(Some("www.example.org".to_owned()));
        for octets in [in_records(&hello, 100), hello] {
            for length in 0..octets.len() {
                assert_eq!(look(&octets[..length]), Look::Incomplete, "{length}");
            }
            assert_eq!(look(&octets), found);
            let more = [&octets[..], &octets].concat();
            assert_eq!(look(&more), found, "with more behind it");
        }
    }

    #[test]
    fn nothing_else_has_a_name() {
        let none = Look::Complete(None);
        assert_eq!(
            look(&hello("192.0.2.1")),
            none,
            "no name is sent for an address"
        );
        for octets in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[22, 3, 1, 0, 0], &[0; 200]] {
            assert_eq!(look(octets), none, "{octets:?}");
        }
    }

    /// The octets of a ClientHello, each replaced by others. Most of them say nothing of the name.
    #[test]
    fn a_message_with_a_wrong_octet_has_mostly_the_same_name() {
        let name = "www.example.org";
        let hello = hello(name);
        let mut same = 0;
        for at in 0..hello.len() {
            for octet in [0, 1, 0x7f, 0x80, 0xff] {
                let mut broken = hello.clone();
                broken[at] = octet;
                if let Look::Complete(Some(found)) = look(&broken) {
                    assert!(found.len() <= name.len(), "{found}");
                    same += usize::from(found == name);
                }
            }
        }
        assert!(same > hello.len(), "{same}");
    }
}
