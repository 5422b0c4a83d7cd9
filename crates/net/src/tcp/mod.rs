//! TCP sockets: opening, tuning, and the kernel's statistics.

mod any;
mod info;
mod sys;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

pub use any::connect_any;
pub use info::{TcpInfo, TcpState};

/// Backlog of a listener: attempts beyond it are dropped and repeated after 1 s, so a burst of
/// strangers would delay others. The kernel's limit (net.core.somaxconn, 4096 by default) applies.
const LISTEN_BACKLOG: i32 = 4096;

/// Parameters of a connection attempt.
#[derive(Debug, Clone)]
pub struct TcpOptions {
    /// Remote address.
    pub remote: SocketAddr,
    /// Local address; `None` lets the kernel choose.
    pub source: Option<IpAddr>,
    /// Interface to bind to regardless of routes (SO_BINDTODEVICE).
    pub interface: Option<String>,
    /// Timeout of the attempt.
    pub connect_timeout: Duration,
    /// Socket options.
    pub tuning: Tuning,
}

impl TcpOptions {
    /// A connection to `remote` with default options and a timeout of 10 s.
    pub fn to(remote: SocketAddr) -> Self {
        Self {
            remote,
            source: None,
            interface: None,
            connect_timeout: Duration::from_secs(10),
            tuning: Tuning::default(),
        }
    }
}

/// Socket options. `None` keeps the kernel's default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuning {
    /// Send small segments at once (TCP_NODELAY). On by default: a record should not wait for an
    /// acknowledgement.
    pub nodelay: bool,
    /// Name of the congestion control algorithm, such as "cubic" or "bbr".
    pub congestion: Option<String>,
    /// The socket is writable only below this many unsent octets (TCP_NOTSENT_LOWAT), so that
    /// scheduling decisions are made late.
    pub notsent_lowat_bytes: Option<u32>,
    /// Maximum time that sent data may remain unacknowledged before the connection fails
    /// (TCP_USER_TIMEOUT).
    pub user_timeout: Option<Duration>,
    /// Idle time after which the kernel sends a keepalive probe; further probes follow at a third
    /// of it, and three unanswered ones end the connection.
    pub keepalive: Option<Duration>,
    /// Mark of all packets (SO_MARK), for the kernel's rules; needs CAP_NET_RAW or CAP_NET_ADMIN.
    pub mark: Option<u32>,
    /// Maximum payload of a segment, of both directions (TCP_MAXSEG). For sockets that are not
    /// connected.
    pub max_segment_bytes: Option<u32>,
    /// Fixed receive buffer (SO_RCVBUF); disables autotuning.
    pub recv_buffer_bytes: Option<usize>,
    /// Fixed send buffer (SO_SNDBUF); disables autotuning.
    pub send_buffer_bytes: Option<usize>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            nodelay: true,
            congestion: None,
            notsent_lowat_bytes: None,
            user_timeout: None,
            keepalive: None,
            mark: None,
            max_segment_bytes: None,
            recv_buffer_bytes: None,
            send_buffer_bytes: None,
        }
    }
}

