//! TCP sockets of probes.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::ProbeError;
use crate::options::Options;
use crate::place::bind_with_port;

/// A socket for one connection, bound as the options say.
pub(crate) fn socket(options: &Options) -> Result<Socket, ProbeError> {
    let failed = ProbeError::io("a TCP socket");
    let domain = Domain::for_address(options.target);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP)).map_err(&failed)?;
    // `connect` observes it as well.
    socket
        .set_write_timeout(Some(options.timeout))
        .map_err(&failed)?;
    socket.set_tcp_nodelay(true).map_err(&failed)?;
    bind_with_port(&socket, options)?;
    Ok(socket)
}

/// Own address, if the kernel still knows it.
pub(crate) fn local_address(socket: &Socket) -> Option<SocketAddr> {
    socket.local_addr().ok()?.as_socket()
}

/// Whether connecting failed for lack of an answer: the probe is lost.
pub(crate) fn timed_out(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    ) || matches!(
        e.raw_os_error(),
        Some(libc::EINPROGRESS | libc::EHOSTUNREACH | libc::ENETUNREACH)
    )
}
