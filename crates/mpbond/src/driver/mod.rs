//! Moves bytes between sockets and a session.
//!
//! One [`Driver`] owns a session and all of its sockets, on one thread: a task a subflow reads
//! records, a task a stream moves an application's bytes, and one watches the time. They share
//! the session without a lock. Whoever brings something in also carries the results out: a
//! record that arrives is reassembled, written to the application's socket and acknowledged in
//! one go, and only a socket that takes no more is left to its own task.

mod clock;
mod log;
mod reclaim;
mod stream;
mod subflow;
mod timer;
mod turns;
mod view;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::task::Waker;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mpbond_net::DeviceId;
use mpbond_net::tls::TlsStream;
use mpbond_session::{
    Destination, Event, FarReport, OpenError, ResetCode, Session, SessionId, StreamClass, StreamId,
    SubflowId, SubflowSetup, SubflowState, SubflowStats,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};

use crate::memory::{self, Account, Full, Memory};

pub use clock::Clock;
pub use log::TransferLog;
pub use reclaim::Reclaimed;
pub use stream::{AppSocket, Client, Tcp};
pub use turns::Turns;

use stream::StreamIo;
use subflow::SubflowIo;
use timer::Timer;
use turns::Turn;

/// TLS exporter label that MP_JOIN's proof is bound to.
pub const EXPORTER: &[u8] = b"EXPORTER-mpbond-1-join";

/// Something that whoever runs the driver has to know.
#[derive(Debug)]
pub enum Notice {
    /// Primary: the proxy has answered.
    Established(SessionId),
    /// Proxy: a stream wants to go somewhere. Answer by [`Driver::attach`] or
    /// [`Driver::refuse`].
    Opened {
        /// Which.
        stream: StreamId,
        /// Where to.
        destination: Destination,
    },
    /// A subflow is gone.
    SubflowGone(SubflowId),
    /// Primary: the proxy has answered on a subflow.
    SubflowUp(SubflowId),
    /// A subflow is silent; it may come back.
    Silent(SubflowId),
    /// The peer takes no new streams.
    GoAway,
    /// Primary: the proxy does not trust this device.
    Distrusted,
    /// The session is over.
    Lost(String),
}

/// How long somebody who waits for memory sleeps before looking again.
const MEMORY_AGAIN: Duration = Duration::from_millis(100);

/// Who does not hear in that time why it is refused never does.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Streams that are told at once when their own session has given some back.
const FED_AT_ONCE: usize = 4;

/// A session's place among the others: its turns on the thread, and its account of memory.
pub struct Seat {
    turn: Turn,
    account: Account,
}

impl Seat {
    /// A place among the sessions that take turns on this thread and share this memory.
    ///
    /// # Errors
    /// There is no room for another session.
    pub fn take(turns: &Turns, memory: &Memory) -> Result<Self, Full> {
        Ok(Self {
            turn: turns.join(),
            account: memory.session()?,
        })
    }
}

/// A session with its sockets. Cheap to clone; for use on one thread.
#[derive(Clone)]
pub struct Driver {
    shared: Rc<RefCell<Inner>>,
}

/// A session with its sockets, while it is borrowed.
struct Inner {
    own: Weak<RefCell<Inner>>,
    clock: Clock,
    session: Session,
    peer: DeviceId,
    subflows: HashMap<SubflowId, SubflowIo>,
    streams: HashMap<StreamId, StreamIo>,
    /// Tasks that have to look again once the borrow ends.
    wake: Vec<Waker>,
    notices: mpsc::UnboundedSender<Notice>,
    timer: Timer,
    turn: Turn,
    account: Account,
    /// Bytes that wait for applications' sockets, over all streams.
    pending: u64,
    /// It ends because of what it holds.
    condemned: bool,
    /// Streams that wait for memory.
    starved: VecDeque<Waker>,
    /// Somebody will look whether there is memory for them.
    memory_watched: bool,
    log: TransferLog,
    names: HashMap<SubflowId, String>,
    /// Plaintext of the record being made.
    record: Vec<u8>,
    /// Where applications' bytes are read to.
    block: BytesMut,
    tasks: Vec<JoinHandle<()>>,
}

