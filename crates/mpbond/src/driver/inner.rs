//! State of a driver, and the results of its session.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::{Rc, Weak};
use std::task::Waker;

use bytes::BytesMut;
use mpbond_net::DeviceId;
use mpbond_net::blocks::{Block, KeptBlocks};
use mpbond_session::{
    CloseCode, Event, ResetCode, Session, StreamId, StreamStats, SubflowError, SubflowId,
};
use mpbond_units::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};

use super::answer::{Answer, Asker};
use super::clock::Clock;
use super::fair_queue::{OPENING, Turn};
use super::links::OwnLinks;
use super::log::TransferLog;
use super::names::SubflowNames;
use super::notice::Notice;
use super::silences::Silences;
use super::stream_io::StreamIo;
use super::subflow_io::SubflowIo;
use super::timer::Timer;
use super::view;
use crate::memory::{self, Account};
use crate::rate_limited_log::{Line, PeerLog};
use crate::status::SessionStatus;

/// Bytes that blocks may keep beyond twice the bytes that wait in them: less is not worth copies.
const KEPT_BYTES: u64 = 64 << 10;

/// Streams that are woken at once when their own session has given memory back.
const FED_AT_ONCE: usize = 4;

/// A session with its sockets.
pub(super) struct Inner {
    pub(super) own: Weak<RefCell<Inner>>,
    pub(super) clock: Clock,
    pub(super) session: Session,
    pub(super) peer: DeviceId,
    pub(super) subflows: HashMap<SubflowId, SubflowIo>,
    pub(super) streams: HashMap<StreamId, StreamIo>,
    /// Primary: streams whose clients wait until the destination is reached.
    pub(super) asked: HashMap<StreamId, Asker>,
    /// Wakers of tasks that have to run once the borrow ends.
    pub(super) wake: Vec<Waker>,
    pub(super) notices: mpsc::UnboundedSender<Notice>,
    pub(super) timer: Timer,
    pub(super) turn: Turn,
    pub(super) account: Account,
    /// Limits lines about connections that come and go.
    pub(super) lines: Rc<PeerLog<DeviceId>>,
    /// Proxy: links that other sessions may have as well.
    pub(super) links: Option<OwnLinks>,
    /// Bytes that wait for applications' sockets, over all streams.
    pub(super) pending: u64,
    /// Primary: streams that will be opened for clients that are being answered.
    pub(super) reserved: u64,
    /// Nothing is delivered after its end: its memory is needed, or its device is not trusted.
    pub(super) given_up: bool,
    /// When the session ended.
    pub(super) ended_at: Timestamp,
    /// Streams that wait for memory.
    pub(super) starved: VecDeque<Waker>,
    /// A task will look whether there is memory for them.
    pub(super) memory_watched: bool,
    pub(super) log: TransferLog,
    /// It has ended, and its counters are among those of the daemon.
    pub(super) counted: bool,
    pub(super) names: SubflowNames,
    /// Octets of the connections that are closed, by their names.
    pub(super) closed_octets: BTreeMap<String, u64>,
    pub(super) silences: Silences,
    /// Plaintext of the record being made.
    pub(super) record: Vec<u8>,
    /// Buffer into which applications' bytes are read, and the block in which it is.
    pub(super) read: BytesMut,
    pub(super) block: Block,
    /// Blocks that bytes to be sent and to be delivered keep.
    pub(super) kept: KeptBlocks,
    pub(super) tasks: Vec<JoinHandle<()>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.count();
    }
}

/// Changes the session and carries its results out.
pub(super) fn with<T>(shared: &Rc<RefCell<Inner>>, f: impl FnOnce(&mut Inner) -> T) -> T {
    let mut inner = shared.borrow_mut();
    let result = f(&mut inner);
    inner.settle();
    let wake = std::mem::take(&mut inner.wake);
    drop(inner);
    for w in wake {
        w.wake();
    }
    result
}

impl Inner {
    /// Carries out the session's results: events, then records, until there are none.
    pub(super) fn settle(&mut self) {
        loop {
            self.events();
            if !self.transmit() {
                break;
            }
        }
        self.account_for();
        self.arm_timer();
    }

