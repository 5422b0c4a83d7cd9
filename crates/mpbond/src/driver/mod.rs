//! Drives a session with real sockets.
//!
//! One [`Driver`] owns a session and all of its sockets, on one thread. A task for each subflow
//! reads records, a task for each stream moves an application's bytes, and one task handles
//! timeouts. They share the session without a lock. The task that brings an input also carries
//! the results out: a record that arrives is reassembled, written to the application's socket and
//! acknowledged in one go; only a socket that takes no more is left to its own task.

mod answer;
mod app_socket;
mod ask;
mod budget;
mod class_watch;
mod clock;
mod delivery;
mod fair_queue;
mod farewell;
mod handle;
mod inner;
mod links;
mod log;
mod names;
mod notice;
mod place;
mod reclaim;
mod silences;
mod stream;
mod stream_io;
mod subflow;
mod subflow_io;
mod timeouts;
mod timer;
mod totals;
mod view;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mpbond_net::DeviceId;
use mpbond_net::blocks::{Block, KeptBlocks};
use mpbond_net::tls::{Label, TlsStream};
use mpbond_session::{
    CloseCode, Destination, EXPORTER, FarReport, Hello, LeastBurst, OpenError, ResetCode, Role,
    Session, StreamId, SubflowError, SubflowId, SubflowSetup, Treatment,
};
use mpbond_units::Timestamp;
use tokio::sync::mpsc;
use tracing::{debug, info};

use crate::memory::{self, Account, Full, Memory};
use crate::rate_limited_log::PeerLog;
use crate::status::{SessionStatus, TransferStatus};

pub use answer::Answer;
pub use app_socket::{AppSocket, Client, Tcp, keep_alive, refusal, reset_on_close};
pub use budget::Budget;
pub use class_watch::ClassWatch;
pub use clock::Clock;
pub use fair_queue::FairQueue;
pub use farewell::{refuse, say_close};
pub use handle::Handle;
pub(crate) use links::{Links, OwnLinks};
pub use log::TransferLog;
pub use notice::Notice;
pub use place::Place;
pub use reclaim::Reclaimed;

use fair_queue::Turn;
use farewell::no_memory;
use inner::Inner;
use names::SubflowNames;
use silences::Silences;
use stream_io::StreamIo;
use subflow_io::SubflowIo;
use timer::Timer;

/// A session's share of its thread, of memory and of the log.
pub struct Seat {
    turn: Turn,
    account: Account,
    lines: Rc<PeerLog<DeviceId>>,
    links: Option<OwnLinks>,
}

impl Seat {
    /// A share beside the other sessions of the thread and the memory.
    ///
    /// # Errors
    /// There is no room for another session.
    pub fn take(queue: &FairQueue, memory: &Memory) -> Result<Self, Full> {
        Ok(Self {
            turn: queue.join(),
            account: memory.session()?,
            lines: Rc::new(PeerLog::of_connections()),
            links: None,
        })
    }

    /// Proxy: with a place among the sessions that may have links in common.
    pub(crate) fn with_links(self, links: OwnLinks) -> Self {
        Self {
            links: Some(links),
            ..self
        }
    }

    /// With a limit of log lines that this session shares with others.
    pub(crate) fn logging(self, lines: &Rc<PeerLog<DeviceId>>) -> Self {
        Self {
            lines: Rc::clone(lines),
            ..self
        }
    }
}

/// A session with its sockets. Cheap to clone; for use on one thread.
#[derive(Clone)]
pub struct Driver {
    shared: Rc<RefCell<Inner>>,
}

