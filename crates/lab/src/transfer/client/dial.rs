//! Connections to the origin over each [`Way`].

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use mpbond_sim::world::StreamClass;
use socket2::{Domain, Protocol, Socket, Type};

use super::deadline::left;
use super::http::Connection;
use super::way::Way;
use crate::error::{Doing, Result};
use crate::network::host::Host;

/// Source, destination and way of connections.
#[derive(Clone)]
pub(crate) struct Dial {
    /// Host that connects.
    pub host: Host,
    /// Way to the destination.
    pub way: Way,
    /// Address of the server.
    pub destination: SocketAddrV4,
    /// Traffic class, stated by the DSCP. `None`: the DSCP is not set, since the
    /// queues of a kernel may depend on it.
    pub class: Option<StreamClass>,
}

impl Dial {
    /// The same with a class of its own, if one is given and the way has classes.
    pub fn of_class(&self, class: Option<StreamClass>) -> Self {
        Self {
            class: self.class.map(|own| class.unwrap_or(own)),
            ..self.clone()
        }
    }

    /// Connects within `limit`, on a thread inside the host, and returns the connection and its
    /// start.
    ///
    /// # Errors
    /// When a step of the way fails; the error names it.
    pub fn connect(&self, limit: Duration) -> Result<(Connection, Instant)> {
        self.host.enter(|| {
            let start = Instant::now();
            Ok((self.connect_here(start + limit)?, start))
        })?
    }

    /// The same on the calling thread, which is inside the host.
    ///
    /// # Errors
    /// As [`Dial::connect`].
    pub fn connect_here(&self, deadline: Instant) -> Result<Connection> {
        let to = self.destination;
        let class = self.class;
        let connected = match &self.way {
            Way::Plain(interface) => plain(to, interface.as_deref(), class, deadline),
            Way::Forwarded(address) => plain(*address, None, class, deadline),
            Way::Mptcp { source, congestion } => mptcp(to, *source, congestion, deadline),
            Way::Socks5(server) => socks5(to, server, class, deadline),
            Way::Http(server) => return self.through_http(server, deadline),
        };
        let stream = connected.doing(format_args!(
            "{}: cannot connect to {to} ({})",
            self.host.name(),
            self.way
        ))?;
        Connection::new(stream, to)
    }

    fn through_http(&self, server: &str, deadline: Instant) -> Result<Connection> {
        let to = self.destination;
        let connect = |proxy| plain(proxy, None, self.class, deadline);
        let proxy = server_address(server).and_then(connect);
        let proxy = proxy.doing(format_args!("cannot connect to the HTTP proxy {server}"))?;
        let mut connection = Connection::new(proxy, to)?;
        connection.tunnel(deadline)?;
        Ok(connection)
    }
}

/// Address of a SOCKS5 server or HTTP proxy, as written by the lab.
fn server_address(text: &str) -> io::Result<SocketAddrV4> {
    text.parse()
        .map_err(|_| io::Error::other(format!("\"{text}\" is not an address with a port")))
}

fn finish(socket: Socket, to: SocketAddrV4, deadline: Instant) -> io::Result<TcpStream> {
    socket.connect_timeout(&SocketAddr::V4(to).into(), left(deadline)?)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Code point that mpbond reads as this class (docs/traffic-classes.md).
fn dscp(class: StreamClass) -> u8 {
    match class {
        // EF, AF21, default, CS1.
        StreamClass::Realtime => 46,
        StreamClass::Interactive => 18,
        StreamClass::Bulk => 0,
        StreamClass::Background => 8,
    }
}

fn plain(
    to: SocketAddrV4,
    interface: Option<&str>,
    class: Option<StreamClass>,
    deadline: Instant,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    if let Some(class) = class {
        // The upper six bits of the octet (RFC 2474, section 3).
        socket.set_tos_v4(u32::from(dscp(class)) << 2)?;
    }
    if let Some(interface) = interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    finish(socket, to, deadline)
}

/// Multipath TCP (RFC 8684) by the kernel. The first subflow leaves from `source`, whose route
/// selects the path; binding to an interface would bind the other subflows, too.
fn mptcp(
    to: SocketAddrV4,
    source: Ipv4Addr,
    congestion: &str,
    deadline: Instant,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP))?;
    socket.bind(&SocketAddr::V4(SocketAddrV4::new(source, 0)).into())?;
    // With routes alone, joined subflows had the system's default instead (Linux 6.18); the setting
    // of the connection applies to all of them.
    socket.set_tcp_congestion(congestion.as_bytes())?;
    finish(socket, to, deadline)
}