impl Driver {
    /// A driver for `session`. What it has to say comes out of the receiver. Has to be called
    /// within a `tokio::task::LocalSet`.
    pub fn start(
        session: Session,
        peer: DeviceId,
        clock: Clock,
        log: TransferLog,
        seat: Seat,
    ) -> (Self, mpsc::UnboundedReceiver<Notice>) {
        let (notices, receiver) = mpsc::unbounded_channel();
        let shared = Rc::new_cyclic(|own| {
            RefCell::new(Inner {
                own: own.clone(),
                clock,
                session,
                peer,
                subflows: HashMap::new(),
                streams: HashMap::new(),
                wake: Vec::new(),
                notices,
                timer: Timer::default(),
                turn: seat.turn,
                account: seat.account,
                pending: 0,
                condemned: false,
                starved: VecDeque::new(),
                memory_watched: false,
                log,
                names: HashMap::new(),
                record: Vec::with_capacity(mpbond_session::wire::MAX_RECORD_BYTES),
                block: BytesMut::new(),
                tasks: Vec::new(),
            })
        });
        let task = tokio::task::spawn_local(timer::run(Rc::downgrade(&shared)));
        shared.borrow_mut().tasks.push(task);
        shared.borrow_mut().size_window();
        (Self { shared }, receiver)
    }

