//! TCP connections: how they are opened and tuned, and what the kernel knows
//! about them.

mod info;
mod sys;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

pub use info::{TcpInfo, TcpState};

/// Connections that wait to be accepted; more callers than that are turned
/// away by the kernel until some are.
const LISTEN_BACKLOG: i32 = 256;

/// How a connection is to be opened.
#[derive(Debug, Clone)]
pub struct TcpOptions {
    /// Where to.
    pub remote: SocketAddr,
    /// The own address to call from; else the kernel chooses.
    pub source: Option<IpAddr>,
    /// The interface to use whatever the routes say (SO_BINDTODEVICE).
    pub interface: Option<String>,
    /// Give up after this.
    pub connect_timeout: Duration,
    /// Options of the socket.
    pub tuning: Tuning,
}

impl TcpOptions {
    /// A plain connection to `remote`, given up after 10 s.
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

/// Options of a socket. `None` leaves the kernel's own setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuning {
    /// Send small segments at once (TCP_NODELAY). On by default: records are
    /// built to be sent.
    pub nodelay: bool,
    /// Congestion control algorithm by name, such as "cubic" or "bbr".
    pub congestion: Option<String>,
    /// The socket counts as writable only below this many unsent octets
    /// (TCP_NOTSENT_LOWAT), so that scheduling decisions are made late.
    pub notsent_lowat_bytes: Option<u32>,
    /// The connection fails when sent data stays unacknowledged this long
    /// (TCP_USER_TIMEOUT).
    pub user_timeout: Option<Duration>,
    /// After this much silence the kernel probes the peer, then every third of
    /// it; three unanswered probes end the connection.
    pub keepalive: Option<Duration>,
    /// Fixes the receive buffer (SO_RCVBUF); it then no longer tunes itself.
    pub recv_buffer_bytes: Option<usize>,
    /// Fixes the send buffer (SO_SNDBUF); it then no longer tunes itself.
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
            recv_buffer_bytes: None,
            send_buffer_bytes: None,
        }
    }
}