/// SOCKS5 (RFC 1928), without authentication.
fn socks5(
    to: SocketAddrV4,
    server: &str,
    class: Option<StreamClass>,
    deadline: Instant,
) -> io::Result<TcpStream> {
    const VERSION: u8 = 5;
    const NO_AUTHENTICATION: u8 = 0;
    const CONNECT: u8 = 1;
    const IPV4: u8 = 1;
    let mut stream = plain(server_address(server)?, None, class, deadline)?;
    stream.set_read_timeout(Some(left(deadline)?))?;
    stream.write_all(&[VERSION, 1, NO_AUTHENTICATION])?;
    let mut method = [0; 2];
    stream.read_exact(&mut method)?;
    if method != [VERSION, NO_AUTHENTICATION] {
        let wants = format!("{server} answered SOCKS5 with {method:?}");
        return Err(io::Error::other(wants));
    }
    let mut request = vec![VERSION, CONNECT, 0, IPV4];
    request.extend(to.ip().octets());
    request.extend(to.port().to_be_bytes());
    stream.write_all(&request)?;
    let mut reply = [0; 4];
    stream.read_exact(&mut reply)?;
    let [version, code, _, kind] = reply;
    if (version, code) != (VERSION, 0) {
        let refusal = format!("{server} refused by SOCKS5 reply {code}");
        return Err(io::Error::other(refusal));
    }
    let length = match kind {
        IPV4 => 4,
        4 => 16,
        3 => {
            let mut length = [0];
            stream.read_exact(&mut length)?;
            usize::from(length[0])
        }
        kind => {
            let odd = format!("{server}: unknown address type {kind} in its SOCKS5 reply");
            return Err(io::Error::other(odd));
        }
    };
    // Bound address and port, which are not used.
    stream.read_exact(&mut vec![0; length + 2])?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Result of `socks5` with a server that answers as given, and the octets that it received.
    fn asked_of(method: [u8; 2], reply: &'static [u8]) -> (io::Result<Vec<u8>>, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut greeting = [0; 3];
            stream.read_exact(&mut greeting).unwrap();
            stream.write_all(&method).unwrap();
            let mut request = [0; 10];
            let read = stream.read_exact(&mut request);
            stream.write_all(reply).unwrap();
            read.map(|()| [&greeting[..], &request].concat())
        });
        let to = "198.51.100.1:80".parse().unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        let rest = socks5(to, &server, None, deadline).and_then(|mut stream| {
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).map(|_| rest)
        });
        (rest, serving.join().unwrap().unwrap_or_default())
    }

    #[test]
    fn a_class_is_stated_by_its_dscp() {
        use StreamClass::{Background, Bulk, Interactive, Realtime};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let SocketAddr::V4(to) = listener.local_addr().unwrap() else {
            panic!("an IPv4 address was expected");
        };
        for (class, tos) in [
            (None, 0),
            (Some(Bulk), 0),
            (Some(Background), 0x20),
            (Some(Interactive), 0x48),
            (Some(Realtime), 0xb8),
        ] {
            let deadline = Instant::now() + Duration::from_secs(5);
            let stream = plain(to, None, class, deadline).unwrap();
            let socket = socket2::SockRef::from(&stream);
            assert_eq!(socket.tos_v4().unwrap(), tos, "{class:?}");
        }
    }

    #[test]
    fn socks5_ends_with_the_reply_whatever_its_address() {
        let request = [5, 1, 0, 5, 1, 0, 1, 198, 51, 100, 1, 0, 80];
        for reply in [
            &b"\x05\0\0\x01abcd\0\x50rest"[..],
            b"\x05\0\0\x04abcdabcdabcdabcd\0\x50rest",
            b"\x05\0\0\x03\x02ab\0\x50rest",
        ] {
            let (rest, asked) = asked_of([5, 0], reply);
            assert_eq!(rest.unwrap(), b"rest", "{reply:?}");
            assert_eq!(asked, request);
        }
        let (refused, _) = asked_of([5, 0], b"\x05\x02\0\x01abcd\0\x50");
        let e = refused.unwrap_err().to_string();
        assert!(e.contains("reply 2"), "{e}");
        let (refused, _) = asked_of([5, 255], b"");
        assert!(refused.is_err());
        let (broken, _) = asked_of([5, 0], b"\x05\0\0\x01ab");
        assert!(broken.is_err());
    }
}
