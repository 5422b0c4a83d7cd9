//! Fronts: listeners that perform the handshakes of user connections.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet, yield_now};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, warn};

use crate::closing::answer_and_close;
use crate::intent::{BadIntent, Intent, Warnings};
use crate::intercepted::{Intercepted, Pending};
use crate::reception::{Listening, Reception};
use crate::{Credentials, Destination, http, original, socks5};

/// Default deadline of a client's handshake. Real clients send their request at once; this allows
/// for a person at a telnet prompt.
pub const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Default maximum of simultaneous handshakes. A page with many pictures opens a few dozen
/// connections; each handshake holds at most 32 KiB.
pub const DEFAULT_MAX_HANDSHAKES: usize = 256;

/// Age at which a handshake gives way to a new client when all places are taken. Programs need
/// milliseconds.
const GIVES_WAY_AFTER: Duration = Duration::from_secs(1);

/// Idle time after which the kernel asks whether a client is still there, and the pause between
/// its three attempts: a client that has vanished keeps its connection for four minutes. On
/// loopback nobody wakes up for it.
const KEEPALIVE: Duration = Duration::from_secs(120);
const KEEPALIVE_PAUSE: Duration = Duration::from_secs(40);

/// Pause after a failed accept: such failures (no descriptors left) persist, and retrying at once
/// would be a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Buffer space for one read during a handshake.
const READ_BYTES: usize = 4096;

/// Protocol of a front's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// SOCKS5 (RFC 1928), SOCKS 4 and 4A.
    Socks5,
    /// HTTP proxy (RFC 9110).
    Http,
    /// Any protocol, redirected by nftables `redirect`.
    Redirect,
    /// Any protocol, redirected by nftables `tproxy`.
    Tproxy,
}

/// Configuration of a front.
#[derive(Clone, Debug)]
pub struct FrontConfig {
    /// Protocol of the clients.
    pub protocol: Protocol,
    /// Credentials required of SOCKS5 and HTTP clients; not used by transparent fronts.
    pub credentials: Option<Credentials>,
    /// Deadline of a handshake.
    pub handshake_timeout: Duration,
    /// Maximum number of simultaneous handshakes. Further clients wait in the kernel's queue until
    /// one ends, or until the oldest has lasted a second: that one is closed.
    pub max_handshakes: usize,
}

impl FrontConfig {
    /// Default limits, no credentials.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            credentials: None,
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            max_handshakes: DEFAULT_MAX_HANDSHAKES,
        }
    }
}

/// A listener for user connections.
///
/// Handshakes run concurrently; dropping the front ends them. A front without credentials serves
/// every client that can reach its address, so it belongs on loopback.
#[derive(Debug)]
pub struct Front {
    listening: Listening,
    local: SocketAddr,
    config: Arc<FrontConfig>,
    handshakes: JoinSet<Option<Intercepted>>,
    /// Beginning of each handshake, oldest first; those that are over are removed late.
    begun: VecDeque<(Instant, AbortHandle)>,
    shut_by_others: Arc<Notify>,
    warnings: Arc<Warnings>,
}

impl Front {
    /// Listens on `addr`. A listener on an IPv6 address accepts IPv6 only.
    ///
    /// # Errors
    /// When the address cannot be bound, or CAP_NET_ADMIN is missing for [`Protocol::Tproxy`].
    pub fn bind(addr: SocketAddr, config: FrontConfig) -> io::Result<Self> {
        let listener = match config.protocol {
            Protocol::Tproxy => original::transparent_listener(addr),
            _ => original::plain_listener(addr),
        }?;
        Self::with_listener(listener, config)
    }

    /// A front with a listener that exists, and need not listen at present.
    ///
    /// # Errors
    /// It has no local address.
    pub fn with_listener(listener: TcpListener, config: FrontConfig) -> io::Result<Self> {
        Ok(Self {
            local: listener.local_addr()?,
            listening: Listening::of(listener)?,
            config: Arc::new(config),
            handshakes: JoinSet::new(),
            begun: VecDeque::new(),
            shut_by_others: Arc::default(),
            warnings: Arc::default(),
        })
    }