    /// Does something to the session and carries the results out.
    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.shared.borrow_mut();
        let result = f(&mut inner);
        inner.settle();
        let wake = std::mem::take(&mut inner.wake);
        drop(inner);
        for w in wake {
            w.wake();
        }
        result
    }

    /// Primary: a connection to the proxy. `setup` needs name, helper and priority only. The
    /// receiver fails when the subflow is gone.
    pub fn add_subflow(
        &self,
        tls: TlsStream,
        setup: SubflowSetup,
    ) -> (SubflowId, oneshot::Receiver<()>) {
        let id = self.with(|inner| {
            let now = inner.clock.now();
            let setup = complete(&tls, setup);
            // Who has one session of its own has room for it.
            let _ = inner.account.take(memory::SUBFLOW);
            inner.names.clear_old(&setup.name);
            let name = setup.name.clone();
            let id = inner.session.add_subflow(now, setup);
            info!(subflow = %id, name, "subflow connected");
            inner.names.insert(id, name);
            id
        });
        let gone = self.run_subflow(id, tls);
        (id, gone)
    }

    /// Proxy: a connection whose hello has been read. `rest` is what its record held besides.
    ///
    /// # Errors
    /// The session refused it; the connection has been told and may be dropped.
    pub fn accept_subflow(
        &self,
        tls: TlsStream,
        hello: &mpbond_session::Hello,
        rest: Bytes,
        octets: u64,
    ) -> Result<SubflowId, mpbond_session::SubflowError> {
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
            let (mpbond_session::Hello::Capable { path, .. }
            | mpbond_session::Hello::Join { path, .. }) = hello;
            info!(subflow = %id, name = path.name, "subflow joined");
            inner.names.clear_old(&path.name);
            inner.names.insert(id, path.name.clone());
            if path.express
                && let Err(e) = socket2::SockRef::from(tls.tcp()).set_keepalive(false)
            {
                // It is idle nearly always, and shall wake no radio.
                debug!(error = %e, "can't switch a keepalive off");
            }
            if !rest.is_empty() {
                let first = inner.session.handle_record(now, id, rest, octets);
                if first.is_err() {
                    inner.account.give_back(memory::SUBFLOW);
                }
                first?;
            }
            Ok(id)
        });
        match accepted {
            Ok(id) => {
                self.run_subflow(id, tls);
                Ok(id)
            }
            Err(e) => {
                tokio::task::spawn_local(refuse(tls, e.clone()));
                Err(e)
            }
        }
    }

    fn run_subflow(&self, id: SubflowId, tls: TlsStream) -> oneshot::Receiver<()> {
        let (sender, gone) = oneshot::channel();
        let io = SubflowIo::new(tls, sender);
        self.with(|inner| {
            inner.subflows.insert(id, io);
        });
        let task = tokio::task::spawn_local(subflow::run(Rc::downgrade(&self.shared), id));
        self.with(|inner| {
            inner.tasks.retain(|t| !t.is_finished());
            inner.tasks.push(task);
        });
        gone
    }

    /// Primary: a new stream for an application's connection. `early` are bytes of it that have
    /// been read already.
    ///
    /// # Errors
    /// The session takes no (more) streams.
    pub fn open(
        &self,
        destination: Destination,
        class: StreamClass,
        early: Bytes,
        socket: impl AppSocket + 'static,
    ) -> Result<StreamId, OpenError> {
        let id = self.with(|inner| {
            let now = inner.clock.now();
            let id = inner.session.open(now, destination, class)?;
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
            let admitted = inner.account.take(memory::STREAM).is_ok();
            if !admitted {
                inner.refuse(id, ResetCode::Overloaded);
            }
            admitted
        })
    }

    /// Proxy: the destination of a stream has been reached.
    pub fn attach(&self, id: StreamId, socket: impl AppSocket + 'static) {
        self.with(|inner| {
            inner.streams.insert(id, StreamIo::new(Box::new(socket)));
        });
        self.run_stream(id);
    }

    /// Proxy: the destination of a stream that was admitted can't be reached.
    pub fn refuse(&self, id: StreamId, code: ResetCode) {
        self.with(|inner| {
            inner.account.give_back(memory::STREAM);
            inner.refuse(id, code);
        });
    }

    fn run_stream(&self, id: StreamId) {
        tokio::task::spawn_local(stream::run(Rc::downgrade(&self.shared), id));
    }

    /// A helper's report on its pipe (for the proxy) and its HS-Path (for us), and how long ago
    /// bytes came down the latter, if ever.
    pub fn helper_report(
        &self,
        id: SubflowId,
        pipe: FarReport,
        hs: FarReport,
        downlink: Option<Duration>,
    ) {
        self.with(|inner| {
            let now = inner.clock.now();
            inner.session.relay_report(now, id, pipe);
            inner.session.handle_far_report(now, id, hs);
            if let Some(since) = downlink {
                inner.session.handle_helper_downlink(now, id, since);
            }
        });
    }

    /// The connection of a subflow must go, though both ends may think it is well.
    pub fn drop_subflow(&self, id: SubflowId) {
        self.with(|inner| inner.close_subflow(id));
    }

    /// Drops the subflows for whose own address `gone` holds.
    pub fn drop_subflows(&self, why: &str, gone: impl Fn(IpAddr) -> bool) {
        self.with(|inner| {
            let is_gone = |io: &SubflowIo| io.local().is_some_and(&gone);
            let ids = inner.subflows.iter().filter(|(_, io)| is_gone(io));
            for id in ids.map(|(id, _)| *id).collect::<Vec<_>>() {
                let name = inner.name(id);
                info!(subflow = %id, name, why, "subflow given up");
                inner.close_subflow(id);
            }
        });
    }

    /// Whether new streams have a way to go: a subflow that the proxy has answered on, and that is
    /// not silent.
    pub fn is_usable(&self) -> bool {
        let inner = self.shared.borrow();
        let now = inner.clock.now();
        let speaks = |s: &SubflowStats| {
            let answered = inner.subflows.get(&s.id).is_some_and(|io| io.answered);
            answered && s.state != SubflowState::Suspect
        };
        inner.session.is_established() && inner.session.subflows(now).iter().any(speaks)
    }

    /// Whether there is a session with connections to the proxy, silent ones included.
    pub fn is_joined(&self) -> bool {
        let inner = self.shared.borrow();
        inner.session.is_established() && !inner.subflows.is_empty()
    }

    /// How long ago stream bytes last moved on a subflow, if ever.
    pub fn subflow_idle(&self, id: SubflowId) -> Option<Duration> {
        let inner = self.shared.borrow();
        let now = inner.clock.now();
        let subflows = inner.session.subflows(now);
        let s = subflows.iter().find(|s| s.id == id)?;
        let last = s.last_in.max(s.last_out)?;
        Some(now.since(last))
    }

    /// Tells the peer to open no new streams.
    pub fn go_away(&self, reason: &str) {
        self.with(|inner| inner.session.go_away(reason));
    }

    /// Proxy: ends the session of a device that is no longer trusted, and tells it so.
    pub fn distrust(&self) {
        self.with(|inner| {
            let reason = "this device is no longer trusted".to_owned();
            inner.end(mpbond_session::CloseCode::NotTrusted, reason);
        });
    }

    /// Has the session end as one that is lost, with this reason.
    pub fn give_up(&self, reason: &str) {
        let inner = self.shared.borrow();
        // Nobody attends to a session that has ended already.
        let _ = inner.notices.send(Notice::Lost(reason.to_owned()));
    }

    /// Runs `f` on the session for status and metrics.
    pub fn inspect<T>(&self, f: impl FnOnce(&Session, &Clock, &DeviceId) -> T) -> T {
        let inner = self.shared.borrow();
        f(&inner.session, &inner.clock, &inner.peer)
    }

    /// Names of subflows, those that are gone included.
    pub fn subflow_names(&self) -> HashMap<SubflowId, String> {
        self.shared.borrow().names.clone()
    }

    /// Ends everything: applications' connections are reset, subflows closed.
    pub fn shut_down(&self) {
        let mut inner = self.shared.borrow_mut();
        let ids: Vec<_> = inner.subflows.keys().copied().collect();
        for id in ids {
            inner.close_subflow(id);
        }
        for task in inner.tasks.drain(..) {
            task.abort();
        }
        for (_, mut s) in inner.streams.drain() {
            s.abort();
            inner_wake(&mut s);
        }
    }
}