    /// Updates the account of memory, and the window and the streams that depend on it.
    fn account_for(&mut self) {
        self.leave_blocks();
        // What has arrived lies in blocks that are up to twice as large.
        let pieces = self.session.unread_pieces() as u64 * memory::PIECE;
        let pushed = 2 * self.session.unread_bytes() + pieces + self.pending;
        let session = &self.session;
        self.account
            .keeps(session.streams_kept(), session.shares_kept());
        self.account.holds(self.session.held_bytes(), pushed);
        self.size_window();
        if !self.starved.is_empty() && self.account.room() > 0 {
            let fed = self.starved.len().min(FED_AT_ONCE);
            self.wake.extend(self.starved.drain(..fed));
        }
        if self.account.is_to_blame() && !self.given_up {
            self.give_up_for_memory(pushed);
        }
    }

    /// Bytes that wait must not keep far larger blocks, of which all else is gone: then they are
    /// copied. At most as many bytes are copied as are given back.
    fn leave_blocks(&mut self) {
        let session = &self.session;
        let waiting = session.held_bytes() + session.unread_bytes() + self.pending;
        if self.kept.bytes() > 2 * waiting + KEPT_BYTES {
            self.session.leave_blocks();
            for io in self.streams.values_mut() {
                io.leave_blocks();
            }
        }
    }

    /// Sizes the receive window by this session's part of the memory, within the configured window.
    pub(super) fn size_window(&mut self) {
        let most = self.session.config().receive_window_bytes;
        let part = self.account.memory().part() / 2;
        let wanted = part.clamp(memory::LEAST_WINDOW.min(most), most);
        let now = self.session.receive_window_bytes();
        // Not for every byte: only for a good deal more or less.
        if wanted < now / 2 || wanted / 2 > now || (wanted == most && now != most) {
            self.session.limit_receiving(wanted);
        }
    }

    /// The bound is passed, and this session has more than its share: it ends.
    fn give_up_for_memory(&mut self, pushed: u64) {
        let reason = format!("{pushed} bytes wait here, and there is no memory left");
        self.end(CloseCode::TooMuch, reason);
    }

    /// Ends the session, and sends the reason on all subflows. Unless this end stops, nothing that
    /// waits here is delivered any more.
    pub(super) fn end(&mut self, code: CloseCode, reason: String) {
        let e = SubflowError {
            code,
            reason: reason.clone(),
            by_peer: false,
        };
        let ids: Vec<_> = self.subflows.keys().copied().collect();
        for id in ids {
            self.say_last(id, &e);
        }
        self.given_up |= code != CloseCode::GoingAway;
        let now = self.clock.now();
        self.session.end(now);
        self.reset_blocked();
        self.notice(Notice::Lost(reason));
    }

    /// Adds the counters of a session that ends to those of the daemon.
    pub(super) fn count(&mut self) {
        if !std::mem::replace(&mut self.counted, true) {
            self.log.totals().ended(&self.status());
        }
    }

