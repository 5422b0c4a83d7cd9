//! The listening side of the DNS stub.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use socket2::SockRef;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{debug, warn};

use super::known_names::KnownNames;
use super::local_names::LocalNames;
use super::message::{BadQuery, Query, Rcode};
use super::reached_families::ReachedFamilies;
use super::upstream::{Dial, Lookup, Upstream, take_message, write_message};
use crate::Destination;
use crate::original::plain_listener;

/// Maximum length of a UDP query in bytes. Real queries stay under 512 bytes; the kernel truncates
/// longer ones, which are then refused as malformed.
const MAX_UDP_QUERY_BYTES: usize = 4096;

/// Maximum number of simultaneous look-ups of all clients. A page with a hundred hosts causes three
/// each.
const MAX_LOOKUPS: usize = 512;

/// Share of the time of a look-up that the local resolver has; the others have the rest.
const LOCAL_SHARE: u32 = 4;

/// Maximum number of simultaneous TCP clients per listener.
const MAX_TCP_CLIENTS: usize = 64;

/// Idle timeout of a TCP client (RFC 7766, section 6.2.3).
const TCP_IDLE: Duration = Duration::from_secs(10);

/// Pause after a socket error, so that a persistent error does not cause a busy loop.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Configuration of a stub.
#[derive(Clone, Debug)]
pub struct DnsConfig {
    /// Resolvers that speak DNS over TCP, in order of preference.
    pub resolvers: Vec<Destination>,
    /// Time after which a look-up without a response gets SERVFAIL. Clients usually repeat a query
    /// after 5 s; the default of 4 s precedes that.
    pub timeout: Duration,
    /// Resolver of local names, which the others do not know.
    pub local: Option<LocalNames>,
    /// ReachedFamilies of addresses that names have.
    pub families: Arc<ReachedFamilies>,
    /// Names whose addresses it has answered.
    pub known: Arc<KnownNames>,
    /// Whether a client's address is one of this host.
    pub is_here: fn(IpAddr) -> bool,
}

impl Default for DnsConfig {
    /// Default timeout, and Quad9 as the resolver.
    fn default() -> Self {
        let quad9 = [[9, 9, 9, 9], [149, 112, 112, 112]];
        Self {
            resolvers: quad9.map(|ip| Destination::from_ip(ip.into(), 53)).into(),
            timeout: Duration::from_secs(4),
            local: None,
            families: Arc::default(),
            known: Arc::default(),
            is_here: |client| client.is_loopback(),
        }
    }
}

/// Number of attempts when the kernel chooses the port: a port that is free for UDP may be in use
/// for TCP, of which some hundreds may be.
const PORT_TRIES: usize = 16;

/// Sockets of a stub, of the same address and port.
#[derive(Debug)]
pub struct DnsSockets {
    /// For queries in datagrams.
    pub udp: UdpSocket,
    /// For queries over connections.
    pub tcp: TcpListener,
}

impl DnsSockets {
    /// Binds both, with port 0 to the same port. `mark` is their `SO_MARK`, which keeps answers to
    /// other hosts from being routed as packets of applications.
    ///
    /// # Errors
    /// The address cannot be bound, or is unspecified: a response must come from the address that
    /// the query was sent to.
    pub async fn bind(addr: SocketAddr, mark: Option<u32>) -> io::Result<Self> {
        if addr.ip().is_unspecified() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the DNS stub cannot listen on {addr}: specify single addresses"),
            ));
        }
        let sockets = Self::bind_both(addr).await?;
        if let Some(mark) = mark {
            SockRef::from(&sockets.udp).set_mark(mark)?;
            SockRef::from(&sockets.tcp).set_mark(mark)?;
        }
        Ok(sockets)
    }

    async fn bind_both(addr: SocketAddr) -> io::Result<Self> {
        let tries = if addr.port() == 0 { PORT_TRIES } else { 1 };
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..tries {
            let udp = UdpSocket::bind(addr).await?;
            match plain_listener(udp.local_addr()?) {
                Ok(tcp) => return Ok(Self { udp, tcp }),
                Err(e) if e.kind() == io::ErrorKind::AddrInUse => last = e,
                Err(e) => return Err(e),
            }
        }
        Err(last)
    }
}

