//! Where a transparently intercepted connection was going.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

/// As many as the kernel's own default for `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// The destination that the client meant before nft's `redirect` changed it.
///
/// # Errors
/// The connection was not redirected: somebody connected to the listener
/// itself, and carrying on would connect it to itself.
pub fn redirected(stream: &TcpStream) -> io::Result<SocketAddr> {
    let local = stream.local_addr()?;
    let socket = SockRef::from(stream);
    let original = match local {
        SocketAddr::V4(_) => socket.original_dst_v4(),
        SocketAddr::V6(_) => socket.original_dst_v6(),
    }?;
    let original = original
        .as_socket()
        .ok_or_else(|| io::Error::other("the original destination is no Internet address"))?;
    not_to_itself(original, local)?;
    Ok(original)
}

/// The destination of a connection that came by TPROXY: the socket's own name.
///
/// # Errors
/// Somebody connected to the listener itself.
pub fn tproxied(stream: &TcpStream, listener: SocketAddr) -> io::Result<SocketAddr> {
    let local = stream.local_addr()?;
    not_to_itself(local, listener)?;
    Ok(local)
}

/// IPv6 addresses carry flow label and scope, which must not matter here.
fn not_to_itself(original: SocketAddr, own: SocketAddr) -> io::Result<()> {
    let same_ip = own.ip() == original.ip() || own.ip().is_unspecified();
    if same_ip && own.port() == original.port() {
        return Err(io::Error::other("not an intercepted connection"));
    }
    Ok(())
}

/// A listener to which TPROXY can hand connections to any address.
///
/// # Errors
/// The address can't be had, or `IP_TRANSPARENT` is not allowed (it takes
/// CAP_NET_ADMIN).
pub fn transparent_listener(addr: SocketAddr) -> io::Result<TcpListener> {
    listener(addr, true)
}

/// A listener for redirected connections; IPv6 ones serve IPv6 only, so that
/// IPv4 clients never appear as IPv4-mapped.
///
/// # Errors
/// The address can't be had.
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
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}