    /// State of the session.
    pub(super) fn status(&self) -> SessionStatus {
        let mut octets = self.closed_octets.clone();
        for io in self.subflows.values() {
            *octets.entry(io.name.clone()).or_default() += io.octets();
        }
        view::session_status(&self.session, &self.clock, &self.peer, &octets)
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
                    if let Some(line) = self.line() {
                        info!(%session, left_out = line.left_out, "session established");
                    }
                    self.notice(Notice::Established(session));
                }
                Event::StreamOpened {
                    stream,
                    destination,
                    class: _,
                } => {
                    self.turn.spend(OPENING);
                    self.notice(Notice::Opened {
                        stream,
                        destination,
                    });
                }
                Event::StreamConnected(id) => self.answer(id, Answer::Connected),
                Event::StreamReadable(id) => self.deliver(id),
                Event::StreamWritable(id) => self.wake_stream(id),
                Event::StreamStopped { stream, code } => {
                    debug!(%stream, %code, "the other end wants no more of the stream");
                    match self.streams.get_mut(&stream) {
                        Some(s) => s.read_over = true,
                        None => self.note_given_up(stream),
                    }
                    self.wake_stream(stream);
                }
                Event::StreamClosed(stats) => {
                    let id = stats.id;
                    if let Some(notice) = refused(&stats) {
                        self.notice(notice);
                    }
                    self.log_transfer(*stats);
                    if let Some(s) = self.streams.get_mut(&id) {
                        s.closed = true;
                    }
                    self.wake_stream(id);
                    self.note_drained();
                }
                Event::Moving => self.notice(Notice::Moving),
                Event::SubflowUp(id) => {
                    debug!(subflow = %id, "subflow up");
                    self.notice(Notice::SubflowUp(id));
                }
                Event::Recalled {
                    subflow,
                    bytes,
                    gain,
                } => debug!(%subflow, bytes, ?gain, "recalled from the slowest subflow"),
                Event::SubflowPotentiallyFailed(id) => {
                    let (now, name) = (self.clock.now(), self.name(id));
                    let line = || self.lines.line(self.peer, now);
                    self.silences.begin(now, id, &name, line);
                    self.notice(Notice::Silent(id));
                }
                Event::SubflowRecovered { subflow, silent } => {
                    let (now, name) = (self.clock.now(), self.name(subflow));
                    let line = || self.lines.line(self.peer, now);
                    self.silences.end(subflow, &name, silent, line);
                }
                Event::SubflowClosed {
                    subflow,
                    octets,
                    code,
                    reason,
                } => {
                    if let Some(line) = self.line() {
                        let (name, left_out) = (self.name(subflow), line.left_out);
                        warn!(%subflow, name, %code, reason, left_out, "subflow given up");
                    }
                    self.silences.forget(subflow);
                    self.notice(Notice::SubflowCut(subflow, octets));
                    self.close_subflow(subflow);
                }
                Event::StreamsAllowed => self.notice(Notice::StreamsAllowed),
                Event::GoAway { reason } => {
                    if let Some(line) = self.line() {
                        let left_out = line.left_out;
                        info!(reason, left_out, "the other end takes no new streams");
                    }
                    self.notice(Notice::GoAway);
                }
                Event::Lost { reason } => {
                    if let Some(Line { left_out }) = self.line() {
                        if self.cuts_streams() {
                            warn!(reason, left_out, "session lost; its streams are reset");
                        } else {
                            info!(reason, left_out, "session over");
                        }
                    }
                    self.reset_blocked();
                    let ids: Vec<_> = self.subflows.keys().copied().collect();
                    for id in ids {
                        self.close_subflow(id);
                    }
                    self.notice(Notice::Lost(reason));
                }
            }
        }
    }

    /// Answers the client that waits for a stream, if one does.
    pub(super) fn answer(&mut self, id: StreamId, answer: Answer) {
        if let Some(asker) = self.asked.remove(&id) {
            // The client may have left.
            let _ = asker.send(answer);
        }
    }

    pub(super) fn refuse(&mut self, id: StreamId, code: ResetCode) {
        let now = self.clock.now();
        self.session.reset(now, id, code);
        self.session.stop(now, id, code);
    }

    /// Whether no stream is open and no application's connection has bytes to take.
    pub(super) fn is_drained(&self) -> bool {
        self.session.stats().streams_open == 0 && self.streams.is_empty()
    }

    /// Reports a stream without a connection that needs none any more.
    pub(super) fn note_given_up(&self, id: StreamId) {
        if self.session.is_given_up(id) {
            self.notice(Notice::GivenUp(id));
        }
    }

    /// Reports a session that takes no new streams and has none left.
    pub(super) fn note_drained(&self) {
        let takes_none = self.session.is_going_away() || self.session.is_lost();
        if takes_none && self.is_drained() {
            self.notice(Notice::Drained);
        }
    }

    pub(super) fn notice(&self, n: Notice) {
        // Nobody listens any more while the daemon stops.
        let _ = self.notices.send(n);
    }

    /// The line about the peer's connections that may be written now, if any.
    pub(super) fn line(&self) -> Option<Line> {
        self.lines.line(self.peer, self.clock.now())
    }

    pub(super) fn name(&self, id: SubflowId) -> String {
        self.names.get(id).unwrap_or_default().to_owned()
    }

    fn log_transfer(&mut self, stats: StreamStats) {
        let session = self.session.id().map(|s| s.to_string()).unwrap_or_default();
        let names = &self.names;
        self.log.push(&session, &stats, |id| {
            let name = names.get(id).map(str::to_owned);
            name.unwrap_or_else(|| id.to_string())
        });
    }

    fn wake_stream(&mut self, id: StreamId) {
        if let Some(w) = self.streams.get_mut(&id).and_then(|s| s.waker.take()) {
            self.wake.push(w);
        }
    }
}

/// Notice of a stream that has ended because its destination was not reached.
fn refused(stats: &StreamStats) -> Option<Notice> {
    let code = stats.reset.filter(|code| code.is_refusal())?;
    let destination = stats.destination.clone()?;
    stats
        .first_in
        .is_none()
        .then_some(Notice::Refused { destination, code })
}
