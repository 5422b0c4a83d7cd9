//! Name servers of a test, and the file that names them (resolv.conf(5)).

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use crate::namespaces::sh;

/// Type of a question for IPv4 addresses (A), and for IPv6 addresses (AAAA; RFC 3596).
const TYPES: [u8; 2] = [1, 28];

/// A query with one question (RFC 1035, section 4).
pub struct Query<'a> {
    /// Its header of twelve octets, and the question.
    octets: &'a [u8],
    labels: Vec<&'a str>,
}

impl<'a> Query<'a> {
    /// Reads a query.
    ///
    /// # Panics
    /// When it is malformed.
    pub fn new(query: &'a [u8]) -> Self {
        let mut end = 12;
        let mut labels = Vec::new();
        while query[end] != 0 {
            let next = end + 1 + usize::from(query[end]);
            labels.push(std::str::from_utf8(&query[end + 1..next]).unwrap());
            end = next;
        }
        let octets = &query[..end + 5];
        Self { octets, labels }
    }

    /// The name that is asked for, in lower case, without a dot at its end.
    pub fn name(&self) -> String {
        self.labels.join(".").to_ascii_lowercase()
    }

    /// An answer with those of these addresses that are asked for.
    pub fn answer(&self, addresses: &[IpAddr]) -> Vec<u8> {
        let kind = self.octets[self.octets.len() - 3];
        let octets = addresses.iter().filter_map(|address| match address {
            IpAddr::V4(a) if kind == TYPES[0] => Some(a.octets().to_vec()),
            IpAddr::V6(a) if kind == TYPES[1] => Some(a.octets().to_vec()),
            _ => None,
        });
        let octets: Vec<Vec<u8>> = octets.collect();
        let mut answer = self.header(0, octets.len());
        for address in octets {
            // The name again, by reference; type and class; a minute; the address.
            answer.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0]);
            answer.push(address.len() as u8);
            answer.extend(address);
        }
        answer
    }

    /// The answer that there is no such name (NXDOMAIN).
    pub fn no_such_name(&self) -> Vec<u8> {
        self.header(3, 0)
    }

    fn header(&self, code: u8, answers: usize) -> Vec<u8> {
        let counts = [0, 1, 0, answers as u8, 0, 0, 0, 0];
        let (id, question) = (&self.octets[..2], &self.octets[12..]);
        [id, &[0x81, 0x80 | code], &counts, question].concat()
    }
}

/// Answers queries over UDP at this address, except those for which there is no answer.
///
/// # Panics
/// When the address is not free.
pub fn serve(at: Ipv4Addr, answer: impl Fn(&Query<'_>) -> Option<Vec<u8>> + Send + 'static) {
    let socket = UdpSocket::bind((at, 53)).unwrap();
    thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((n, from)) = socket.recv_from(&mut query) {
            let answer = answer(&Query::new(&query[..n]));
            let _ = answer.map(|answer| socket.send_to(&answer, from));
        }
    });
}

/// The same over TCP.
///
/// # Panics
/// When the address is not free.
pub fn serve_tcp(
    at: Ipv4Addr,
    answer: impl Fn(&Query<'_>) -> Option<Vec<u8>> + Send + Sync + 'static,
) {
    let listener = TcpListener::bind((at, 53)).unwrap();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, answer) = (stream.unwrap(), Arc::clone(&answer));
            // The end of a connection is an error.
            thread::spawn(move || while one_over_tcp(&stream, &*answer).is_ok() {});
        }
    });
}

fn one_over_tcp(
    mut stream: &TcpStream,
    answer: &impl Fn(&Query<'_>) -> Option<Vec<u8>>,
) -> std::io::Result<()> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut query)?;
    let Some(answer) = answer(&Query::new(&query)) else {
        return Ok(());
    };
    let length = (answer.len() as u16).to_be_bytes();
    stream.write_all(&[&length[..], &answer].concat())
}

/// Writes this file and has it in the place of /etc/resolv.conf, for this mount namespace, which is
/// the test's own. Changes of the file hold at once.
pub fn resolv_conf(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
    sh(&format!("mount --bind {} /etc/resolv.conf", file.display()));
}

/// A line of shell that executes `"$0" "$@"` with this file as its own /etc/resolv.conf.
pub fn with_resolv_conf(file: &Path) -> String {
    format!(
        "exec unshare -m sh -ec 'mount --bind {} /etc/resolv.conf; exec \"$0\" \"$@\"' \"$0\" \"$@\"",
        file.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_answered() {
        let question = |kind| {
            let head = b"\x12\x34\x01\x20\0\x01\0\0\0\0\0\0\x03One\x04test\0\0";
            [&head[..], &[kind, 0, 1]].concat()
        };
        let addresses = ["11.0.0.1".parse().unwrap(), "2600::1".parse().unwrap()];
        let octets = question(1);
        let query = Query::new(&octets);
        assert_eq!(query.name(), "one.test");
        let expected = b"\x12\x34\x81\x80\0\x01\0\x01\0\0\0\0\x03One\x04test\0\0\x01\0\x01\
                         \xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0b\0\0\x01";
        assert_eq!(query.answer(&addresses), expected);
        let octets = question(28);
        let answer = Query::new(&octets).answer(&addresses);
        assert_eq!(answer[answer.len() - 18..answer.len() - 16], [0, 16]);
        // MX, of which there is none.
        let octets = question(15);
        assert_eq!(Query::new(&octets).answer(&addresses)[7], 0);
        assert_eq!(Query::new(&octets).no_such_name()[2..4], [0x81, 0x83]);
    }
}
