//! Packet sizes of a path: echo requests (RFC 792; RFC 4443, section 4) as large as the link
//! allows, answered in the same size. TCP hangs where large packets are dropped without a message.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use mpbond_net::tcp::TcpOptions;
use socket2::{Domain, Protocol, Socket, Type};

use super::finding::Findings;

/// Time for which one answer is waited for, and number of attempts.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
const ATTEMPTS: u16 = 3;

/// Payload of a small packet.
const SMALL_BYTES: usize = 32;

/// Headers of an echo request: IPv4 and ICMP, IPv6 and ICMPv6.
const HEADERS_V4: usize = 20 + 8;
const HEADERS_V6: usize = 40 + 8;

/// Payload of TCP from 4 kB on fills packets of this size, or of the link's if it is smaller.
const LARGE_PACKET: usize = 1500;

/// Warns where small packets are answered and large ones are not. Where no echo is answered, or the
/// kernel does not let this user ask, nothing is known.
pub(super) fn check(findings: &mut Findings, check: &str, options: &TcpOptions, mtu: Option<u32>) {
    let remote = options.remote.ip();
    let packet = mtu.map_or(LARGE_PACKET, |mtu| LARGE_PACKET.min(mtu as usize));
    let headers = if remote.is_ipv4() {
        HEADERS_V4
    } else {
        HEADERS_V6
    };
    let answered = |payload| echo(options, payload);
    if !matches!(answered(SMALL_BYTES), Ok(true)) {
        return;
    }
    match answered(packet.saturating_sub(headers)) {
        Ok(true) => findings.ok(check, format!("packets of {packet} octets pass, both ways")),
        // The kernel has been told of a smaller size, and keeps to it.
        Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => {
            findings.ok(check, "the network says which size of packets passes");
        }
        Ok(false) => findings.warn(
            check,
            format!(
                "packets of {packet} octets are dropped on the way, small ones pass: connections \
                 hang until they use smaller segments"
            ),
            "correct the MTU of the link (`ip link set INTERFACE mtu 1300`, or what passes)",
        ),
        Err(_) => {}
    }
}

/// Whether an echo request with so many octets of payload is answered.
fn echo(options: &TcpOptions, payload: usize) -> io::Result<bool> {
    let remote = options.remote.ip();
    let (domain, protocol, request) = match remote {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, 8),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, 128),
    };
    let mut socket = Socket::new(domain, Type::DGRAM, Some(protocol))?;
    if let Some(mark) = options.tuning.mark {
        socket.set_mark(mark)?;
    }
    if let Some(interface) = &options.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    if let Some(source) = options.source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    socket.connect(&SocketAddr::new(remote, 0).into())?;
    let mut answer = vec![0; 8 + payload + 1];
    for number in 0..ATTEMPTS {
        // The kernel writes identifier and checksum.
        let mut packet = vec![0; 8 + payload];
        packet[0] = request;
        packet[6..8].copy_from_slice(&number.to_be_bytes());
        socket.send(&packet)?;
        let deadline = Instant::now() + ANSWER_WITHIN;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            socket.set_read_timeout(Some(left))?;
            match socket.read(&mut answer) {
                Ok(octets) if octets == packet.len() => return Ok(true),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
    }
    Ok(false)
}
