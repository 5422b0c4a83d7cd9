//! The proxy: joins the subflows of primaries, and connects their streams to origins.
//!
//! One thread accepts connections, shakes hands and reads hellos. Each session lives on one worker
//! thread. The only lock on the data path is that of the ledger of shared links (ADR 0069).

mod dial;
mod registry;
mod state;
mod worker;

use std::cell::OnceCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use mpbond_net::identity::Identity;
use mpbond_net::tcp::{self, Tuning};
use mpbond_net::tls::{MAX_HELLO_BYTES, Purpose, TlsStream, Trust, label_of_hello};
use mpbond_session::{CloseCode, Hello, SubflowError, parse_hello};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tracing::{debug, info, warn};

use crate::admission::{Door, Limits, Visitor};
use crate::config::{EnrolmentBook, ProxyConfig, TrustFile};
use crate::driver::say_close;
use crate::memory::Memory;
use crate::process::Process;
use crate::quota::source;
use crate::rate_limited_log::{PeerLog, RateLimitedLog};
use crate::reload::{Configured, Reloader};
use crate::status::{MemoryStatus, Status};
use crate::stop::DaemonStop;
use crate::upgrade::{Listeners, Notify, Predecessor, passing};
use crate::{addresses, descriptors, heap, metrics, pairing, revocation};

use state::Proxy;
use worker::{Arrival, Order, Worker};

/// Time limit of an enrolment.
const ENROLLED_WITHIN: Duration = Duration::from_secs(10);

/// Time limit of handshake and hello.
const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// Handshakes under way. Many devices may share a carrier's address; a handshake takes two round
/// trips, so this allows some hundred per second from one source.
const HANDSHAKES: Limits = Limits {
    all: 512,
    reserved: 128,
    each: 64,
    crowd: 128,
};

/// Interval at which a proxy that stops looks whether all sessions have ended.
const DRAINED_EVERY: Duration = Duration::from_millis(20);

/// Interval at which free memory is returned to the system; a busy proxy would only request it
/// again.
const TRIM_EVERY: Duration = Duration::from_secs(10);

/// Minimum of free memory worth returning.
const TRIM_BYTES: u64 = 16 << 20;

/// The beginning of a connection that joins a session.
const JOIN: passing::Form = passing::Form {
    most_bytes: MAX_HELLO_BYTES,
    label: label_of_hello,
};