/// A listening DNS stub. See the [module](super).
#[derive(Debug)]
pub struct DnsStub {
    sockets: Vec<DnsSockets>,
    config: DnsConfig,
}

impl DnsStub {
    /// A stub with these sockets.
    pub fn new(sockets: Vec<DnsSockets>, config: DnsConfig) -> Self {
        Self { sockets, config }
    }

    /// Answers look-ups until it is dropped, or until `stop`: then it answers those that it has
    /// received, and ends.
    pub async fn run(self, dial: impl Dial, stop: impl Future<Output = ()>) {
        let (stopping, stopped) = watch::channel(false);
        let (lookups, receiver) = mpsc::channel(MAX_LOOKUPS);
        let mut tasks = JoinSet::new();
        let dial = Arc::new(dial);
        let local = self.config.local.map(|names| {
            let (lookups, receiver) = mpsc::channel(MAX_LOOKUPS);
            let resolvers = vec![names.resolver.clone()];
            tasks.spawn(Upstream::new(Arc::clone(&dial), resolvers, receiver).run());
            Local { names, lookups }
        });
        let upstream = Upstream::new(dial, self.config.resolvers, receiver);
        let forwarder = Forwarder {
            lookups,
            local,
            timeout: self.config.timeout,
            room: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            families: self.config.families,
            known: self.config.known,
            is_here: self.config.is_here,
        };
        tasks.spawn(upstream.run());
        for DnsSockets { udp, tcp } in self.sockets {
            tasks.spawn(serve_udp(Arc::new(udp), forwarder.clone(), stopped.clone()));
            tasks.spawn(serve_tcp(tcp, forwarder.clone(), stopped.clone()));
        }
        // The upstream ends with the last of them.
        drop(forwarder);
        let end = async {
            while let Some(ended) = tasks.join_next().await {
                if let Err(error) = ended {
                    warn!(%error, "task of the DNS stub failed");
                }
            }
        };
        let stop = async {
            stop.await;
            stopping.send_replace(true);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = end => {}
            () = stop => {}
        }
    }
}

