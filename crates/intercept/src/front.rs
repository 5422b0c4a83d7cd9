use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::intercepted::{Intercepted, Pending, farewell};
use crate::{Credentials, Destination, http, original, socks5};

/// How long a client may take over its request. Real clients send it in one
/// go; this leaves room for a person at a telnet prompt.
pub const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How many clients may be in their handshake at a time. A page with many
/// pictures opens a few dozen connections; each costs at most 32 KiB here.
pub const DEFAULT_MAX_HANDSHAKES: usize = 256;

/// Pause after a failed accept: such failures (no descriptors left) last, and
/// trying again at once would keep a core busy.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Room for one read during a handshake.
const READ_BYTES: usize = 4096;

/// What clients speak on a front's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// SOCKS5 (RFC 1928).
    Socks5,
    /// An HTTP proxy's protocol (RFC 9110).
    Http,
    /// Anything: nft's `redirect` sends connections here.
    Redirect,
    /// Anything: nft's `tproxy` sends connections here.
    Tproxy,
}

/// What a front wants of its clients.
#[derive(Clone, Debug)]
pub struct FrontConfig {
    /// What they speak.
    pub protocol: Protocol,
    /// What they must show, for SOCKS5 and HTTP; transparent clients can't.
    pub credentials: Option<Credentials>,
    /// How long they may take to say where they want to go.
    pub handshake_timeout: Duration,
    /// How many may be about to say so; more wait in the kernel's queue.
    pub max_handshakes: usize,
}

impl FrontConfig {
    /// The usual limits, and no credentials.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            credentials: None,
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            max_handshakes: DEFAULT_MAX_HANDSHAKES,
        }
    }
}

/// A port where user connections come in.
///
/// Handshakes run side by side; dropping the front ends them. A front without
/// credentials serves everybody who can reach its address, so that it belongs
/// on loopback.
#[derive(Debug)]
pub struct Front {
    listener: TcpListener,
    local: SocketAddr,
    config: Arc<FrontConfig>,
    handshakes: JoinSet<Option<Intercepted>>,
}

impl Front {
    /// Listens on `addr`. An IPv6 address serves IPv6 only.
    ///
    /// # Errors
    /// The address can't be had; for [`Protocol::Tproxy`] also a missing
    /// CAP_NET_ADMIN.
    pub fn bind(addr: SocketAddr, config: FrontConfig) -> io::Result<Self> {
        let listener = match config.protocol {
            Protocol::Tproxy => original::transparent_listener(addr),
            _ => original::plain_listener(addr),
        }?;
        Ok(Self {
            local: listener.local_addr()?,
            listener,
            config: Arc::new(config),
            handshakes: JoinSet::new(),
        })
    }