    /// The listener's socket, until the front is closed.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.listening {
            Listening::Open(listener) => Some(listener.as_fd()),
            Listening::Shut(listener) => Some(listener.as_fd()),
            Listening::Closed => None,
        }
    }

    /// Has the kernel treat new clients like this. Connections that the front has accepted, and
    /// handshakes under way, go on.
    ///
    /// # Errors
    /// Another program listens at the address, or the privileges for [`Reception::Defer`] are
    /// missing.
    pub fn set_reception(&mut self, reception: Reception) -> io::Result<()> {
        self.listening.set(reception)
    }

    /// Notified when another process that has the same listener has had it refuse new clients. This
    /// front accepts none from then on, until [`set_reception`](Self::set_reception).
    pub fn shut_by_others(&self) -> Arc<Notify> {
        Arc::clone(&self.shut_by_others)
    }

    /// Accepts no further clients. Handshakes under way go on in [`accept`](Self::accept).
    pub fn close(&mut self) {
        self.listening = Listening::Closed;
    }

    /// Whether no handshake is under way.
    pub fn is_idle(&self) -> bool {
        self.handshakes.is_empty()
    }

    /// The local address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The next connection after a successful handshake. Clients whose handshake fails are answered
    /// and closed internally.
    ///
    /// Cancel-safe: handshakes continue between calls.
    pub async fn accept(&mut self) -> Intercepted {
        loop {
            let mut gives_way = self.gives_way_at();
            if gives_way.is_some_and(|at| at <= Instant::now()) {
                // Handshakes go on first that need no more from their clients: the time may have
                // passed while this process had no processor.
                yield_now().await;
                gives_way = self.gives_way_at();
            }
            let room = gives_way.is_none_or(|at| at <= Instant::now());
            let listening = &self.listening;
            let next = async {
                match listening {
                    Listening::Open(listener) => listener.accept().await,
                    Listening::Shut(_) | Listening::Closed => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(done) = self.handshakes.join_next() => match done {
                    Ok(Some(intercepted)) => return intercepted,
                    Ok(None) => {}
                    Err(error) if error.is_cancelled() => {}
                    Err(error) => warn!(%error, "handshake task failed"),
                },
                () = sleep_until(gives_way.unwrap_or_else(Instant::now)), if !room => {}
                accepted = next, if room => match accepted {
                    Ok((stream, peer)) => {
                        if gives_way.is_some() && let Some((_, oldest)) = self.begun.pop_front() {
                            debug!("a handshake gives way to a new client");
                            oldest.abort();
                        }
                        self.begin(stream, peer);
                    }
                    // Another process that has the same listener has it refuse clients.
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                        if let Err(error) = self.listening.shut() {
                            warn!(%error, listener = %self.local, "the listener is lost");
                        }
                        self.shut_by_others.notify_one();
                    }
                    Err(error) => {
                        warn!(%error, listener = %self.local, "cannot accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }

    /// When the oldest handshake gives way to a new client; `None` while places are free.
    fn gives_way_at(&mut self) -> Option<Instant> {
        while self
            .begun
            .front()
            .is_some_and(|(_, task)| task.is_finished())
        {
            self.begun.pop_front();
        }
        let is_full = self.handshakes.len() >= self.config.max_handshakes.max(1);
        let (begun, _) = self.begun.front().filter(|_| is_full)?;
        Some(*begun + GIVES_WAY_AFTER)
    }

    fn begin(&mut self, stream: TcpStream, peer: SocketAddr) {
        let config = Arc::clone(&self.config);
        let local = self.local;
        let warnings = Arc::clone(&self.warnings);
        let task = self.handshakes.spawn(async move {
            set_options(&stream, peer);
            match config.protocol {
                Protocol::Socks5 => socks5_handshake(stream, peer, &config, &warnings).await,
                Protocol::Http => http_handshake(stream, peer, &config, &warnings).await,
                Protocol::Redirect => transparent(original::redirected(&stream), stream, peer),
                Protocol::Tproxy => transparent(original::tproxied(&stream, local), stream, peer),
            }
        });
        // Handshakes that are over behind one that lasts.
        if self.begun.len() >= 2 * self.config.max_handshakes {
            self.begun.retain(|(_, task)| !task.is_finished());
        }
        self.begun.push_back((Instant::now(), task));
    }
}

/// Sets the options of a client's socket.
fn set_options(stream: &TcpStream, peer: SocketAddr) {
    // Small replies must not be delayed by Nagle's algorithm.
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%peer, %error, "cannot set TCP_NODELAY");
    }
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE_PAUSE)
        .with_retries(3);
    if let Err(error) = SockRef::from(stream).set_tcp_keepalive(&keepalive) {
        debug!(%peer, %error, "cannot set SO_KEEPALIVE");
    }
}

fn transparent(
    original: io::Result<SocketAddr>,
    stream: TcpStream,
    peer: SocketAddr,
) -> Option<Intercepted> {
    match original {
        Ok(addr) => Some(Intercepted {
            stream,
            peer,
            destination: Destination::from_ip(addr.ip(), addr.port()),
            early: Bytes::new(),
            pending: Pending::Nothing,
            intent: Intent::default(),
        }),
        Err(error) => {
            debug!(%peer, %error, "connection without an original destination");
            None
        }
    }
}

/// Outcome of a failed handshake.
enum Failed {
    /// Send this answer and close.
    Answer(Vec<u8>),
    /// Close without an answer: the client has left, or timed out.
    Close,
}

/// Runs a handshake until its deadline.
async fn until_deadline<T>(
    stream: &mut TcpStream,
    limit: Duration,
    handshake: impl AsyncFnOnce(&mut TcpStream) -> io::Result<Result<T, Failed>>,
) -> Result<T, Failed> {
    match timeout(limit, handshake(stream)).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => {
            debug!(%error, "client failed during its handshake");
            Err(Failed::Close)
        }
        Err(_) => {
            debug!("handshake timed out");
            Err(Failed::Close)
        }
    }
}

async fn socks5_handshake(
    mut stream: TcpStream,
    peer: SocketAddr,
    config: &FrontConfig,
    warnings: &Warnings,
) -> Option<Intercepted> {
    let credentials = config.credentials.as_ref();
    let outcome = until_deadline(&mut stream, config.handshake_timeout, async |stream| {
        let mut handshake = socks5::Handshake::new(credentials);
        let mut buffer = BytesMut::with_capacity(READ_BYTES);
        loop {
            match handshake.advance(&mut buffer) {
                Ok(socks5::Step::NeedMore) => read_more(stream, &mut buffer).await?,
                Ok(socks5::Step::Send(bytes)) => stream.write_all(&bytes).await?,
                Ok(socks5::Step::Connect(to)) => {
                    let pending = match handshake.version() {
                        4 => Pending::Socks4,
                        _ => Pending::Socks5,
                    };
                    return Ok(Ok((to, buffer.freeze(), pending, handshake.intent())));
                }
                Err(failure) => {
                    if let socks5::BadHandshake::Intent(reason) = failure.reason {
                        warn_of(reason, peer, warnings);
                    }
                    debug!(%peer, reason = %failure.reason, "SOCKS handshake failed");
                    return Ok(Err(Failed::Answer(failure.answer)));
                }
            }
        }
    })
    .await;
    match outcome {
        Ok((destination, early, pending, intent)) => Some(Intercepted {
            stream,
            peer,
            destination,
            early,
            pending,
            intent,
        }),
        Err(failed) => refuse(stream, failed).await,
    }
}

async fn http_handshake(
    mut stream: TcpStream,
    peer: SocketAddr,
    config: &FrontConfig,
    warnings: &Warnings,
) -> Option<Intercepted> {
    let credentials = config.credentials.as_ref();
    let outcome = until_deadline(&mut stream, config.handshake_timeout, async |stream| {
        let request = read_request(stream, credentials).await?;
        Ok(request.map_err(|reason| {
            if let http::BadRequest::Intent(reason) = reason {
                warn_of(reason, peer, warnings);
            }
            debug!(%peer, %reason, "HTTP request refused");
            Failed::Answer(http::bad_request(&reason))
        }))
    })
    .await;
    match outcome {
        Ok((destination, early, pending, intent)) => Some(Intercepted {
            stream,
            peer,
            destination,
            early,
            pending,
            intent,
        }),
        Err(failed) => refuse(stream, failed).await,
    }
}

/// Warns of a client that is refused for parameters that are not understood.
fn warn_of(reason: BadIntent, peer: SocketAddr, warnings: &Warnings) {
    if warnings.is_due(std::time::Instant::now()) {
        warn!(%peer, "client refused: {reason}");
    }
}

/// Content of a request: destination, early data, the expected reply, the client's parameters.
type Asked = (Destination, Bytes, Pending, Intent);

/// Reads the head of a request; bytes after it become early data.
async fn read_request(
    stream: &mut TcpStream,
    credentials: Option<&Credentials>,
) -> io::Result<Result<Asked, http::BadRequest>> {
    let mut buffer = BytesMut::with_capacity(READ_BYTES);
    let mut searched = 0;
    let end = loop {
        if let Some(end) = http::find_head_end(&buffer, searched) {
            break end;
        }
        searched = buffer.len();
        if searched > http::MAX_HEAD_BYTES {
            return Ok(Err(http::BadRequest::TooLarge));
        }
        read_more(stream, &mut buffer).await?;
    };
    let head = buffer.split_to(end);
    Ok(match http::parse(&head, credentials) {
        Ok((http::Request::Connect(to), intent)) => {
            Ok((to, buffer.freeze(), Pending::HttpConnect, intent))
        }
        Ok((
            http::Request::Forward {
                destination,
                head,
                mut framing,
            },
            intent,
        )) => match framing.take(&buffer) {
            Ok(ours) => {
                let mut early = BytesMut::from(head);
                early.extend_from_slice(&buffer.split_to(ours));
                let pending = Pending::HttpForward(framing);
                Ok((destination, early.freeze(), pending, intent))
            }
            Err(_) => Err(http::BadRequest::AmbiguousLength),
        },
        Err(reason) => Err(reason),
    })
}

async fn read_more(stream: &mut TcpStream, buffer: &mut BytesMut) -> io::Result<()> {
    buffer.reserve(READ_BYTES);
    match stream.read_buf(buffer).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

async fn refuse(stream: TcpStream, failed: Failed) -> Option<Intercepted> {
    match failed {
        Failed::Answer(answer) if !answer.is_empty() => answer_and_close(stream, &answer).await,
        Failed::Answer(_) | Failed::Close => {}
    }
    None
}