/// Waits until the stub is told to stop.
async fn stopping(stopped: &mut watch::Receiver<bool>) {
    // The sender is there as long as the stub.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

/// Forwards look-ups of clients to [`Upstream`].
#[derive(Clone)]
struct Forwarder {
    lookups: mpsc::Sender<Lookup>,
    local: Option<Local>,
    timeout: Duration,
    room: Arc<Semaphore>,
    families: Arc<ReachedFamilies>,
    known: Arc<KnownNames>,
    is_here: fn(IpAddr) -> bool,
}

/// Local names, with the look-ups of their [`Upstream`].
#[derive(Clone)]
struct Local {
    names: LocalNames,
    lookups: mpsc::Sender<Lookup>,
}

impl Forwarder {
    /// The response for a client. Its addresses are noted if it came over the session: the local
    /// network may answer with any.
    async fn ask(&self, query: &Arc<Query>, client: IpAddr) -> Option<Bytes> {
        let before = self.known.pauses();
        let (response, is_local) = self.response(query).await?;
        if !is_local && before.is_some() && before == self.known.pauses() {
            let client = client.to_canonical();
            let asker = (!(self.is_here)(client)).then_some(client);
            let now = Instant::now().into_std();
            self.known.note(now, asker, query, &response);
        }
        Some(response)
    }

    /// A resolver's response, or none of its records, and whether it is that of the local one;
    /// `None` when there is none in time.
    ///
    /// Where the local resolver does not answer, or refuses, the others are asked for a local name.
    async fn response(&self, query: &Arc<Query>) -> Option<(Bytes, bool)> {
        let until = Instant::now() + self.timeout;
        if let Some(local) = &self.local
            && local.names.has(&query.name())
        {
            let until = Instant::now() + self.timeout / LOCAL_SHARE;
            let response = ask(&local.lookups, until, query).await;
            if let Some(response) = response.filter(|r| !has_failed(r)) {
                return Some((response, true));
            }
        }
        let lacking = || {
            query
                .family()
                .is_some_and(|family| self.families.lacks(family))
        };
        // Asked again afterwards: the first look-up may wait for the session that tells.
        let response = match lacking() {
            true => None,
            false => ask(&self.lookups, until, query).await,
        };
        let response = match lacking() {
            true => Some(query.error(Rcode::NoError)),
            false => response,
        };
        Some((response?, false))
    }
}

/// Asks an [`Upstream`], until this instant.
async fn ask(lookups: &mpsc::Sender<Lookup>, until: Instant, query: &Arc<Query>) -> Option<Bytes> {
    let ask = async {
        let (lookup, answer) = Lookup::new(Arc::clone(query));
        lookups.send(lookup).await.ok()?;
        answer.await.ok()
    };
    timeout_at(until, ask).await.ok().flatten()
}

/// Whether a resolver could not answer, or does not answer such questions.
fn has_failed(response: &[u8]) -> bool {
    let rcode = response.get(3).map(|codes| codes & 0x0f);
    [Rcode::ServFail, Rcode::Refused]
        .map(|rcode| Some(rcode as u8))
        .contains(&rcode)
}

async fn serve_udp(
    socket: Arc<UdpSocket>,
    forwarder: Forwarder,
    mut stopped: watch::Receiver<bool>,
) {
    let mut lookups = JoinSet::new();
    let mut buffer = vec![0; MAX_UDP_QUERY_BYTES];
    loop {
        while lookups.try_join_next().is_some() {}
        let received = tokio::select! {
            received = socket.recv_from(&mut buffer) => received,
            () = stopping(&mut stopped) => break,
        };
        let (length, from) = match received {
            Ok(received) => received,
            Err(error) => {
                debug!(%error, "cannot receive a DNS query");
                sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        match Query::parse(buffer.get(..length).unwrap_or_default()) {
            Ok(query) => {
                // At the limit, drop the query: the client repeats it.
                let Ok(permit) = Arc::clone(&forwarder.room).try_acquire_owned() else {
                    debug!(%from, "too many simultaneous look-ups, query dropped");
                    continue;
                };
                let (socket, forwarder) = (Arc::clone(&socket), forwarder.clone());
                lookups.spawn(async move {
                    let query = Arc::new(query);
                    let answer = match forwarder.ask(&query, from.ip()).await {
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
    while lookups.join_next().await.is_some() {}
}

async fn send(socket: &UdpSocket, answer: &[u8], to: SocketAddr) {
    if let Err(error) = socket.send_to(answer, to).await {
        debug!(%to, %error, "cannot send a DNS response");
    }
}

async fn serve_tcp(
    listener: TcpListener,
    forwarder: Forwarder,
    mut stopped: watch::Receiver<bool>,
) {
    let mut clients = JoinSet::new();
    loop {
        let room = clients.len() < MAX_TCP_CLIENTS;
        tokio::select! {
            Some(_) = clients.join_next() => {}
            accepted = listener.accept(), if room => match accepted {
                Ok((stream, from)) => {
                    let forwarder = forwarder.clone();
                    clients.spawn(async move {
                        if let Err(error) = serve_client(stream, from.ip(), &forwarder).await {
                            debug!(%from, %error, "DNS client over TCP failed");
                        }
                    });
                }
                Err(error) => {
                    warn!(%error, "cannot accept a DNS client");
                    sleep(ERROR_PAUSE).await;
                }
            },
            () = stopping(&mut stopped) => break,
        }
    }
    drop(listener);
    while clients.join_next().await.is_some() {}
}

/// Serves the queries of one client sequentially.
async fn serve_client(
    mut stream: TcpStream,
    client: IpAddr,
    forwarder: &Forwarder,
) -> io::Result<()> {
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
                // At the limit, TCP clients wait: they do not repeat queries.
                let _permit = forwarder.room.acquire().await.map_err(io::Error::other)?;
                let query = Arc::new(query);
                match forwarder.ask(&query, client).await {
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::addresses::tests::record;
    use super::super::message::tests::{query, response};
    use super::*;

    /// A query for a name without a dot.
    fn local_query() -> Query {
        let header = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let message = [&header[..], b"\x0bworkstation\x00\x00\x01\x00\x01"].concat();
        Query::parse(&message).unwrap()
    }

    /// A resolver that answers with this code, or not at all.
    fn resolver(rcode: Option<u8>) -> mpsc::Sender<Lookup> {
        let (lookups, mut asked) = mpsc::channel::<Lookup>(8);
        tokio::spawn(async move {
            let mut unanswered = Vec::new();
            while let Some(lookup) = asked.recv().await {
                let Some(rcode) = rcode else {
                    unanswered.push(lookup);
                    continue;
                };
                let mut answer = response(&lookup.query.with_id(7), 4);
                answer[3] = 0x80 | rcode;
                drop(lookup.answer.send(answer.into()));
            }
        });
        lookups
    }

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn forwarder(session: mpsc::Sender<Lookup>, local: mpsc::Sender<Lookup>) -> Forwarder {
        let names = LocalNames {
            resolver: Destination::from_ip([0, 0, 0, 0].into(), 53),
            is_present: Arc::new(|| true),
        };
        let config = DnsConfig::default();
        Forwarder {
            lookups: session,
            local: Some(Local {
                names,
                lookups: local,
            }),
            timeout: config.timeout,
            room: Arc::new(Semaphore::new(1)),
            families: config.families,
            known: config.known,
            is_here: config.is_here,
        }
    }

    /// A resolver that answers with this address, and does this before.
    fn addressed(address: [u8; 4], before: impl Fn() + Send + 'static) -> mpsc::Sender<Lookup> {
        let (lookups, mut asked) = mpsc::channel::<Lookup>(8);
        tokio::spawn(async move {
            while let Some(lookup) = asked.recv().await {
                before();
                let mut answer = lookup.query.with_id(7).to_vec();
                answer[2..8].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1]);
                answer.extend(record(1, 60, &address));
                drop(lookup.answer.send(answer.into()));
            }
        });
        lookups
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_local_network_answers_is_not_noted() {
        let address = [192, 0, 2, 1];
        let names = |known: &KnownNames, asker| {
            let now = Instant::now().into_std();
            known.of(now, asker, address.into()).len()
        };
        let public = Arc::new(Query::parse(&query(7, None)).unwrap());
        let local = Arc::new(local_query());
        let known = Arc::<KnownNames>::default();
        // As where the proxy is lost during a look-up, and is back at its end.
        let lost = Arc::clone(&known);
        let mut forwarder = forwarder(
            addressed(address, move || drop(lost.pause())),
            addressed(address, || {}),
        );
        forwarder.known = Arc::clone(&known);
        assert!(forwarder.ask(&local, CLIENT).await.is_some());
        assert_eq!(names(&known, None), 0, "the local resolver's");
        assert!(forwarder.ask(&public, CLIENT).await.is_some());
        assert_eq!(names(&known, None), 0, "asked as the proxy was lost");
        forwarder.lookups = addressed(address, || {});
        let paused = known.pause();
        assert!(forwarder.ask(&public, CLIENT).await.is_some());
        assert_eq!(names(&known, None), 0, "without the proxy");
        drop(paused);
        let other = IpAddr::from([10, 0, 0, 9]);
        assert!(forwarder.ask(&public, other).await.is_some());
        assert_eq!(
            [None, Some(other)].map(|asker| names(&known, asker)),
            [0, 1]
        );
        assert!(forwarder.ask(&public, CLIENT).await.is_some());
        assert_eq!(names(&known, None), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn local_names_are_asked_of_the_session_where_the_local_resolver_has_no_answer() {
        let (nothing, no_error, serv_fail, no_name, refused) =
            (None, Some(0), Some(2), Some(3), Some(5));
        for (local, session, expected, ms) in [
            (no_error, no_name, no_error, 0),
            (no_name, no_error, no_name, 0),
            (serv_fail, no_error, no_error, 0),
            (refused, no_error, no_error, 0),
            (nothing, no_error, no_error, 1_000),
            (refused, nothing, nothing, 4_000),
            (nothing, nothing, nothing, 4_000),
        ] {
            let forwarder = forwarder(resolver(session), resolver(local));
            let start = Instant::now();
            let response = forwarder.ask(&Arc::new(local_query()), CLIENT).await;
            let rcode = response.map(|response| response[3] & 0x0f);
            let case = format!("{local:?} {session:?}");
            assert_eq!(rcode, expected, "{case}");
            // Timers have a granularity of a millisecond.
            let took = start.elapsed().as_millis();
            assert!((ms..=ms + 1).contains(&took), "{case}: {took} ms");
        }
    }
}
