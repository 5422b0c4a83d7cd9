//! Worker threads, each with its sessions.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use mpbond_net::DeviceId;
use mpbond_net::resolve::{Files, Resolver, ResolverConfig, Sockets};
use mpbond_net::tls::TlsStream;
use mpbond_session::{CloseCode, Hello, ResetCode, Session, SessionId, StreamId, SubflowError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tracing::{info, warn};

use super::dial::{self, NotReached};
use super::state::Proxy;
use crate::driver::{Driver, FairQueue, Notice, Seat, Tcp, refuse};
use crate::names::{self, NameService, Servers};
use crate::random;
use crate::rate_limited_log::{PeerLog, RateLimitedLog};
use crate::speed::{self, SpeedTests};
use crate::status::{SessionStatus, TransferStatus};

/// Maximum number of name look-ups under way on a worker, each with two sockets: enough for four
/// devices that ask for names that nobody answers, and some more.
const MAX_LOOKUPS: usize = 256;

/// A connection whose hello has been read.
pub(super) struct Arrival {
    pub(super) tls: TlsStream,
    pub(super) hello: Hello,
    pub(super) rest: Bytes,
    /// Ciphertext octets up to the end of the hello's record.
    pub(super) octets: u64,
}

/// Reason of GO_AWAY, for people.
const LEAVING: &str = "the proxy leaves";

type Report = (Vec<SessionStatus>, Vec<TransferStatus>);

/// Message to a worker.
pub(super) enum Order {
    Subflow(Box<Arrival>),
    /// With the open streams, if so said.
    Status(bool, oneshot::Sender<Report>),
    /// Trust may have changed.
    Revoke,
    /// No new streams: what is open goes on.
    Drain,
    /// The end of all sessions. Answered when primaries have been told.
    Stop(oneshot::Sender<()>),
}

/// Handle of a thread with sessions.
pub(super) struct Worker {
    orders: mpsc::UnboundedSender<Order>,
    sessions: Arc<AtomicUsize>,
}

impl Worker {
    pub(super) fn start(number: usize, proxy: Arc<Proxy>) -> io::Result<Self> {
        let (orders, receiver) = mpsc::unbounded_channel();
        let sessions = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sessions);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || {
                let local = tokio::task::LocalSet::new();
                local.block_on(&runtime, async move {
                    let resolver = Resolver::new(ResolverConfig {
                        files: Files::default(),
                        further: Vec::new(),
                        sockets: Sockets::default(),
                        most: MAX_LOOKUPS,
                    });
                    let work = Rc::new(Work {
                        number,
                        proxy,
                        count,
                        turns: FairQueue::start(),
                        drivers: RefCell::default(),
                        draining: Cell::new(false),
                        names: NameService::new(&resolver),
                        tests: SpeedTests::default(),
                        resolver,
                        overloaded: Rc::default(),
                        refused: PeerLog::default(),
                        lines: Rc::new(PeerLog::of_connections()),
                    });
                    work.run(receiver).await;
                });
            })?;
        Ok(Self { orders, sessions })
    }

    /// Number of its sessions.
    pub(super) fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed)
    }

    pub(super) fn order(&self, order: Order) {
        // A worker ends only together with the daemon.
        let _ = self.orders.send(order);
    }

    /// Ends its sessions.
    pub(super) async fn stop(&self) {
        let (done, told) = oneshot::channel();
        self.order(Order::Stop(done));
        let _ = told.await;
    }
}

/// State of the thread.
struct Work {
    number: usize,
    proxy: Arc<Proxy>,
    count: Arc<AtomicUsize>,
    turns: FairQueue,
    drivers: RefCell<HashMap<SessionId, Driver>>,
    /// Sessions take no new streams.
    draining: Cell<bool>,
    resolver: Rc<Resolver<DeviceId>>,
    names: NameService<DeviceId>,
    tests: SpeedTests,
    /// Limits the warning that no descriptors are left.
    overloaded: Rc<RateLimitedLog>,
    /// Limits lines about refusals that a device causes.
    refused: PeerLog<DeviceId>,
    /// Limits lines about a device's sessions and subflows.
    lines: Rc<PeerLog<DeviceId>>,
}

impl Work {
    async fn run(self: Rc<Self>, mut orders: mpsc::UnboundedReceiver<Order>) {
        while let Some(order) = orders.recv().await {
            match order {
                Order::Subflow(arrival) => self.subflow(*arrival),
                Order::Status(has_transfers, answer) => {
                    let _ = answer.send(self.status(has_transfers));
                }
                Order::Revoke => self.revoke(),
                Order::Drain => self.drain(),
                Order::Stop(done) => {
                    for driver in self.drivers.borrow().values() {
                        driver.stop("the proxy stops");
                        driver.shut_down();
                    }
                    let _ = done.send(());
                    return;
                }
            }
        }
    }

