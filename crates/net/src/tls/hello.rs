//! The ClientHello at the beginning of a connection (RFC 8446, section 4.1.2), read by somebody who
//! does not take part in the handshake.

use rustls::server::Acceptor;

/// Maximum size of a ClientHello that is read, with the header of a record: a record. Those of
/// this protocol take 300 octets, those of browsers up to 2,000.
pub const MAX_HELLO_BYTES: usize = 5 + (1 << 14);

/// Reading of the beginning of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peeked<T> {
    /// More octets are needed.
    Incomplete,
    /// An opening with what is looked for, or anything else, without it.
    Whole(Option<T>),
}

impl<T> Peeked<T> {
    /// What is made of what was found.
    pub fn and_then<U>(self, make: impl FnOnce(T) -> Option<U>) -> Peeked<U> {
        match self {
            Self::Incomplete => Peeked::Incomplete,
            Self::Whole(found) => Peeked::Whole(found.and_then(make)),
        }
    }
}

/// Reads the server name (RFC 6066, section 3) in the first octets of a connection, without an
/// effect on it.
pub fn server_name_of_hello(mut octets: &[u8]) -> Peeked<String> {
    let whole = octets.len() >= MAX_HELLO_BYTES;
    let mut acceptor = Acceptor::default();
    // It takes up to 4 KiB at a time, and an error of the handshake is reported by that itself.
    while !octets.is_empty() {
        if acceptor.read_tls(&mut octets).is_err() {
            return Peeked::Whole(None);
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                return Peeked::Whole(hello.server_name().map(str::to_owned));
            }
            Ok(None) => {}
            Err(_) => return Peeked::Whole(None),
        }
    }
    match whole {
        true => Peeked::Whole(None),
        false => Peeked::Incomplete,
    }
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
        let found = Peeked::Whole(Some("www.example.org".to_owned()));
        for octets in [in_records(&hello, 100), hello] {
            for length in 0..octets.len() {
                assert_eq!(
                    server_name_of_hello(&octets[..length]),
                    Peeked::Incomplete,
                    "{length}"
                );
            }
            assert_eq!(server_name_of_hello(&octets), found);
            let more = [&octets[..], &octets].concat();
            assert_eq!(server_name_of_hello(&more), found, "with more behind it");
        }
    }

    #[test]
    fn nothing_else_has_a_name() {
        let none = Peeked::Whole(None);
        assert_eq!(
            server_name_of_hello(&hello("192.0.2.1")),
            none,
            "no name is sent for an address"
        );
        for octets in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[22, 3, 1, 0, 0], &[0; 200]] {
            assert_eq!(server_name_of_hello(octets), none, "{octets:?}");
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
                if let Peeked::Whole(Some(found)) = server_name_of_hello(&broken) {
                    assert!(found.len() <= name.len(), "{found}");
                    same += usize::from(found == name);
                }
            }
        }
        assert!(same > hello.len(), "{same}");
    }
}