impl Driver {
    /// Starts a driver for `session`, whose notices come out of the receiver. Must be called within
    /// a `tokio::task::LocalSet`.
    pub fn start(
        session: Session,
        peer: DeviceId,
        clock: Clock,
        log: TransferLog,
        seat: Seat,
    ) -> (Self, mpsc::UnboundedReceiver<Notice>) {
        let (notices, receiver) = mpsc::unbounded_channel();
        let kept = KeptBlocks::default();
        let shared = Rc::new_cyclic(|own| {
            RefCell::new(Inner {
                own: own.clone(),
                clock,
                session,
                peer,
                subflows: HashMap::new(),
                streams: HashMap::new(),
                asked: HashMap::new(),
                wake: Vec::new(),
                notices,
                timer: Timer::default(),
                turn: seat.turn,
                account: seat.account,
                lines: seat.lines,
                links: seat.links,
                pending: 0,
                reserved: 0,
                given_up: false,
                ended_at: Timestamp::ZERO,
                starved: VecDeque::new(),
                memory_watched: false,
                log,
                counted: false,
                names: SubflowNames::default(),
                closed_octets: BTreeMap::new(),
                silences: Silences::default(),
                record: Vec::with_capacity(mpbond_session::wire::MAX_RECORD_BYTES),
                block: Block::new(&kept, 0),
                read: BytesMut::new(),
                kept,
                tasks: Vec::new(),
            })
        });
        let task = tokio::task::spawn_local(timeouts::run(Rc::downgrade(&shared)));
        shared.borrow_mut().tasks.push(task);
        shared.borrow_mut().size_window();
        (Self { shared }, receiver)
    }

    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        inner::with(&self.shared, f)
    }

    /// Primary: adds a connection to the proxy. `setup` needs name, helper and priority only.
    pub fn add_subflow(&self, tls: TlsStream, setup: SubflowSetup) -> SubflowId {
        let name = setup.name.clone();
        let id = self.with(|inner| {
            let now = inner.clock.now();
            let setup = complete(&tls, setup);
            // A primary's memory is not bounded.
            let _ = inner.account.take(memory::SUBFLOW);
            let role = setup.role;
            let id = inner.session.add_subflow(now, setup);
            if let Some(line) = inner.line() {
                let left_out = line.left_out;
                info!(subflow = %id, name, left_out, "subflow connected");
            }
            if role != Role::Express {
                inner.log.totals().joined(&inner.peer.to_string(), &name);
            }
            inner.names.insert(id, name.clone());
            id
        });
        self.run_subflow(id, name, tls);
        id
    }

    /// Proxy: adds a connection whose hello has been read. `rest` is the remainder of the hello's
    /// record.
    ///
    /// # Errors
    /// The session refuses it. The reason is sent to the peer.
    pub fn accept_subflow(
        &self,
        tls: TlsStream,
        hello: &Hello,
        rest: Bytes,
        octets: u64,
    ) -> Result<SubflowId, SubflowError> {
        let (Hello::Capable { path, .. } | Hello::Join { path, .. }) = hello;
        let accepted = self.with(|inner| {
            let now = inner.clock.now();
            let mut setup = complete(&tls, SubflowSetup::default());
            setup.rx_octets = octets;
            inner.account.take(memory::SUBFLOW).map_err(no_memory)?;
            let id = match inner.session.accept_subflow(now, setup, hello) {
                Ok(id) => id,
                Err(e) => {
                    inner.account.give_back(memory::SUBFLOW);
                    return Err(e);
                }
            };
            if let Some(line) = inner.line() {
                let left_out = line.left_out;
                info!(subflow = %id, name = path.name, left_out, "subflow joined");
            }
            if path.role != Role::Express {
                inner
                    .log
                    .totals()
                    .joined(&inner.peer.to_string(), &path.name);
            }
            inner.names.insert(id, path.name.clone());
            if path.role == Role::Express
                && let Some(tcp) = tls.tcp()
                && let Err(e) = socket2::SockRef::from(tcp).set_keepalive(false)
            {
                // It is idle most of the time and must not wake a radio.
                debug!(error = %e, "cannot switch keep-alive off");
            }
            if !rest.is_empty() {
                let first = inner.session.handle_record(now, id, rest, octets);
                if first.is_err() {
                    inner.account.give_back(memory::SUBFLOW);
                }
                first?;
            }
            if let Some(links) = &mut inner.links
                && let Some(from) = tls.tcp().and_then(|tcp| tcp.peer_addr().ok())
            {
                links.joined(id, path, from.ip());
            }
            Ok(id)
        });
        match accepted {
            Ok(id) => {
                self.run_subflow(id, path.name.clone(), tls);
                Ok(id)
            }
            Err(e) => {
                tokio::task::spawn_local(refuse(tls, e.clone()));
                Err(e)
            }
        }
    }

    fn run_subflow(&self, id: SubflowId, name: String, mut tls: TlsStream) {
        self.with(|inner| {
            tls.count_blocks(&inner.kept);
            inner.subflows.insert(id, SubflowIo::new(name, tls));
        });
        let task = tokio::task::spawn_local(subflow::run(Rc::downgrade(&self.shared), id));
        self.with(|inner| {
            inner.tasks.retain(|t| !t.is_finished());
            inner.tasks.push(task);
        });
    }

    /// Primary: opens a stream for an application's connection. `early` holds the bytes of it that
    /// were read already.
    ///
    /// # Errors
    /// The session takes no (more) streams.
    pub fn open(
        &self,
        destination: Destination,
        treatment: impl Into<Treatment>,
        early: Bytes,
        socket: impl AppSocket + 'static,
    ) -> Result<StreamId, OpenError> {
        let id = self.with(|inner| {
            let now = inner.clock.now();
            let left = inner.session.streams_left();
            if left > 0 && left <= inner.reserved {
                return Err(OpenError::Limit);
            }
            let id = inner.session.open(now, destination, treatment)?;
            inner.session.write(id, early);
            let _ = inner.account.take(memory::STREAM);
            inner.streams.insert(id, StreamIo::new(Box::new(socket)));
            Ok(id)
        })?;
        self.run_stream(id);
        Ok(id)
    }

    /// Proxy: whether there is memory for a stream; without it, the stream is refused.
    pub fn admits(&self, id: StreamId) -> bool {
        self.with(|inner| {
            let admitted = inner.account.take_stream().is_ok();
            if !admitted {
                inner.refuse(id, ResetCode::Overloaded);
            }
            admitted
        })
    }

    /// Joins a stream and a connection: at a proxy that to its destination, which is reached; at a
    /// primary that of a client which has waited for this.
    pub fn attach(&self, id: StreamId, socket: impl AppSocket + 'static) {
        self.with(|inner| {
            inner.session.connected(id);
            inner.streams.insert(id, StreamIo::new(Box::new(socket)));
        });
        self.run_stream(id);
    }

    /// Refuses a stream without a connection: at a proxy since its destination cannot be reached,
    /// at a primary since its client has left.
    pub fn refuse(&self, id: StreamId, code: ResetCode) {
        self.with(|inner| {
            inner.asked.remove(&id);
            inner.account.give_back(memory::STREAM);
            inner.refuse(id, code);
        });
    }

    fn run_stream(&self, id: StreamId) {
        tokio::task::spawn_local(stream::run(Rc::downgrade(&self.shared), id));
    }

    /// Takes a helper's report on its pipe (for the proxy) and its HS-Path (for this end), and the
    /// time since bytes last came down the HS-Path, if any did.
    pub fn helper_report(
        &self,
        id: SubflowId,
        pipe: FarReport,
        hs: FarReport,
        downlink: Option<Duration>,
    ) {
        self.with(|inner| {
            let now = inner.clock.now();
            if let Some(io) = inner.subflows.get_mut(&id) {
                io.told_rtt(pipe.rtt);
            }
            inner.session.relay_report(now, id, pipe);
            inner.session.handle_far_report(now, id, hs);
            if let Some(since) = downlink {
                inner.session.handle_helper_downlink(now, id, since);
            }
        });
    }

    /// Bursts up to the proxy and down from it for which a helper's radio is woken.
    pub fn set_least_bursts(&self, id: SubflowId, [up, down]: [LeastBurst; 2]) {
        self.with(|inner| inner.session.set_least_bursts(id, up, down));
    }

    /// Closes a subflow's connection, though both ends may take it for intact.
    pub fn drop_subflow(&self, id: SubflowId, reason: &str) {
        self.with(|inner| {
            if inner.subflows.contains_key(&id) {
                if let Some(line) = inner.line() {
                    let (name, left_out) = (inner.name(id), line.left_out);
                    info!(subflow = %id, name, why = reason, left_out, "subflow given up");
                }
                inner.close_subflow(id);
            }
        });
    }

    /// The same for all with this name.
    pub fn drop_subflows_named(&self, name: &str, reason: &str) {
        let subflows = self.inspect(|session, clock, _| session.subflows(clock.now()));
        for subflow in subflows.iter().filter(|s| s.name == name) {
            self.drop_subflow(subflow.id, reason);
        }
    }

    /// Primary: makes the subflows of a link backups, or regular ones, and sets the step of their
    /// cost. An express stays what it is.
    pub fn set_rank_named(&self, name: &str, backup: bool, cost: u8) {
        let subflows = self.inspect(|session, clock, _| session.subflows(clock.now()));
        for subflow in subflows.iter().filter(|s| s.name == name) {
            self.with(|inner| {
                inner.session.set_backup(subflow.id, backup);
                inner.session.set_cost(subflow.id, cost);
            });
        }
    }

    /// Asks whether a subflow works.
    pub fn ask(&self, subflow: SubflowId) {
        self.with(|inner| inner.session.ask(subflow));
    }

    /// Number of open streams.
    pub fn streams_open(&self) -> usize {
        self.inspect(|session, _, _| session.stats().streams_open as usize)
    }

    /// Tells the peer to open no new streams.
    pub fn go_away(&self, reason: &str) {
        self.with(|inner| inner.session.go_away(reason));
    }

    /// Primary: label of the proxy's process that holds the session, once it has answered.
    pub fn label(&self) -> Option<Label> {
        let id = self.shared.borrow().session.id()?;
        Some(Label(id.label()))
    }

    /// Whether both are handles of the same session.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether no stream is open.
    pub fn is_drained(&self) -> bool {
        self.shared.borrow().is_drained()
    }

    /// Whether the session has ended.
    pub fn has_ended(&self) -> bool {
        self.shared.borrow().session.is_lost()
    }

    /// Whether an application has something left to read after the end.
    pub fn has_rest(&self) -> bool {
        self.shared.borrow().has_rest()
    }

    /// Whether no subflow has a connection.
    pub fn has_no_subflow(&self) -> bool {
        self.shared.borrow().subflows.is_empty()
    }

    /// Ends the session, and tells the other end, which would keep it for a return. What has
    /// arrived completely is still delivered ([`deliver_rest`](Self::deliver_rest)).
    pub fn stop(&self, reason: &str) {
        self.with(|inner| inner.end(CloseCode::GoingAway, reason.to_owned()));
    }

    /// Proxy: ends the session of a device that is no longer trusted, and tells it so.
    pub fn distrust(&self) {
        self.with(|inner| {
            let reason = "this device is no longer trusted".to_owned();
            inner.end(CloseCode::NotTrusted, reason);
        });
    }

    /// Reports the session as lost, with this reason. Nothing is delivered any more.
    pub fn give_up(&self, reason: &str) {
        let mut inner = self.shared.borrow_mut();
        inner.given_up = true;
        // The daemon may have dropped the receiver.
        let _ = inner.notices.send(Notice::Lost(reason.to_owned()));
    }

    /// Runs `f` on the session for status and metrics.
    pub fn inspect<T>(&self, f: impl FnOnce(&Session, &Clock, &DeviceId) -> T) -> T {
        let inner = self.shared.borrow();
        f(&inner.session, &inner.clock, &inner.peer)
    }

    /// State of the session.
    pub fn status(&self) -> SessionStatus {
        self.shared.borrow().status()
    }

    /// The open streams.
    pub fn open_transfers(&self) -> Vec<TransferStatus> {
        self.transfers_of(&self.open_streams())
    }

    /// Numbers of the open streams, ascending.
    pub(crate) fn open_streams(&self) -> Vec<StreamId> {
        self.shared.borrow().session.stream_ids()
    }

    /// Those of these streams that are open.
    pub(crate) fn transfers_of(&self, streams: &[StreamId]) -> Vec<TransferStatus> {
        let inner = self.shared.borrow();
        let id = inner.session.id().map(|id| id.to_string());
        let id = id.unwrap_or_default();
        let name = |s: SubflowId| {
            let name = inner.names.get(s).map(str::to_owned);
            name.unwrap_or_else(|| s.to_string())
        };
        let open = streams.iter().filter_map(|id| inner.session.stream(*id));
        open.map(|s| log::transfer(&id, &s, name)).collect()
    }

    /// Ends everything: subflows are closed, and applications' connections reset unless they have
    /// taken all bytes.
    pub fn shut_down(&self) {
        let mut inner = self.shared.borrow_mut();
        let ids: Vec<_> = inner.subflows.keys().copied().collect();
        for id in ids {
            inner.close_subflow(id);
        }
        for task in inner.tasks.drain(..) {
            task.abort();
        }
        inner.asked.clear();
        for (_, mut s) in inner.streams.drain() {
            if !s.done() {
                s.abort(None);
            }
            if let Some(w) = s.waker.take() {
                w.wake();
            }
        }
        inner.count();
    }
}

/// Completes a subflow's setup with the facts of its TLS connection.
fn complete(tls: &TlsStream, setup: SubflowSetup) -> SubflowSetup {
    SubflowSetup {
        exporter: tls.exporter(EXPORTER),
        tx_octets: tls.ciphertext_out(),
        rx_octets: setup.rx_octets,
        ..setup
    }
}