    /// Has primaries open their next session elsewhere. Each session ends when its primary has
    /// closed it.
    fn drain(&self) {
        self.draining.set(true);
        for driver in self.drivers.borrow().values() {
            driver.go_away(LEAVING);
            if self.is_over(driver) {
                driver.give_up("no stream and no subflow is left");
            }
        }
    }

    fn is_over(&self, driver: &Driver) -> bool {
        self.draining.get() && driver.is_drained() && driver.has_no_subflow()
    }

    /// Ends the sessions of devices that are no longer trusted.
    fn revoke(&self) {
        for (id, driver) in &*self.drivers.borrow() {
            let peer = driver.inspect(|_, _, peer| *peer);
            if !self.proxy.trust.trusts(&peer) {
                info!(session = %id, peer = peer.short(), "no longer trusted");
                driver.distrust();
            }
        }
    }

    fn status(&self, has_transfers: bool) -> Report {
        let drivers = self.drivers.borrow();
        let told = drivers.values().filter(|_| has_transfers);
        (
            drivers.values().map(Driver::status).collect(),
            told.flat_map(Driver::open_transfers).collect(),
        )
    }

    fn subflow(self: &Rc<Self>, arrival: Arrival) {
        let Arrival {
            tls,
            hello,
            rest,
            octets,
        } = arrival;
        let tls = match tls.rehome() {
            Ok(tls) => tls,
            Err(e) => {
                warn!(error = %e, "cannot move a connection to its worker");
                return;
            }
        };
        // Trust may have been revoked since the handshake, before there was a session to close.
        if !self.proxy.trust.trusts(&tls.peer_id()) {
            info!(peer = tls.peer_id().short(), "no longer trusted");
            return;
        }
        let device = tls.peer_id();
        let driver = match &hello {
            Hello::Capable { .. } => match self.session(tls.peer_id(), &hello) {
                Ok(driver) => Some(driver),
                Err(e) => {
                    self.refused(&tls.peer_id(), "session", &e);
                    crate::task::spawn_local(refuse(tls, e));
                    return;
                }
            },
            Hello::Join { session, .. } => self.drivers.borrow().get(session).cloned(),
        };
        // A session may end while a subflow is on its way to it.
        let Some(driver) = driver else {
            return;
        };
        if let Err(e) = driver.accept_subflow(tls, &hello, rest, octets) {
            self.refused(&device, "subflow", &e);
            if matches!(hello, Hello::Capable { .. }) {
                driver.give_up("its first subflow was refused");
            }
        }
    }

    /// Logs a refusal.
    fn refused(&self, peer: &DeviceId, subject: &str, reason: &dyn fmt::Display) {
        if let Some(line) = self.refused.line(*peer, self.proxy.clock.now()) {
            let left_out = line.left_out;
            info!(peer = peer.short(), %reason, left_out, "{subject} refused");
        }
    }

    /// Opens a session.
    fn session(self: &Rc<Self>, peer: DeviceId, hello: &Hello) -> Result<Driver, SubflowError> {
        let refused = |code, reason: &str| SubflowError {
            code,
            reason: reason.to_owned(),
            by_peer: false,
        };
        let (Ok(id), Ok(random)) = (random::bytes(), random::bytes()) else {
            return Err(refused(CloseCode::TooMuch, "cannot read random bytes"));
        };
        let id = SessionId::new(self.proxy.label.0, id);
        let registry = &self.proxy.registry;
        registry
            .insert(id, self.number, peer)
            .map_err(|reason| refused(CloseCode::TooMuch, &reason))?;
        let seat = Seat::take(&self.turns, &self.proxy.memory).map_err(|_| {
            registry.remove(id);
            let reason = "this proxy has no memory left for another session";
            refused(CloseCode::TooMuch, reason)
        })?;
        let mut session = Session::server(self.proxy.session.clone(), id, random, hello);
        session.remember(registry.known_paths(&peer));
        let (driver, notices) = Driver::start(
            session,
            peer,
            self.proxy.clock.clone(),
            self.proxy.log.clone(),
            seat.logging(&self.lines)
                .with_links(self.proxy.links.enter(self.proxy.label_of(&peer))),
        );
        if let Some(line) = self.lines.line(peer, self.proxy.clock.now()) {
            let left_out = line.left_out;
            info!(session = %id, peer = peer.short(), left_out, "session opened");
        }
        if self.draining.get() {
            driver.go_away(LEAVING);
        }
        self.drivers.borrow_mut().insert(id, driver.clone());
        self.count.fetch_add(1, Ordering::Relaxed);
        crate::task::spawn_local(Rc::clone(self).attend(id, driver.clone(), notices));
        Ok(driver)
    }