/// Error of opening or tuning a connection. Its text contains the cause, which `source` therefore
/// does not return.
#[derive(Debug, thiserror::Error)]
pub enum TcpError {
    /// The connection attempt failed.
    #[error("connecting to {remote}: {cause}")]
    Connect {
        /// Remote address.
        remote: SocketAddr,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// The attempt timed out.
    #[error("connecting to {remote}: no answer within {after:?}")]
    TimedOut {
        /// Remote address.
        remote: SocketAddr,
        /// The timeout.
        after: Duration,
    },
    /// There is no address to connect to.
    #[error("no address to connect to")]
    NoAddress,
    /// The source address is not local, or of the wrong family.
    #[error("binding to source address {source_address}: {cause}")]
    Source {
        /// The address requested.
        source_address: IpAddr,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// The interface does not exist, or may not be used.
    #[error("using interface \"{interface}\": {cause}")]
    Interface {
        /// Name of the interface.
        interface: String,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// The congestion control algorithm is not loaded, or not allowed for this process.
    #[error(
        "congestion control \"{name}\" is not available ({cause}); \
         see /proc/sys/net/ipv4/tcp_allowed_congestion_control"
    )]
    Congestion {
        /// Name of the algorithm.
        name: String,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// Another socket option could not be set.
    #[error("setting {option}: {cause}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// The listener could not be opened.
    #[error("listening on {address}: {cause}")]
    Listen {
        /// Address of the listener.
        address: SocketAddr,
        /// Error of the operating system.
        cause: io::Error,
    },
}

fn option(name: &'static str) -> impl FnOnce(io::Error) -> TcpError {
    move |cause| TcpError::Option {
        option: name,
        cause,
    }
}

impl Tuning {
    /// Sets the options on a socket, connected or not. Set buffer sizes before connecting: the
    /// window scale is negotiated in the SYN.
    ///
    /// # Errors
    /// [`TcpError`] names the option.
    pub fn apply(&self, socket: &impl AsFd) -> Result<(), TcpError> {
        let s = SockRef::from(socket);
        s.set_tcp_nodelay(self.nodelay)
            .map_err(option("TCP_NODELAY"))?;
        if let Some(mark) = self.mark {
            s.set_mark(mark).map_err(option("SO_MARK"))?;
        }
        if let Some(bytes) = self.recv_buffer_bytes {
            s.set_recv_buffer_size(bytes).map_err(option("SO_RCVBUF"))?;
        }
        if let Some(bytes) = self.send_buffer_bytes {
            s.set_send_buffer_size(bytes).map_err(option("SO_SNDBUF"))?;
        }
        if let Some(name) = &self.congestion {
            s.set_tcp_congestion(name.as_bytes())
                .map_err(|cause| TcpError::Congestion {
                    name: name.clone(),
                    cause,
                })?;
        }
        if let Some(bytes) = self.notsent_lowat_bytes {
            s.set_tcp_notsent_lowat(bytes)
                .map_err(option("TCP_NOTSENT_LOWAT"))?;
        }
        if let Some(bytes) = self.max_segment_bytes {
            s.set_tcp_mss(bytes).map_err(option("TCP_MAXSEG"))?;
        }
        if let Some(after) = self.user_timeout {
            s.set_tcp_user_timeout(Some(after))
                .map_err(option("TCP_USER_TIMEOUT"))?;
        }
        if let Some(silence) = self.keepalive {
            // The kernel's resolution is one second, its minimum too.
            let second = Duration::from_secs(1);
            let keepalive = TcpKeepalive::new()
                .with_time(silence.max(second))
                .with_interval((silence / 3).max(second))
                .with_retries(3);
            s.set_tcp_keepalive(&keepalive)
                .map_err(option("TCP_KEEPIDLE"))?;
        }
        Ok(())
    }
}

/// Opens a connection.
///
/// # Errors
/// [`TcpError`] for the interface, the source address, an option, or the connection.
pub async fn connect(options: &TcpOptions) -> Result<TcpStream, TcpError> {
    let TcpOptions {
        remote,
        source,
        interface,
        connect_timeout,
        tuning,
    } = options;
    let socket = Socket::new(
        Domain::for_address(*remote),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )
    .map_err(|cause| TcpError::Connect {
        remote: *remote,
        cause,
    })?;
    if let Some(interface) = interface {
        bind_to(&socket, interface)?;
    }
    if let Some(address) = source {
        socket
            .bind(&SocketAddr::new(*address, 0).into())
            .map_err(|cause| TcpError::Source {
                source_address: *address,
                cause,
            })?;
    }
    tuning.apply(&socket)?;
    let socket = TcpSocket::from_std_stream(socket.into());
    match tokio::time::timeout(*connect_timeout, socket.connect(*remote)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(cause)) => Err(TcpError::Connect {
            remote: *remote,
            cause,
        }),
        Err(_) => Err(TcpError::TimedOut {
            remote: *remote,
            after: *connect_timeout,
        }),
    }
}

fn bind_to(socket: &Socket, interface: &str) -> Result<(), TcpError> {
    socket
        .bind_device(Some(interface.as_bytes()))
        .map_err(|cause| TcpError::Interface {
            interface: interface.to_owned(),
            cause,
        })
}

/// Listens on `address`, optionally on one interface only. Accepted connections inherit the options
/// of `tuning`.
///
/// # Errors
/// [`TcpError`] for the interface, an option, or the listener.
pub fn listen(
    address: SocketAddr,
    interface: Option<&str>,
    tuning: &Tuning,
) -> Result<TcpListener, TcpError> {
    let failed = |cause| TcpError::Listen { address, cause };
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )
    .map_err(failed)?;
    // A restarted daemon must not wait for connections in TIME_WAIT.
    socket.set_reuse_address(true).map_err(failed)?;
    if let Some(interface) = interface {
        bind_to(&socket, interface)?;
    }
    tuning.apply(&socket)?;
    socket.bind(&address.into()).map_err(failed)?;
    socket.listen(LISTEN_BACKLOG).map_err(failed)?;
    TcpListener::from_std(socket.into()).map_err(failed)
}

/// Limits the rate at which a socket of a test sends, in bytes a second.
#[cfg(test)]
pub(crate) fn set_max_pacing_rate(socket: &impl AsFd, rate: u32) -> io::Result<()> {
    sys::set_max_pacing_rate(socket.as_fd(), rate)
}

/// Octets written and not yet acknowledged by the peer, sent or not
/// (SIOCOUTQ).
///
/// # Errors
/// Error of ioctl(2).
pub fn send_queue_bytes(socket: &impl AsFd) -> io::Result<u64> {
    sys::send_queue_bytes(socket.as_fd())
}

/// Octets written and not yet sent (SIOCOUTQNSD).
///
/// # Errors
/// Error of ioctl(2).
pub fn unsent_bytes(socket: &impl AsFd) -> io::Result<u64> {
    sys::unsent_bytes(socket.as_fd())
}

/// Octets received and not yet read (SIOCINQ); on a kernel pipe, the octets in
/// it (FIONREAD).
///
/// # Errors
/// Error of ioctl(2).
pub fn receive_queue_bytes(socket: &impl AsFd) -> io::Result<u64> {
    sys::receive_queue_bytes(socket.as_fd())
}

/// Sets the minimum number of octets for the socket to be readable (SO_RCVLOWAT); the default is 1.
///
/// # Errors
/// Error of setsockopt(2).
pub fn set_receive_lowat(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    sys::set_receive_lowat(socket.as_fd(), bytes)
}

/// Limits the receive window (TCP_WINDOW_CLAMP) until the kernel next enlarges the receive buffer.
///
/// # Errors
/// Error of setsockopt(2).
pub fn set_window_clamp(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    sys::set_window_clamp(socket.as_fd(), bytes)
}

/// Fixes the receive buffer beyond the system's limit (SO_RCVBUFFORCE).
///
/// # Errors
/// Error of setsockopt(2); EPERM without CAP_NET_ADMIN.
pub fn force_recv_buffer(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    sys::force_recv_buffer(socket.as_fd(), bytes)
}

#[cfg(test)]
mod tests;