fn inner_wake(s: &mut StreamIo) {
    if let Some(w) = s.waker.take() {
        w.wake();
    }
}

fn no_memory(_: Full) -> mpbond_session::SubflowError {
    mpbond_session::SubflowError {
        code: mpbond_session::CloseCode::TooMuch,
        reason: "no memory left".to_owned(),
        by_peer: false,
    }
}

/// Fills in what the TLS connection knows.
fn complete(tls: &TlsStream, setup: SubflowSetup) -> SubflowSetup {
    SubflowSetup {
        exporter: tls.exporter(EXPORTER),
        tx_octets: tls.ciphertext_out(),
        rx_octets: setup.rx_octets,
        ..setup
    }
}

/// The last words on a connection, as far as the socket takes them.
pub fn say_close(tls: &mut TlsStream, e: &mpbond_session::SubflowError) {
    if !e.by_peer {
        let record = mpbond_session::close_record(e.code, &e.reason);
        if tls.queue_record(&record).is_ok() {
            tls.close();
            let mut cx = std::task::Context::from_waker(Waker::noop());
            let _ = tls.poll_flush(&mut cx);
        }
    }
}

/// The last words on a connection that may not have taken any yet: one that has just come to this
/// thread does not know whether it may write.
pub async fn refuse(mut tls: TlsStream, e: mpbond_session::SubflowError) {
    say_close(&mut tls, &e);
    let told = std::future::poll_fn(|cx| tls.poll_flush(cx));
    if !matches!(tokio::time::timeout(LAST_WORDS, told).await, Ok(Ok(()))) {
        debug!(%e, "the other end does not hear why it is refused");
    }
}

impl Inner {
    /// Carries out everything that the session wants done: events, then records, until it wants
    /// nothing more.
    fn settle(&mut self) {
        loop {
            self.events();
            if !self.transmit() {
                break;
            }
        }
        self.account_for();
        self.arm_timer();
    }

    /// Brings the account of memory up to date, and draws the consequences.
    fn account_for(&mut self) {
        // What has arrived lies in its record, which is up to twice as large.
        let pushed = 2 * self.session.unread_bytes() + self.pending;
        self.account.holds(self.session.held_bytes(), pushed);
        self.size_window();
        if !self.starved.is_empty() && self.account.room() > 0 {
            let fed = self.starved.len().min(FED_AT_ONCE);
            self.wake.extend(self.starved.drain(..fed));
        }
        if self.account.is_to_blame() && !self.condemned {
            self.condemned = true;
            self.give_up_for_memory(pushed);
        }
    }

    /// The peer may send what there is room for: its part of it, within what is configured.
    fn size_window(&mut self) {
        let most = self.session.config().receive_window_bytes;
        let part = self.account.memory().part() / 2;
        let wanted = part.clamp(memory::LEAST_WINDOW.min(most), most);
        let now = self.session.receive_window_bytes();
        // Not for every byte: only for a good deal more or less.
        if wanted < now / 2 || wanted / 2 > now || (wanted == most && now != most) {
            self.session.limit_receiving(wanted);
        }
    }

    /// The bound is passed, and this session has more than its share: it ends, and is told why.
    fn give_up_for_memory(&mut self, pushed: u64) {
        let reason = format!("{pushed} bytes wait here, and there is no memory left");
        self.end(mpbond_session::CloseCode::TooMuch, reason);
    }

    /// Tells the other end on all subflows why the session ends here.
    fn end(&mut self, code: mpbond_session::CloseCode, reason: String) {
        let e = mpbond_session::SubflowError {
            code,
            reason: reason.clone(),
            by_peer: false,
        };
        let ids: Vec<_> = self.subflows.keys().copied().collect();
        for id in ids {
            self.say_last(id, &e);
        }
        self.notice(Notice::Lost(reason));
    }

    fn arm_timer(&mut self) {
        let due = self.session.poll_timeout();
        if let Some(w) = self.timer.arm(due) {
            self.wake.push(w);
        }
    }