    /// Handles the notices of a session until it ends.
    async fn attend(
        self: Rc<Self>,
        id: SessionId,
        driver: Driver,
        mut notices: mpsc::UnboundedReceiver<Notice>,
    ) {
        let peer = driver.inspect(|_, _, peer| *peer);
        // Connections to origins that are being made. They end with their streams and with the
        // session, so that no device has more of them than streams.
        let (mut dials, mut dialled) = (JoinSet::new(), HashMap::new());
        loop {
            let notice = tokio::select! {
                notice = notices.recv() => notice,
                Some(ended) = dials.join_next() => {
                    // One that was aborted is no longer there.
                    if let Ok(stream) = ended {
                        dialled.remove(&stream);
                    }
                    continue;
                }
            };
            let Some(notice) = notice else {
                break;
            };
            match notice {
                Notice::Opened {
                    stream,
                    destination,
                } => {
                    if !driver.admits(stream) {
                        self.refused(&peer, "stream", &"no memory left");
                        continue;
                    }
                    if names::is_asked(&destination) && self.proxy.config.serve.is_none() {
                        match self.names.serve(peer, Servers::System) {
                            Some(served) => driver.attach(stream, served),
                            None => {
                                self.refused(&peer, "stream", &"too many streams of look-ups");
                                driver.refuse(stream, ResetCode::Overloaded);
                            }
                        }
                        continue;
                    }
                    if let Some(direction) = speed::asked(&destination)
                        && self.proxy.config.serve.is_none()
                    {
                        match self.tests.start(peer, direction) {
                            Some(end) => driver.attach(stream, end),
                            None => {
                                self.refused(&peer, "stream", &"too many speed tests");
                                driver.refuse(stream, ResetCode::Overloaded);
                            }
                        }
                        continue;
                    }
                    let (driver, proxy) = (driver.clone(), Arc::clone(&self.proxy));
                    let (resolver, overloaded) =
                        (Rc::clone(&self.resolver), Rc::clone(&self.overloaded));
                    let work = Rc::clone(&self);
                    let dial = dials.spawn_local(async move {
                        match dial::dial(&proxy, &resolver, peer, &destination).await {
                            Ok(tcp) => driver.attach(stream, Tcp::new(tcp)),
                            Err(NotReached { code, why }) => {
                                if code == ResetCode::Overloaded && overloaded.is_due() {
                                    warn!("no descriptors left: streams are refused");
                                }
                                let why = format!("{destination}: {why}");
                                work.refused(&peer, "stream", &why);
                                driver.refuse(stream, code);
                            }
                        }
                        stream
                    });
                    dialled.insert(stream, dial);
                }
                Notice::GivenUp(stream) => {
                    if let Some(dial) = dialled.remove(&stream) {
                        give_up(&driver, stream, &dial);
                    }
                }
                Notice::Lost(_) => break,
                Notice::SubflowGone(_) | Notice::Drained => {
                    let known = driver.inspect(|session, _, _| session.known_paths());
                    self.proxy.registry.know_paths(&peer, known);
                    if self.is_over(&driver) {
                        break;
                    }
                }
                Notice::Established(_)
                | Notice::SubflowUp(_)
                | Notice::SubflowCut(..)
                | Notice::Silent(_)
                | Notice::Moving
                | Notice::Refused { .. }
                | Notice::Distrusted
                | Notice::StreamsAllowed
                | Notice::GoAway => {}
            }
        }
        // What has arrived completely is still delivered.
        for (stream, dial) in dialled {
            if driver.inspect(|session, _, _| session.is_given_up(stream)) {
                give_up(&driver, stream, &dial);
            }
        }
        let gives_way = self.proxy.registry.close(id);
        tokio::select! {
            () = driver.deliver_rest(&mut notices) => {}
            Ok(()) = gives_way => {}
        }
        if let Some(line) = self.lines.line(peer, self.proxy.clock.now()) {
            info!(session = %id, left_out = line.left_out, "session closed");
        }
        self.proxy.registry.remove(id);
        self.drivers.borrow_mut().remove(&id);
        self.count.fetch_sub(1, Ordering::Relaxed);
        driver.shut_down();
    }
}

/// Ends the dial of a stream that is reset both ways, unless it has ended by itself.
fn give_up(driver: &Driver, stream: StreamId, dial: &AbortHandle) {
    if !dial.is_finished() {
        dial.abort();
        driver.refuse(stream, ResetCode::Cancelled);
    }
}
