use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::message::{BadQuery, Query, Rcode};
use super::upstream::{Dial, Lookup, Upstream, take_message, write_message};
use crate::Destination;
use crate::original::plain_listener;

/// Longest query taken over UDP. Real ones stay under 512 bytes; what does not
/// fit is cut short by the kernel and then refused as malformed.
const MAX_UDP_QUERY_BYTES: usize = 4096;

/// Most look-ups at a time, from all clients. A page with a hundred hosts asks
/// for three records each.
const MAX_LOOKUPS: usize = 512;

/// Most TCP clients at a time, per listener.
const MAX_TCP_CLIENTS: usize = 64;

/// How long a TCP client may be silent (RFC 7766, §6.2.3).
const TCP_IDLE: Duration = Duration::from_secs(10);

/// Pause after a socket's error, so that one that lasts keeps no core busy.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// What a stub needs to know.
#[derive(Clone, Debug)]
pub struct DnsConfig {
    /// Where to listen, for UDP and TCP alike. Single addresses, not all of
    /// them at once: an answer has to come from where its query went.
    pub listen: Vec<SocketAddr>,
    /// Resolvers that speak DNS over TCP, in order of preference.
    pub resolvers: Vec<Destination>,
    /// When a look-up without an answer gets SERVFAIL. Clients repeat a query
    /// after five seconds as a rule; 4 s tells them before that.
    pub timeout: Duration,
}

impl DnsConfig {
    /// With the usual time-out, and Quad9 as the resolver.
    pub fn new(listen: Vec<SocketAddr>) -> Self {
        let quad9 = [[9, 9, 9, 9], [149, 112, 112, 112]];
        Self {
            listen,
            resolvers: quad9.map(|ip| Destination::from_ip(ip.into(), 53)).into(),
            timeout: Duration::from_secs(4),
        }
    }
}

/// Ports tried when the kernel is to choose one: it knows which are free for UDP, not whether TCP
/// has the same one free, and some hundreds of TCP ports may be taken at a time.
const PORT_TRIES: usize = 16;

/// UDP and TCP on the same address and port.
async fn bind_both(addr: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let tries = if addr.port() == 0 { PORT_TRIES } else { 1 };
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..tries {
        let udp = UdpSocket::bind(addr).await?;
        match plain_listener(udp.local_addr()?) {
            Ok(tcp) => return Ok((udp, tcp)),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => last = e,
            Err(e) => return Err(e),
        }
    }
    Err(last)
}

/// A stub that listens. See the [module](super).
#[derive(Debug)]
pub struct DnsStub {
    sockets: Vec<(UdpSocket, TcpListener)>,
    config: DnsConfig,
}

impl DnsStub {
    /// Takes the addresses.
    ///
    /// # Errors
    /// An address can't be had, or is not a single one.
    pub async fn bind(config: DnsConfig) -> io::Result<Self> {
        let mut sockets = Vec::new();
        for &addr in &config.listen {
            if addr.ip().is_unspecified() {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("the DNS stub can't listen on {addr}: name single addresses"),
                ));
            }
            sockets.push(bind_both(addr).await?);
        }
        Ok(Self { sockets, config })
    }

    /// The addresses listened on, in the order of the configuration.
    ///
    /// # Errors
    /// The system does not say.
    pub fn local_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        self.sockets
            .iter()
            .map(|(udp, _)| udp.local_addr())
            .collect()
    }

    /// Answers look-ups until it is dropped.
    pub async fn run(self, dial: impl Dial) {
        let (lookups, receiver) = mpsc::channel(MAX_LOOKUPS);
        let upstream = Upstream::new(Arc::new(dial), self.config.resolvers, receiver);
        let asker = Asker {
            lookups,
            timeout: self.config.timeout,
            room: Arc::new(Semaphore::new(MAX_LOOKUPS)),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(upstream.run());
        for (udp, tcp) in self.sockets {
            tasks.spawn(serve_udp(Arc::new(udp), asker.clone()));
            tasks.spawn(serve_tcp(tcp, asker.clone()));
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                warn!(%error, "a task of the DNS stub failed");
            }
        }
    }
}

