//! One query to one server: over UDP, and over TCP where the answer is too long for it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, UdpSocket};

use super::message::{Answer, Query};

/// Maximum length of an answer over UDP without EDNS (RFC 1035, section 2.3.4), with some room for
/// servers that exceed it.
const UDP_BYTES: usize = 2048;

/// Sockets of queries.
#[derive(Clone, Debug, Default)]
pub struct Sockets {
    /// Mark of all packets (SO_MARK), where the process may set one.
    pub mark: Option<u32>,
    /// Local address.
    pub source: Option<IpAddr>,
    /// Interface, regardless of routes (SO_BINDTODEVICE).
    pub interface: Option<String>,
}

/// Maximum length of an answer over UDP that is passed on; a longer one is asked for over TCP.
const FORWARDED_BYTES: usize = 4097;

/// Flag of an answer that is too long for UDP, in the third octet (RFC 1035, section 4.1.1).
const TRUNCATED: u8 = 0x02;

/// Sends a query, and waits for its answer without a time limit.
///
/// # Errors
/// Those of the sockets, among them that no server listens there.
pub(super) async fn ask(
    server: SocketAddr,
    sockets: &Sockets,
    query: &Query,
) -> io::Result<Answer> {
    let message = query.encode();
    match over_udp(server, sockets, query, &message).await? {
        Answer::Truncated => over_tcp(server, sockets, query, &message).await,
        answer => Ok(answer),
    }
}

/// Passes a message on; returns the first answer that `is_answer` accepts, without a time limit.
///
/// # Errors
/// As [`ask`].
pub(super) async fn forward(
    server: SocketAddr,
    sockets: &Sockets,
    message: &[u8],
    is_answer: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let socket = connected(server, sockets).await?;
    socket.send(message).await?;
    let mut block = vec![0; FORWARDED_BYTES];
    loop {
        let n = socket.recv(&mut block).await?;
        let answer = block.get(..n).filter(|octets| is_answer(octets));
        let Some(answer) = answer else {
            continue;
        };
        let is_whole = answer.get(2).is_some_and(|flags| flags & TRUNCATED == 0);
        if is_whole && n < FORWARDED_BYTES {
            return Ok(answer.to_vec());
        }
        break;
    }
    let answer = exchange_over_tcp(server, sockets, message).await?;
    match is_answer(&answer) {
        true => Ok(answer),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// A UDP socket for one query.
async fn connected(server: SocketAddr, sockets: &Sockets) -> io::Result<UdpSocket> {
    let socket = open(server, sockets, Type::DGRAM, Protocol::UDP)?;
    let socket = UdpSocket::from_std(socket.into())?;
    socket.connect(server).await?;
    Ok(socket)
}

/// Each query has a socket of its own: its port, which the kernel chooses at random, and its id
/// must be guessed to forge an answer.
async fn over_udp(
    server: SocketAddr,
    sockets: &Sockets,
    query: &Query,
    message: &[u8],
) -> io::Result<Answer> {
    let socket = connected(server, sockets).await?;
    socket.send(message).await?;
    let mut block = [0; UDP_BYTES];
    loop {
        let n = socket.recv(&mut block).await?;
        // Anything else may be forged: the answer is still to come.
        if let Some(answer) = block.get(..n).and_then(|octets| query.parse(octets)) {
            return Ok(answer);
        }
    }
}

async fn over_tcp(
    server: SocketAddr,
    sockets: &Sockets,
    query: &Query,
    message: &[u8],
) -> io::Result<Answer> {
    let answer = exchange_over_tcp(server, sockets, message).await?;
    match query.parse(&answer) {
        Some(Answer::Truncated) | None => Err(io::ErrorKind::InvalidData.into()),
        Some(answer) => Ok(answer),
    }
}

/// RFC 1035, section 4.2.2: messages have their length before them.
async fn exchange_over_tcp(
    server: SocketAddr,
    sockets: &Sockets,
    message: &[u8],
) -> io::Result<Vec<u8>> {
    let socket = open(server, sockets, Type::STREAM, Protocol::TCP)?;
    let mut tcp = TcpSocket::from_std_stream(socket.into())
        .connect(server)
        .await?;
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(message);
    tcp.write_all(&framed).await?;
    let length = tcp.read_u16().await?;
    let mut answer = vec![0; length.into()];
    tcp.read_exact(&mut answer).await?;
    Ok(answer)
}

fn open(server: SocketAddr, sockets: &Sockets, kind: Type, how: Protocol) -> io::Result<Socket> {
    let kind = kind.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(server), kind, Some(how))?;
    if let Some(mark) = sockets.mark {
        // Without the privilege there is no interception to pass either.
        let _ = socket.set_mark(mark);
    }
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut source = any;
    // A server on this host has no other way.
    if !server.ip().is_loopback() {
        if let Some(interface) = &sockets.interface {
            socket.bind_device(Some(interface.as_bytes()))?;
        }
        source = sockets.source.unwrap_or(any);
    }
    socket.bind(&SocketAddr::new(source, 0).into())?;
    Ok(socket)
}
