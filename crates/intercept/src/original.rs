//! Original destinations of transparently intercepted connections.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

/// Backlog: the kernel's default of `net.core.somaxconn`.
pub(crate) const BACKLOG: i32 = 4096;

/// Original destination of a connection redirected by nftables `redirect`.
///
/// # Errors
/// When the connection was not redirected but made to the listener itself: forwarding would connect
/// the listener to itself.
pub fn redirected(stream: &TcpStream) -> io::Result<SocketAddr> {
    let local = stream.local_addr()?;
    let socket = SockRef::from(stream);
    let original = match local {
        SocketAddr::V4(_) => socket.original_dst_v4(),
        SocketAddr::V6(_) => socket.original_dst_v6(),
    }?;
    let original = original
        .as_socket()
        .ok_or_else(|| io::Error::other("the original destination is not an IP address"))?;
    not_to_itself(original, local)?;
    Ok(original)
}

/// Original destination of a connection redirected by TPROXY: the socket's local address.
///
/// # Errors
/// When the connection was made to the listener itself.
pub fn tproxied(stream: &TcpStream, listener: SocketAddr) -> io::Result<SocketAddr> {
    let local = stream.local_addr()?;
    not_to_itself(local, listener)?;
    Ok(local)
}

/// Compares address and port only: IPv6 socket addresses also carry flow label and scope.
fn not_to_itself(original: SocketAddr, own: SocketAddr) -> io::Result<()> {
    let same_ip = own.ip() == original.ip() || own.ip().is_unspecified();
    if same_ip && own.port() == original.port() {
        return Err(io::Error::other("not an intercepted connection"));
    }
    Ok(())
}

/// A listener that receives connections to any address through TPROXY.
///
/// # Errors
/// When the address cannot be bound, or CAP_NET_ADMIN for `IP_TRANSPARENT` is missing.
pub fn transparent_listener(addr: SocketAddr) -> io::Result<TcpListener> {
    listener(addr, true)
}

/// A listener for redirected connections; on IPv6 it accepts IPv6 only, so that IPv4 clients never
/// appear as IPv4-mapped.
///
/// # Errors
/// When the address cannot be bound.
pub fn plain_listener(addr: SocketAddr) -> io::Result<TcpListener> {
    listener(addr, false)
}

fn listener(addr: SocketAddr, transparent: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if transparent {
        match addr {
            SocketAddr::V4(_) => socket.set_ip_transparent_v4(true)?,
            SocketAddr::V6(_) => socket.set_ip_transparent_v6(true)?,
        }
    }
    let probe;
    let mut addr = addr;
    if addr.port() == 0 {
        // A port that the kernel chooses at bind(2) is lost when the socket stops listening
        // (`Reception::Refuse`): it has to be asked for.
        probe = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
        probe.set_reuse_address(true)?;
        probe.bind(&addr.into())?;
        let chosen = probe.local_addr()?.as_socket();
        addr.set_port(chosen.map_or(0, |chosen| chosen.port()));
    }
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}
