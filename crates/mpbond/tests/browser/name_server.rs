//! A name server: hosts in `one.test` have the origin's addresses, others do not exist.

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::thread;

/// The origin's addresses, public ones.
pub const V4: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 1);
pub const V6: Ipv6Addr = Ipv6Addr::new(0x2600, 0, 0, 0, 0, 0, 0, 1);

/// Starts it at the origin's IPv4 address.
pub fn start() {
    let socket = UdpSocket::bind((V4, 53)).unwrap();
    thread::spawn(move || {
        loop {
            let mut query = [0; 512];
            let (n, from) = socket.recv_from(&mut query).unwrap();
            let _ = socket.send_to(&answer(&query[..n]), from);
        }
    });
}

/// The answer to a query (RFC 1035, section 4). Hosts whose names begin with `v4` or `v6` have an
/// address of this family alone.
fn answer(query: &[u8]) -> Vec<u8> {
    let mut end = 12;
    let mut name = String::new();
    while query[end] != 0 {
        let next = end + 1 + usize::from(query[end]);
        name.push_str(std::str::from_utf8(&query[end + 1..next]).unwrap());
        name.push('.');
        end = next;
    }
    let name = name.to_ascii_lowercase();
    let question = &query[12..end + 5];
    let exists = name.ends_with("one.test.");
    let address = match query[end + 2] {
        1 if exists && !name.starts_with("v6") => V4.octets().to_vec(),
        28 if exists && !name.starts_with("v4") => V6.octets().to_vec(),
        _ => Vec::new(),
    };
    let code = if exists { 0 } else { 3 };
    let count = u8::from(!address.is_empty());
    let flags = [0x81, 0x80 | code];
    let mut text = [&query[..2], &flags, &[0, 1, 0, count, 0, 0, 0, 0], question].concat();
    if count == 1 {
        // Name, type and class of the question; 60 s.
        let length = address.len() as u8;
        text.extend([0xc0, 12, 0, query[end + 2], 0, 1, 0, 0, 0, 60, 0, length]);
        text.extend(address);
    }
    text
}