/// Runs a proxy until SIGINT or SIGTERM.
///
/// # Errors
/// When it cannot start: because of the identity, an address or the status socket.
pub fn run(
    configured: impl Into<Configured<ProxyConfig>>,
    trust: Arc<dyn Trust>,
) -> anyhow::Result<()> {
    descriptors::take_all();
    let configured = configured.into();
    let (config, process) = (configured.config.clone(), configured.process.clone());
    let identity = Identity::load_or_create(&config.identity)?;
    info!(id = %identity.id(), "this proxy");
    let workers = config
        .workers
        .or_else(|| std::thread::available_parallelism().ok().map(Into::into))
        .unwrap_or(1);
    let proxy = Arc::new(Proxy::new(config, identity, trust)?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    let reloaded = Arc::clone(&proxy);
    let reloader = Reloader::new(configured, move |config| reloaded.configure(config));
    local.block_on(&runtime, serve(proxy, workers, Rc::new(reloader), process))
}

async fn serve(
    proxy: Arc<Proxy>,
    workers: usize,
    reloader: Rc<Reloader<ProxyConfig>>,
    process: Process,
) -> anyhow::Result<()> {
    let tuning = Tuning {
        congestion: proxy.config.congestion.clone(),
        user_timeout: Some(Duration::from_secs(30)),
        keepalive: Some(Duration::from_secs(240)),
        ..Tuning::default()
    };
    let config = &proxy.config;
    let (path, notify) = (&config.status_socket, Notify::connect());
    let mut own = Listeners::open("proxy", path, config.metrics, config.take_over).await?;
    let mut listeners = Vec::new();
    for address in &config.listen {
        listeners.push(own.tcp(*address, || tcp::listen(*address, None, &tuning))?);
    }
    // Bound here, since the address may need privileges; it is served once the workers run.
    let team = Rc::new(OnceCell::<Arc<Vec<Worker>>>::new());
    let status = {
        let (proxy, team) = (Arc::clone(&proxy), Rc::clone(&team));
        let (before, reloader) = (own.predecessor.clone(), Rc::clone(&reloader));
        move |has_transfers: bool| {
            let note = before.as_ref().and_then(|before| before.note());
            let team = team.get().cloned().unwrap_or_default();
            let status = status(Arc::clone(&proxy), team, note, has_transfers);
            let reloader = Rc::clone(&reloader);
            async move {
                let mut status = status.await;
                reloader.describe(&mut status);
                status
            }
        }
    };
    // Before another process hears that this one is ready, and before it waits for other daemons.
    let mut stop = {
        let reloader = Rc::clone(&reloader);
        DaemonStop::listen(&process, move || drop(reloader.reload()))
    };
    let plan = proxy.config.sandbox.then(|| {
        let mut plan = proxy.sandbox();
        plan.further.extend(reloader.places());
        plan
    });
    if let Some(entered) = process.confine(plan).await? {
        let _ = proxy.sandboxed.set(entered);
    }
    let workers: Arc<Vec<Worker>> = Arc::new(
        (0..workers.max(1))
            .map(|n| Worker::start(n, Arc::clone(&proxy)))
            .collect::<std::io::Result<_>>()
            .context("starting a worker thread")?,
    );
    let _ = team.set(Arc::clone(&workers));
    let entrance = Rc::new(Entrance {
        proxy: Arc::clone(&proxy),
        workers: Arc::clone(&workers),
        before: own.predecessor.clone(),
        refused: PeerLog::default(),
        no_tokens: RateLimitedLog::default(),
    });
    let door = Door::new(HANDSHAKES, proxy.clock.clone());
    let serve = move |tcp, from, visitor| Rc::clone(&entrance).receive(tcp, from, visitor);
    process.prepared().await?;
    own.ready().await?;
    if process.ready() {
        notify.ready();
    }
    let mut accepting = tokio::task::JoinSet::new();
    for listener in listeners {
        accepting.spawn_local(Rc::clone(&door).accept(listener, serve.clone()));
    }
    if let Some(metrics) = own.metrics {
        let status = status.clone();
        accepting.spawn_local(metrics::serve(metrics, move || status(false)));
    }
    let revoked = {
        let workers = Arc::clone(&workers);
        move || workers.iter().for_each(|w| w.order(Order::Revoke))
    };
    let trusted = TrustFile::beside(&proxy.config.identity).path().to_owned();
    crate::task::spawn_local(revocation::watch(trusted, revoked));
    let moved = Arc::clone(&proxy);
    crate::task::spawn_local(addresses::watch(move |own| moved.internal.update(own)));
    crate::task::spawn_local(give_back(proxy.memory.clone()));
    let successor = {
        let mut serving = std::pin::pin!(own.status.serve(status, || reloader.reload()));
        let successor = tokio::select! {
            () = &mut serving => None,
            successor = own.handover.wait(|| ()) => Some(successor),
            reason = stop.wait() => {
                info!(reason, "stopping");
                None
            }
        };
        // With it go copies of all listeners.
        drop((accepting, own.handover));
        if successor.is_none() {
            let before = own.predecessor.as_deref();
            tokio::select! {
                () = &mut serving => {}
                () = finish(&workers, &mut stop, reloader.get(|c| c.stop_within), before) => {}
            }
        }
        successor
    };
    if let Some(successor) = successor {
        own.status.hand_over();
        crate::task::spawn_local(passing::receive(successor, door, serve));
        let all = async {
            drain(&workers, reloader.get(|c| c.drain)).await;
            if let Some(before) = own.predecessor {
                before.end().await;
            }
        };
        tokio::select! {
            () = all => {}
            reason = stop.wait() => {
                info!(reason, "stopping");
                finish(&workers, &mut stop, reloader.get(|c| c.stop_within), None).await;
            }
        }
    }
    for w in workers.iter() {
        w.stop().await;
    }
    Ok(())
}

/// Serves what is open for the last time: until it ends, so long at most, or until a signal. The
/// process before this one is waited for: a service manager signals both, and ends what is left
/// when this one has ended.
async fn finish(
    workers: &[Worker],
    stop: &mut DaemonStop,
    within: Duration,
    before: Option<&Predecessor>,
) {
    let all = async {
        let end = tokio::time::Instant::now() + within;
        drain(workers, within).await;
        if let Some(before) = before {
            let _ = tokio::time::timeout_at(end, before.end()).await;
        }
    };
    tokio::select! {
        () = all => {}
        reason = stop.wait() => info!(reason, "stopping at once"),
    }
}

/// Has all sessions end with the streams that are open, and waits for that, at most so long.
async fn drain(workers: &[Worker], within: Duration) {
    workers.iter().for_each(|w| w.order(Order::Drain));
    let over = async {
        while workers.iter().any(|w| w.sessions() > 0) {
            tokio::time::sleep(DRAINED_EVERY).await;
        }
    };
    if tokio::time::timeout(within, over).await.is_err() {
        info!(?within, "connections are still open, and are reset");
    }
}

/// Returns free memory to the system after a peak.
async fn give_back(memory: Memory) {
    let mut free = 0;
    loop {
        tokio::time::sleep(TRIM_EVERY).await;
        free += memory.fallen_by();
        if free >= TRIM_BYTES {
            heap::trim();
            free = 0;
        }
    }
}

/// Reception of new connections, on the first thread.
struct Entrance {
    proxy: Arc<Proxy>,
    workers: Arc<Vec<Worker>>,
    /// The process that ran before.
    before: Option<Rc<Predecessor>>,
    refused: PeerLog<IpAddr>,
    no_tokens: RateLimitedLog,
}

impl Entrance {
    async fn receive(self: Rc<Self>, tcp: TcpStream, from: SocketAddr, visitor: Visitor) {
        let welcome = self.welcome(tcp, visitor);
        let error = match tokio::time::timeout(HELLO_WITHIN, welcome).await {
            Ok(Ok(())) => return,
            Ok(Err(e)) => e,
            Err(_) => anyhow::anyhow!("no hello in time"),
        };
        if let Some(line) = self.refused.line(source(from), self.proxy.clock.now()) {
            info!(%from, %error, left_out = line.left_out, "connection refused");
        }
    }

    /// Whether there are tokens.
    fn takes_tokens(&self, book: &EnrolmentBook) -> bool {
        book.is_open(pairing::now_s()).unwrap_or_else(|error| {
            if self.no_tokens.is_due() {
                warn!(%error, "no token is accepted");
            }
            false
        })
    }

    /// Performs the handshake, reads the hello and moves the connection to its session's thread.
    async fn welcome(&self, tcp: TcpStream, visitor: Visitor) -> anyhow::Result<()> {
        let Self { proxy, workers, .. } = self;
        let deadline = tokio::time::Instant::now() + HELLO_WITHIN;
        let (identity, trust) = (&proxy.identity, Arc::clone(&proxy.trust));
        let book = EnrolmentBook::beside(&proxy.config.identity);
        visitor.first_octet(tcp.readable()).await?;
        let before = self.before.as_deref().filter(|before| !before.has_ended());
        let Some(tcp) = passing::pass_on(tcp, JOIN, proxy.label, before).await? else {
            return Ok(());
        };
        // Untrusted devices get this far only while there are tokens.
        let mut tls = if self.takes_tokens(&book) {
            TlsStream::accept_either(tcp, identity, trust, deadline).await?
        } else {
            TlsStream::accept(tcp, identity, trust, deadline).await?
        };
        if tls.purpose() == Purpose::Pairing {
            let file = TrustFile::beside(&proxy.config.identity);
            let served = pairing::serve_enrolment(tls, &book, &file, &*proxy.trust);
            return tokio::time::timeout(ENROLLED_WITHIN, served)
                .await
                .context("an enrolment that took too long")?;
        }
        let (record, octets) = first_record(&mut tls).await?;
        // Until its hello it counts among those of its source: a trusted device may send none.
        visitor.authenticated();
        let (hello, rest) = match parse_hello(record) {
            Ok(x) => x,
            Err(e) => {
                let e = SubflowError {
                    code: e.code,
                    reason: e.what.to_owned(),
                    by_peer: false,
                };
                say_close(&mut tls, &e);
                return Err(e.into());
            }
        };
        let device = tls.peer_id();
        let (Hello::Capable { path, .. } | Hello::Join { path, .. }) = &hello;
        debug!(peer = device.short(), path = path.name, "hello");
        let worker = match &hello {
            Hello::Capable { .. } => workers.iter().min_by_key(|w| w.sessions()),
            Hello::Join { session, .. } => match proxy.registry.find(*session, &device) {
                Some(n) => workers.get(n),
                None => {
                    // The primary dials again, with the label of the process that holds it.
                    let elsewhere = before.is_some() && session.label() != proxy.label.0;
                    let e = SubflowError {
                        code: match elsewhere {
                            true => CloseCode::Done,
                            false => CloseCode::UnknownSession,
                        },
                        reason: format!("session {session}"),
                        by_peer: false,
                    };
                    say_close(&mut tls, &e);
                    return Err(e.into());
                }
            },
        };
        if let Some(worker) = worker {
            worker.order(Order::Subflow(Box::new(Arrival {
                tls,
                hello,
                rest,
                octets,
            })));
        }
        Ok(())
    }
}

async fn first_record(tls: &mut TlsStream) -> anyhow::Result<(Bytes, u64)> {
    loop {
        if let Some(r) = tls.next_record()? {
            return Ok((r.payload, r.ciphertext_end));
        }
        if tls.peer_closed() {
            anyhow::bail!("it closed before its hello");
        }
        if std::future::poll_fn(|cx| tls.poll_fill(cx)).await? == 0 {
            anyhow::bail!("it ended before its hello");
        }
    }
}

async fn status(
    proxy: Arc<Proxy>,
    workers: Arc<Vec<Worker>>,
    note: Option<String>,
    has_transfers: bool,
) -> Status {
    let mut sessions = Vec::new();
    let mut transfers = proxy.log.closed();
    for w in workers.iter() {
        let (answer, answered) = oneshot::channel();
        w.order(Order::Status(has_transfers, answer));
        if let Ok((s, t)) = answered.await {
            sessions.extend(s);
            transfers.extend(t);
        }
    }
    let (peers, paths) = proxy.log.totals().with(&sessions);
    let mut notes = Vec::from_iter(note);
    if let Some(address) = proxy.config.serve {
        notes.push(format!("every stream ends at {address} (serve)"));
    }
    Status {
        role: "proxy".to_owned(),
        device: proxy.identity.id().to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        process: std::process::id(),
        uptime_s: proxy.clock.now().as_secs_f64(),
        sessions,
        peers,
        paths,
        transfers,
        memory: Some(MemoryStatus {
            used_bytes: proxy.memory.used(),
            most_bytes: proxy.memory.most(),
        }),
        sandbox: proxy.sandboxed.get().cloned(),
        notes,
        ..Status::default()
    }
}