/// Asks for clients.
#[derive(Clone)]
struct Asker {
    lookups: mpsc::Sender<Lookup>,
    timeout: Duration,
    room: Arc<Semaphore>,
}

impl Asker {
    /// A resolver's response, or `None` when there is none in time.
    async fn ask(&self, query: &Arc<Query>) -> Option<Bytes> {
        let ask = async {
            let (lookup, answer) = Lookup::new(Arc::clone(query));
            self.lookups.send(lookup).await.ok()?;
            answer.await.ok()
        };
        timeout(self.timeout, ask).await.ok().flatten()
    }
}

async fn serve_udp(socket: Arc<UdpSocket>, asker: Asker) {
    let mut lookups = JoinSet::new();
    let mut buffer = vec![0; MAX_UDP_QUERY_BYTES];
    loop {
        while lookups.try_join_next().is_some() {}
        let (length, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                debug!(%error, "can't receive a DNS query");
                sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        match Query::parse(buffer.get(..length).unwrap_or_default()) {
            Ok(query) => {
                // With no room, say nothing: the client will ask again.
                let Ok(permit) = Arc::clone(&asker.room).try_acquire_owned() else {
                    debug!(%from, "too many look-ups at once");
                    continue;
                };
                let (socket, asker) = (Arc::clone(&socket), asker.clone());
                lookups.spawn(async move {
                    let query = Arc::new(query);
                    let answer = match asker.ask(&query).await {
                        Some(response) => query.over_udp(&response),
                        None => query.error(Rcode::ServFail),
                    };
                    drop(permit);
                    send(&socket, &answer, from).await;
                });
            }
            Err(BadQuery::Answer(answer)) => send(&socket, &answer, from).await,
            Err(BadQuery::Ignore) => {}
        }
    }
}

async fn send(socket: &UdpSocket, answer: &[u8], to: SocketAddr) {
    if let Err(error) = socket.send_to(answer, to).await {
        debug!(%to, %error, "can't send a DNS answer");
    }
}

async fn serve_tcp(listener: TcpListener, asker: Asker) {
    let mut clients = JoinSet::new();
    loop {
        let room = clients.len() < MAX_TCP_CLIENTS;
        tokio::select! {
            Some(_) = clients.join_next() => {}
            accepted = listener.accept(), if room => match accepted {
                Ok((stream, from)) => {
                    let asker = asker.clone();
                    clients.spawn(async move {
                        if let Err(error) = serve_client(stream, &asker).await {
                            debug!(%from, %error, "a DNS client over TCP ended");
                        }
                    });
                }
                Err(error) => {
                    warn!(%error, "can't accept a DNS client");
                    sleep(ERROR_PAUSE).await;
                }
            },
        }
    }
}

/// Answers a client's queries one after the other, in order.
async fn serve_client(mut stream: TcpStream, asker: &Asker) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    loop {
        let message = loop {
            if let Some(message) = take_message(&mut buffer) {
                break message;
            }
            match timeout(TCP_IDLE, stream.read_buf(&mut buffer)).await {
                Ok(Ok(0)) | Err(_) => return Ok(()),
                Ok(read) => read?,
            };
        };
        let answer = match Query::parse(&message) {
            Ok(query) => {
                // TCP clients wait their turn instead of asking again.
                let _permit = asker.room.acquire().await.map_err(io::Error::other)?;
                let query = Arc::new(query);
                match asker.ask(&query).await {
                    Some(response) => query.over_tcp(&response),
                    None => query.error(Rcode::ServFail),
                }
            }
            Err(BadQuery::Answer(answer)) => answer,
            Err(BadQuery::Ignore) => return Err(io::ErrorKind::InvalidData.into()),
        };
        write_message(&mut stream, &answer).await?;
    }
}