    fn events(&mut self) {
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Established { session } => {
                    info!(%session, "session established");
                    self.notice(Notice::Established(session));
                }
                Event::StreamOpened {
                    stream,
                    destination,
                    class: _,
                } => {
                    self.turn.spend(turns::OPENING);
                    self.notice(Notice::Opened {
                        stream,
                        destination,
                    });
                }
                Event::StreamReadable(id) => self.deliver(id),
                Event::StreamWritable(id) => self.wake_stream(id),
                Event::StreamStopped { stream, code } => {
                    debug!(%stream, %code, "the other end wants no more of the stream");
                    if let Some(s) = self.streams.get_mut(&stream) {
                        s.stop_reading(code);
                    }
                    self.wake_stream(stream);
                }
                Event::StreamClosed(stats) => {
                    let id = stats.id;
                    self.log_transfer(*stats);
                    if let Some(s) = self.streams.get_mut(&id) {
                        s.closed = true;
                    }
                    self.wake_stream(id);
                }
                Event::SubflowUp(id) => {
                    debug!(subflow = %id, "subflow up");
                    if let Some(io) = self.subflows.get_mut(&id) {
                        io.answered = true;
                    }
                    self.notice(Notice::SubflowUp(id));
                }
                Event::Recalled {
                    subflow,
                    bytes,
                    gain,
                } => debug!(%subflow, bytes, ?gain, "recalled from the slowest subflow"),
                Event::SubflowSuspect(id) => {
                    let name = self.name(id);
                    warn!(subflow = %id, name, "subflow is silent; others take over");
                    self.notice(Notice::Silent(id));
                }
                Event::SubflowClosed {
                    subflow,
                    code,
                    reason,
                } => {
                    let name = self.name(subflow);
                    warn!(%subflow, name, %code, reason, "subflow given up");
                    self.close_subflow(subflow);
                }
                Event::GoAway { reason } => {
                    info!(reason, "the other end takes no new streams");
                    self.notice(Notice::GoAway);
                }
                Event::Lost { reason } => {
                    warn!(reason, "session lost; its streams are reset");
                    let ids: Vec<_> = self.subflows.keys().copied().collect();
                    for id in ids {
                        self.close_subflow(id);
                    }
                    self.notice(Notice::Lost(reason));
                }
            }
        }
    }

    fn refuse(&mut self, id: StreamId, code: ResetCode) {
        let now = self.clock.now();
        self.session.reset(now, id, code);
        self.session.stop(now, id, code);
    }

    fn notice(&self, n: Notice) {
        // Nobody listens any more while the daemon stops.
        let _ = self.notices.send(n);
    }

    fn name(&self, id: SubflowId) -> String {
        self.names.get(&id).cloned().unwrap_or_default()
    }

    fn log_transfer(&mut self, stats: mpbond_session::StreamStats) {
        let session = self.session.id().map(|s| s.to_string()).unwrap_or_default();
        let names = &self.names;
        self.log.push(&session, &stats, |id| {
            names.get(&id).cloned().unwrap_or_else(|| id.to_string())
        });
    }

    fn wake_stream(&mut self, id: StreamId) {
        if let Some(w) = self.streams.get_mut(&id).and_then(|s| s.waker.take()) {
            self.wake.push(w);
        }
    }
}

/// Names are kept for streams that outlive their subflows, within reason.
trait ClearOld {
    fn clear_old(&mut self, newcomer: &str);
}

/// Rejoining for days must not fill memory with names.
const MAX_NAMES: usize = 256;

impl ClearOld for HashMap<SubflowId, String> {
    fn clear_old(&mut self, newcomer: &str) {
        if self.len() >= MAX_NAMES {
            let oldest: VecDeque<_> = {
                let mut ids: Vec<_> = self
                    .iter()
                    .filter(|(_, n)| *n == newcomer)
                    .map(|(id, _)| *id)
                    .collect();
                ids.sort_unstable();
                ids.into()
            };
            for id in oldest.iter().take(oldest.len() / 2) {
                self.remove(id);
            }
            // A peer that calls itself something else each time.
            while self.len() >= MAX_NAMES {
                let Some(oldest) = self.keys().min().copied() else {
                    break;
                };
                self.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_whatever_a_peer_calls_itself() {
        for same in [true, false] {
            let mut names = HashMap::new();
            for n in 0..10_000 {
                let name = if same {
                    "wifi".to_owned()
                } else {
                    format!("wifi {n}")
                };
                names.clear_old(&name);
                names.insert(SubflowId(n), name);
                assert!(names.len() <= MAX_NAMES);
            }
            assert!(names.contains_key(&SubflowId(9_999)));
        }
    }
}