    /// The address listened on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The next connection whose destination is known. Clients that fail to
    /// say it get their answer here and are never seen.
    ///
    /// Cancel-safe: handshakes go on while nobody waits.
    pub async fn accept(&mut self) -> Intercepted {
        loop {
            let room = self.handshakes.len() < self.config.max_handshakes.max(1);
            tokio::select! {
                Some(done) = self.handshakes.join_next() => match done {
                    Ok(Some(intercepted)) => return intercepted,
                    Ok(None) => {}
                    Err(error) => warn!(%error, "a handshake's task failed"),
                },
                accepted = self.listener.accept(), if room => match accepted {
                    Ok((stream, peer)) => self.begin(stream, peer),
                    Err(error) => {
                        warn!(%error, listener = %self.local, "can't accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }

    fn begin(&mut self, stream: TcpStream, peer: SocketAddr) {
        let config = Arc::clone(&self.config);
        let local = self.local;
        self.handshakes.spawn(async move {
            // Small answers and first bytes should not wait for each other.
            if let Err(error) = stream.set_nodelay(true) {
                debug!(%peer, %error, "can't set TCP_NODELAY");
            }
            match config.protocol {
                Protocol::Socks5 => socks5_handshake(stream, peer, &config).await,
                Protocol::Http => http_handshake(stream, peer, &config).await,
                Protocol::Redirect => transparent(original::redirected(&stream), stream, peer),
                Protocol::Tproxy => transparent(original::tproxied(&stream, local), stream, peer),
            }
        });
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
        }),
        Err(error) => {
            debug!(%peer, %error, "a connection without an original destination");
            None
        }
    }
}

/// How a handshake went that did not lead to a request.
enum Ended {
    /// Tell the client, and close.
    Answer(Vec<u8>),
    /// The client is gone, or speaks in tongues.
    Silence,
}

/// Runs a handshake under its deadline; answers a failed one.
async fn until_deadline<T>(
    stream: &mut TcpStream,
    limit: Duration,
    handshake: impl AsyncFnOnce(&mut TcpStream) -> io::Result<Result<T, Ended>>,
) -> Result<T, Ended> {
    match timeout(limit, handshake(stream)).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => {
            debug!(%error, "a client left during its handshake");
            Err(Ended::Silence)
        }
        Err(_) => {
            debug!("a client took too long over its handshake");
            Err(Ended::Silence)
        }
    }
}

async fn socks5_handshake(
    mut stream: TcpStream,
    peer: SocketAddr,
    config: &FrontConfig,
) -> Option<Intercepted> {
    let credentials = config.credentials.as_ref();
    let outcome = until_deadline(&mut stream, config.handshake_timeout, async |stream| {
        let mut handshake = socks5::Handshake::new(credentials);
        let mut buffer = BytesMut::with_capacity(READ_BYTES);
        loop {
            match handshake.advance(&mut buffer) {
                Ok(socks5::Step::NeedMore) => read_more(stream, &mut buffer).await?,
                Ok(socks5::Step::Send(bytes)) => stream.write_all(&bytes).await?,
                Ok(socks5::Step::Connect(to)) => return Ok(Ok((to, buffer.freeze()))),
                Err(failure) => {
                    debug!(%peer, reason = %failure.reason, "SOCKS5 handshake failed");
                    return Ok(Err(Ended::Answer(failure.answer)));
                }
            }
        }
    })
    .await;
    match outcome {
        Ok((destination, early)) => Some(Intercepted {
            stream,
            peer,
            destination,
            early,
            pending: Pending::Socks5,
        }),
        Err(ended) => part(stream, ended).await,
    }
}

async fn http_handshake(
    mut stream: TcpStream,
    peer: SocketAddr,
    config: &FrontConfig,
) -> Option<Intercepted> {
    let credentials = config.credentials.as_ref();
    let outcome = until_deadline(&mut stream, config.handshake_timeout, async |stream| {
        let request = read_request(stream, credentials).await?;
        Ok(request.map_err(|reason| {
            debug!(%peer, %reason, "HTTP request refused");
            Ended::Answer(http::bad_request(&reason))
        }))
    })
    .await;
    match outcome {
        Ok((destination, early, pending)) => Some(Intercepted {
            stream,
            peer,
            destination,
            early,
            pending,
        }),
        Err(ended) => part(stream, ended).await,
    }
}

/// Reads a request's head, and makes what follows it early data.
async fn read_request(
    stream: &mut TcpStream,
    credentials: Option<&Credentials>,
) -> io::Result<Result<(Destination, Bytes, Pending), http::BadRequest>> {
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
        Ok(http::Request::Connect(to)) => Ok((to, buffer.freeze(), Pending::HttpConnect)),
        Ok(http::Request::Forward {
            destination,
            head,
            mut framing,
        }) => match framing.take(&buffer) {
            Ok(ours) => {
                let mut early = BytesMut::from(head);
                early.extend_from_slice(&buffer.split_to(ours));
                Ok((destination, early.freeze(), Pending::HttpForward(framing)))
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

async fn part(stream: TcpStream, ended: Ended) -> Option<Intercepted> {
    match ended {
        Ended::Answer(words) if !words.is_empty() => farewell(stream, &words).await,
        Ended::Answer(_) | Ended::Silence => {}
    }
    None
}