/// Why a connection could not be opened or tuned.
#[derive(Debug, thiserror::Error)]
pub enum TcpError {
    /// The connection attempt failed.
    #[error("connecting to {remote}: {source}")]
    Connect {
        /// Where to.
        remote: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// Nobody answered in time.
    #[error("connecting to {remote}: no answer within {after:?}")]
    TimedOut {
        /// Where to.
        remote: SocketAddr,
        /// The time allowed.
        after: Duration,
    },
    /// The source address is not one of ours, or of the wrong family.
    #[error("calling from {source_address}: {source}")]
    Source {
        /// The address asked for.
        source_address: IpAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no such interface, or it may not be used.
    #[error("using interface \"{interface}\": {source}")]
    Interface {
        /// The name asked for.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel has no such congestion control, or may not lend it.
    #[error(
        "congestion control \"{name}\" is not available ({source}); see /proc/sys/net/ipv4/tcp_allowed_congestion_control"
    )]
    Congestion {
        /// The algorithm asked for.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another socket option was refused.
    #[error("setting {option}: {source}")]
    Option {
        /// The option's name.
        option: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The address could not be listened on.
    #[error("listening on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
}

fn option(name: &'static str) -> impl FnOnce(io::Error) -> TcpError {
    move |source| TcpError::Option {
        option: name,
        source,
    }
}

impl Tuning {
    /// Sets the options on a socket, connected or not. Buffer sizes should be
    /// set before connecting: the window scale is fixed with the SYN.
    ///
    /// # Errors
    /// Which option was refused, and why.
    pub fn apply(&self, socket: &impl AsFd) -> Result<(), TcpError> {
        let s = SockRef::from(socket);
        s.set_tcp_nodelay(self.nodelay)
            .map_err(option("TCP_NODELAY"))?;
        if let Some(bytes) = self.recv_buffer_bytes {
            s.set_recv_buffer_size(bytes).map_err(option("SO_RCVBUF"))?;
        }
        if let Some(bytes) = self.send_buffer_bytes {
            s.set_send_buffer_size(bytes).map_err(option("SO_SNDBUF"))?;
        }
        if let Some(name) = &self.congestion {
            s.set_tcp_congestion(name.as_bytes())
                .map_err(|source| TcpError::Congestion {
                    name: name.clone(),
                    source,
                })?;
        }
        if let Some(bytes) = self.notsent_lowat_bytes {
            s.set_tcp_notsent_lowat(bytes)
                .map_err(option("TCP_NOTSENT_LOWAT"))?;
        }
        if let Some(after) = self.user_timeout {
            s.set_tcp_user_timeout(Some(after))
                .map_err(option("TCP_USER_TIMEOUT"))?;
        }
        if let Some(silence) = self.keepalive {
            // The kernel counts in whole seconds, at least one.
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
/// [`TcpError`] names what failed: the interface, the source address, an
/// option, or the connection itself.
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
    .map_err(|source| TcpError::Connect {
        remote: *remote,
        source,
    })?;
    if let Some(interface) = interface {
        bind_to(&socket, interface)?;
    }
    if let Some(address) = source {
        socket
            .bind(&SocketAddr::new(*address, 0).into())
            .map_err(|source| TcpError::Source {
                source_address: *address,
                source,
            })?;
    }
    tuning.apply(&socket)?;
    let socket = TcpSocket::from_std_stream(socket.into());
    match tokio::time::timeout(*connect_timeout, socket.connect(*remote)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(source)) => Err(TcpError::Connect {
            remote: *remote,
            source,
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
        .map_err(|source| TcpError::Interface {
            interface: interface.to_owned(),
            source,
        })
}

/// Listens on `address`, on one interface only if named. What `tuning` sets is
/// inherited by accepted connections.
///
/// # Errors
/// [`TcpError`] names what failed.
pub fn listen(
    address: SocketAddr,
    interface: Option<&str>,
    tuning: &Tuning,
) -> Result<TcpListener, TcpError> {
    let failed = |source| TcpError::Listen { address, source };
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )
    .map_err(failed)?;
    // A daemon that restarts must not wait for its old connections to fade.
    socket.set_reuse_address(true).map_err(failed)?;
    if let Some(interface) = interface {
        bind_to(&socket, interface)?;
    }
    tuning.apply(&socket)?;
    socket.bind(&address.into()).map_err(failed)?;
    socket.listen(LISTEN_BACKLOG).map_err(failed)?;
    TcpListener::from_std(socket.into()).map_err(failed)
}

/// Octets written and not yet acknowledged by the peer, sent or not
/// (SIOCOUTQ).
///
/// # Errors
/// What ioctl(2) says.
pub fn send_queue_bytes(socket: &impl AsFd) -> io::Result<u64> {
    sys::send_queue_bytes(socket.as_fd())
}

/// Octets written and not yet sent (SIOCOUTQNSD).
///
/// # Errors
/// What ioctl(2) says.
pub fn unsent_bytes(socket: &impl AsFd) -> io::Result<u64> {
    sys::unsent_bytes(socket.as_fd())
}

/// Octets received and not yet read (SIOCINQ); on a kernel pipe, the octets in
/// it (FIONREAD).
///
/// # Errors
/// What ioctl(2) says.
pub fn receive_queue_bytes(socket: &impl AsFd) -> io::Result<u64> {
    sys::receive_queue_bytes(socket.as_fd())
}

/// Lets readiness wait for this many octets (SO_RCVLOWAT); 1 is the default.
///
/// # Errors
/// What setsockopt(2) says.
pub fn set_receive_lowat(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    sys::set_receive_lowat(socket.as_fd(), bytes)
}

/// Keeps the receive window from opening further than this
/// (TCP_WINDOW_CLAMP), until the kernel next enlarges the receive buffer.
///
/// # Errors
/// What setsockopt(2) says.
pub fn set_window_clamp(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    sys::set_window_clamp(socket.as_fd(), bytes)
}

/// Fixes the receive buffer beyond the system's limit (SO_RCVBUFFORCE).
///
/// # Errors
/// What setsockopt(2) says; without CAP_NET_ADMIN, that it is not permitted.
pub fn force_recv_buffer(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    sys::force_recv_buffer(socket.as_fd(), bytes)
}

#[cfg(test)]
mod tests;
