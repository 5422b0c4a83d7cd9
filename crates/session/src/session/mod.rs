mod app;
mod express;
mod receive;
mod recovery;
mod transmit;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use mpbond_units::{BitRate, Timestamp};
use thiserror::Error;

use crate::config::{BufferDelay, SessionConfig};
use crate::estimator::{FarReport, PathInfo};
use crate::handshake::{Hello, SessionKey};
use crate::range_set::RangeSet;
use crate::scheduler::{Scheduler, SubflowView};
use crate::stats::{SessionStats, StreamStats, SubflowState, SubflowStats};
use crate::stream::Stream;
use crate::subflow::{HelperDownlink, Owed, Phase, SentQueue, Subflow, SubflowSetup};
use crate::wire::{Destination, Frame, Limits, PathLabel, PathReport, VERSION};
use crate::{CloseCode, ResetCode, SessionId, StreamClass, StreamId, SubflowId};

/// Counts of so many subflows that are gone are told to a peer that comes back.
const DEAD_COUNTS: usize = 32;

/// Subflow numbers that were used are kept as ranges. A primary counts up, so that there is one, or
/// a few where a number's connection never came up.
const MAX_ID_RANGES: usize = 1_024;

/// All that ends of a session have to agree on, at one end.
///
/// # What to call, and when
/// * **Facts** go in by `handle_*`: a record arrived ([`handle_record`](Self::handle_record)), a
///   subflow takes more ([`handle_room`](Self::handle_room)), the kernel's view of a path
///   ([`handle_path`](Self::handle_path)), a helper's report
///   ([`handle_far_report`](Self::handle_far_report)), a connection is gone
///   ([`handle_subflow_closed`](Self::handle_subflow_closed)), time has passed
///   ([`handle_timeout`](Self::handle_timeout)).
/// * **The application** calls [`open`](Self::open), [`write`](Self::write),
///   [`read`](Self::read), [`finish`](Self::finish), [`reset`](Self::reset),
///   [`stop`](Self::stop), [`mark_chunk_end`](Self::mark_chunk_end).
/// * After any of these, **results** are fetched by `poll_*` until there are none:
///   [`poll_transmit`](Self::poll_transmit), then [`poll_event`](Self::poll_event), and
///   [`poll_timeout`](Self::poll_timeout) for when to come back.
/// * **Getters** change nothing.
///
/// A subflow is a reliable, ordered channel of records. The session never blocks and never fails
/// as a whole because of what one subflow carried: an error closes that subflow.
pub struct Session {
    config: SessionConfig,
    client: bool,
    id: Option<SessionId>,
    key: Option<SessionKey>,
    random: [u8; 32],
    established: bool,
    lost: bool,
    going_away: bool,

    next_subflow: u32,
    subflows: Vec<Subflow>,
    used_ids: RangeSet,
    /// Final counts of subflows that are gone, for a peer that rejoins.
    dead: VecDeque<(SubflowId, u64)>,
    tell_dead: bool,
    /// What the last subflows owed when none was left to take it over.
    limbo: Vec<(SubflowId, SentQueue)>,
    lonely_since: Option<Timestamp>,
    scheduler: Box<dyn Scheduler + Send>,
    views: Vec<SubflowView>,

    next_stream: u64,
    streams: HashMap<StreamId, Stream>,
    closed: RangeSet,
    /// Streams with something to send: interactive ones, then the others.
    ready: [VecDeque<StreamId>; 2],
    /// Streams whose application waits to write.
    blocked: Vec<StreamId>,
    /// Streams with OPEN, RESET, STOP or MAX_STREAM_DATA to write.
    signalling: VecDeque<StreamId>,

    peer: Limits,
    /// Unique bytes scheduled, which the peer's session window bounds.
    tx_data: u64,
    /// Unscheduled bytes: the meta buffer.
    backlog: u64,
    /// Bytes to be sent again, of those.
    again: u64,
    /// Bytes kept for sending.
    held: u64,
    /// Unique bytes that arrived or were announced, and those that the application has read.
    rx_data: u64,
    read_data: u64,
    granted_data: u64,
    /// What the peer may have on the way or unread here now: the configuration's or less.
    receive_window: u64,
    /// In how many pieces the bytes of all streams wait.
    pieces: usize,
    max_data_wanted: bool,
    granted_streams: u64,
    max_streams_wanted: bool,
    /// How many streams are stalled.
    stalled_streams: usize,
    /// When to look for streams whose application has stopped reading.
    stall_check: Option<Timestamp>,

    ack_octets: u64,
    ack_since: Option<Timestamp>,
    ack_turn: u64,
    /// Least difference of our clock to the peer's, in microseconds, and when it was seen.
    clock_offset: Option<(i64, Timestamp)>,
    /// Over which subflow the last ACK came, and when.
    last_ack: Option<(SubflowId, Timestamp)>,
    reports: Vec<(PathReport, Timestamp)>,
    report_number: u64,
    report_seen: u64,
    priorities: VecDeque<SubflowId>,
    cuts: VecDeque<SubflowId>,
    go_away: Option<String>,

    /// Client: how often it has asked whether subflows work since bytes last arrived or a stream was
    /// opened, and when it last did.
    asks: u32,
    asked_at: Timestamp,
    /// Client: streams on which an answer is awaited.
    awaiting: usize,
    defer_until: Option<Timestamp>,
    /// A stream was left for a faster subflow than the one that asked.
    spared: bool,
    owed: Vec<Owed>,
    events: VecDeque<Event>,
    stats: SessionStats,
    /// Bytes sent and bytes recalled when nothing was last under way.
    idle_mark: (u64, u64),
}

/// Something the driver has to know or to do.
#[derive(Debug)]
pub enum Event {
    /// Client: the proxy has answered; the session exists.
    Established {
        /// Its id at the proxy.
        session: SessionId,
    },
    /// Server: a new stream.
    StreamOpened {
        /// Its number.
        stream: StreamId,
        /// Where it leads.
        destination: Destination,
        /// What kind of traffic.
        class: StreamClass,
    },
    /// [`Session::read`] has something new to say.
    StreamReadable(StreamId),
    /// [`Session::send_budget`] was zero and no longer is.
    StreamWritable(StreamId),
    /// The peer wants no more bytes of this stream; its sending half is over.
    StreamStopped {
        /// Which.
        stream: StreamId,
        /// Why.
        code: ResetCode,
    },
    /// A stream is over, both ways, and forgotten.
    StreamClosed(Box<StreamStats>),
    /// A subflow's hello was answered: it counts.
    SubflowUp(SubflowId),
    /// Bytes were recalled from the slowest subflow, to be sent again on others.
    Recalled {
        /// The slowest.
        subflow: SubflowId,
        /// How many.
        bytes: u64,
        /// How much later it would have finished than the fastest.
        gain: Duration,
    },
    /// A subflow stays silent, and others do its work meanwhile.
    SubflowSuspect(SubflowId),
    /// Close this connection: the session has given the subflow up, or the peer has.
    SubflowClosed {
        /// Which.
        subflow: SubflowId,
        /// Why.
        code: CloseCode,
        /// The same for people.
        reason: String,
    },
    /// The peer takes no new streams.
    GoAway {
        /// Why, for people.
        reason: String,
    },
    /// The session is over; all its streams were reset.
    Lost {
        /// Why, for people.
        reason: String,
    },
}

/// What [`Session::read`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// The next bytes, in order.
    Data(Bytes),
    /// All bytes have been read: the peer has finished.
    Fin,
    /// The peer gave the stream up.
    Reset(ResetCode),
    /// Nothing now.
    Pending,
}

/// A record to be encrypted and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// On which subflow.
    pub subflow: SubflowId,
    /// Ciphertext octets of that subflow's TLS stream when the record is written.
    pub octets_end: u64,
}

/// No stream can be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OpenError {
    /// As many streams are open as the peer allows.
    #[error("as many streams are open as the proxy allows")]
    Limit,
    /// The session is lost, or the peer is shutting down.
    #[error("the session takes no new streams")]
    Closed,
}

/// A subflow misbehaved and was closed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{code}: {reason}")]
pub struct SubflowError {
    /// What to tell the peer (see [`close_record`]); `None` when the peer closed it.
    pub code: CloseCode,
    /// Details.
    pub reason: String,
    /// The peer closed it.
    pub by_peer: bool,
}

impl SubflowError {
    fn ours(code: CloseCode, reason: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            by_peer: false,
        }
    }
}

/// The last record on a subflow, telling the peer why it closes.
pub fn close_record(code: CloseCode, reason: &str) -> Vec<u8> {
    let mut out = Vec::new();
    Frame::Close {
        code,
        reason: reason.to_owned(),
    }
    .encode(&mut out);
    out
}

impl Session {
    /// A primary's end. `random` must be 32 fresh random octets.
    pub fn client(config: SessionConfig, random: [u8; 32]) -> Self {
        Self::new(config, true, random)
    }

    /// A proxy's end, answering `hello`, which must be [`Hello::Capable`]. `id` and `random` must
    /// be fresh random octets. The hello's connection then goes to
    /// [`accept_subflow`](Self::accept_subflow).
    pub fn server(config: SessionConfig, id: SessionId, random: [u8; 32], hello: &Hello) -> Self {
        let mut s = Self::new(config, false, random);
        s.id = Some(id);
        s.established = true;
        if let Hello::Capable {
            random: client,
            limits,
            ..
        } = hello
        {
            s.key = Some(SessionKey::derive(client, &s.random, id));
            s.peer = *limits;
        }
        s
    }

    fn new(config: SessionConfig, client: bool, random: [u8; 32]) -> Self {
        let scheduler = config.scheduler.build();
        Self {
            granted_data: config.receive_window_bytes,
            receive_window: config.receive_window_bytes,
            granted_streams: config.max_streams,
            config,
            client,
            id: None,
            key: None,
            random,
            established: false,
            lost: false,
            going_away: false,
            next_subflow: 1,
            subflows: Vec::new(),
            used_ids: RangeSet::default(),
            dead: VecDeque::new(),
            tell_dead: false,
            limbo: Vec::new(),
            lonely_since: None,
            scheduler,
            views: Vec::new(),
            next_stream: 0,
            streams: HashMap::new(),
            closed: RangeSet::default(),
            ready: [VecDeque::new(), VecDeque::new()],
            blocked: Vec::new(),
            signalling: VecDeque::new(),
            peer: Limits {
                max_data: 0,
                max_stream_data: 0,
                max_streams: 0,
            },
            tx_data: 0,
            backlog: 0,
            again: 0,
            held: 0,
            rx_data: 0,
            read_data: 0,
            pieces: 0,
            max_data_wanted: false,
            max_streams_wanted: false,
            stalled_streams: 0,
            stall_check: None,
            ack_octets: 0,
            ack_since: None,
            ack_turn: 0,
            clock_offset: None,
            last_ack: None,
            reports: Vec::new(),
            report_number: 0,
            report_seen: 0,
            priorities: VecDeque::new(),
            cuts: VecDeque::new(),
            go_away: None,
            asks: 0,
            asked_at: Timestamp::ZERO,
            awaiting: 0,
            defer_until: None,
            spared: false,
            owed: Vec::new(),
            events: VecDeque::new(),
            stats: SessionStats::default(),
            idle_mark: (0, 0),
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_data: self.granted_data,
            max_stream_data: self.hello_stream_window(),
            max_streams: self.granted_streams,
        }
    }

    // ---- subflows -------------------------------------------------------------------------

    /// Client: a connection to the proxy is up, its TLS handshake done. The first one opens the
    /// session, the others join it once it exists; any may come first.
    pub fn add_subflow(&mut self, now: Timestamp, setup: SubflowSetup) -> SubflowId {
        let id = SubflowId(self.next_subflow);
        self.next_subflow += 1;
        let opening = self
            .subflows
            .iter()
            .any(|s| matches!(s.phase, Phase::SendHello(_) | Phase::AwaitOk));
        let mut subflow = Subflow::new(id, Phase::AwaitSession, setup, now);
        if self.established || !opening {
            subflow.phase = Phase::SendHello(Box::new(self.hello(&subflow)));
        }
        if !subflow.express {
            self.lonely_since = None;
        }
        self.subflows.push(subflow);
        id
    }

    /// Client: the hello for a subflow as things stand.
    fn hello(&self, s: &Subflow) -> Frame {
        let path = PathLabel {
            helper: s.helper,
            backup: s.backup,
            express: s.express,
            name: s.name.clone(),
        };
        match (&self.key, self.id) {
            (Some(key), Some(session)) => Frame::MpJoin {
                version: VERSION,
                session,
                subflow: s.id,
                proof: key.prove(true, session, s.id, &s.exporter),
                path,
            },
            _ => Frame::MpCapable {
                version: VERSION,
                random: self.random,
                subflow: s.id,
                limits: self.limits(),
                path,
            },
        }
    }

    /// Server: a connection brought this hello. On success the subflow belongs to the session.
    ///
    /// # Errors
    /// A wrong proof, a number used before, or too many subflows: close the connection with the
    /// code. Name, helper and priority are taken from the hello.
    pub fn accept_subflow(
        &mut self,
        now: Timestamp,
        setup: SubflowSetup,
        hello: &Hello,
    ) -> Result<SubflowId, SubflowError> {
        let (Some(key), Some(session)) = (&self.key, self.id) else {
            return Err(SubflowError::ours(
                CloseCode::UnknownSession,
                "no session key",
            ));
        };
        let (id, path, answer) = match hello {
            Hello::Capable { subflow, path, .. } => (
                *subflow,
                path,
                Frame::MpOk {
                    version: VERSION,
                    random: self.random,
                    session,
                    limits: self.limits(),
                },
            ),
            Hello::Join {
                subflow,
                proof,
                path,
                ..
            } => {
                if !key.verify(true, session, *subflow, &setup.exporter, proof) {
                    return Err(SubflowError::ours(
                        CloseCode::BadProof,
                        format!("subflow {subflow}"),
                    ));
                }
                let proof = key.prove(false, session, *subflow, &setup.exporter);
                (*subflow, path, Frame::MpJoinOk { proof })
            }
        };
        let opens = matches!(hello, Hello::Capable { .. });
        let limit = self.places_for(path.express, opens)?;
        if self.subflows.len() >= limit {
            return Err(SubflowError::ours(
                CloseCode::TooMuch,
                format!("{limit} subflows are the limit"),
            ));
        }
        let number = u64::from(id.0);
        if self.used_ids.ranges() >= MAX_ID_RANGES {
            return Err(SubflowError::ours(
                CloseCode::TooMuch,
                "subflow numbers with too many gaps",
            ));
        }
        if self.used_ids.insert(number..number + 1) == 0 {
            return Err(SubflowError::ours(
                CloseCode::SubflowIdReused,
                format!("subflow {id}"),
            ));
        }
        let setup = SubflowSetup {
            name: path.name.clone(),
            helper: path.helper,
            backup: path.backup,
            express: path.express,
            ..setup
        };
        let phase = Phase::SendHello(Box::new(answer));
        if !setup.express {
            self.lonely_since = None;
        }
        self.subflows.push(Subflow::new(id, phase, setup, now));
        Ok(id)
    }

    fn index(&self, id: SubflowId) -> Option<usize> {
        self.subflows.iter().position(|s| s.id == id)
    }

    /// The subflow takes `octets` of ciphertext now; it is idle, in the paper's word, while that is
    /// more than zero. Every record taken by [`poll_transmit`](Self::poll_transmit) lowers it.
    pub fn handle_room(&mut self, id: SubflowId, octets: u64) {
        if let Some(i) = self.index(id) {
            self.subflows[i].room = octets;
        }
    }

    /// Octets of ciphertext were read from a subflow's connection, whether or not they complete a
    /// record: tells at what pace they arrive.
    pub fn handle_arrival(&mut self, now: Timestamp, id: SubflowId, octets: u64) {
        if let Some(i) = self.index(id) {
            self.subflows[i].pace.arrived(now, octets);
        }
    }

    /// A record turned out longer on the wire than foreseen, since TLS had to say something of its
    /// own before it (KeyUpdate): `octets` of ciphertext have been written in all.
    pub fn handle_octets(&mut self, id: SubflowId, octets: u64) {
        if let Some(i) = self.index(id) {
            let s = &mut self.subflows[i];
            s.tx_octets = s.tx_octets.max(octets);
        }
    }

    /// The kernel's view of the near hop. Call it before `poll_transmit` when the last view is
    /// older than a few milliseconds and data is flowing.
    pub fn handle_path(&mut self, now: Timestamp, id: SubflowId, info: PathInfo) {
        if let Some(i) = self.index(id) {
            self.subflows[i].estimator.on_path(now, info);
        }
    }

    /// A helper's report on the far hop in the direction that this end sends.
    pub fn handle_far_report(&mut self, now: Timestamp, id: SubflowId, report: FarReport) {
        if let Some(i) = self.index(id) {
            self.subflows[i].estimator.on_far_report(now, report);
        }
    }

    /// A helper says how long ago bytes last came down its own link: whether feedback would find
    /// that radio awake (MPBond section 4.2, flexible feedback). The pipe may go on bringing what
    /// the helper holds for long after.
    pub fn handle_helper_downlink(&mut self, now: Timestamp, id: SubflowId, since: Duration) {
        if let Some(i) = self.index(id) {
            self.subflows[i].downlink = Some(HelperDownlink {
                quiet: since,
                read_at: now,
            });
        }
    }

    /// A helper's report on the hop that the *peer* cannot see: goes to the peer as PATH_REPORT,
    /// over a subflow that the feedback rule allows.
    pub fn relay_report(&mut self, now: Timestamp, id: SubflowId, report: FarReport) {
        if self.index(id).is_none() {
            return;
        }
        self.report_number += 1;
        let frame = PathReport {
            number: self.report_number,
            subflow: id,
            throughput: report.throughput,
            rtt: report.rtt,
            level_bytes: report.level_bytes,
            age: report.age,
            sojourn: match self.config.buffer_delay {
                BufferDelay::Estimated => None,
                BufferDelay::Measured => report.sojourn,
            },
        };
        self.reports.retain(|(r, _)| r.subflow != id);
        self.reports.push((frame, now));
    }

    /// Makes a subflow regular or backup, here and at the peer.
    pub fn set_backup(&mut self, id: SubflowId, backup: bool) {
        if let Some(i) = self.index(id) {
            self.subflows[i].backup = backup;
            if !self.priorities.contains(&id) {
                self.priorities.push_back(id);
            }
        }
    }

    // ---- getters --------------------------------------------------------------------------

    /// The session's id at the proxy, once known.
    pub fn id(&self) -> Option<SessionId> {
        self.id
    }

    /// The configuration it runs with.
    pub fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// Whether both ends know the session.
    pub fn is_established(&self) -> bool {
        self.established && !self.lost
    }

    /// Whether the session has ended.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Counters.
    pub fn stats(&self) -> SessionStats {
        SessionStats {
            streams_open: self.streams.len() as u64,
            ..self.stats
        }
    }

    /// Bytes that no subflow has been given yet.
    pub fn unscheduled_bytes(&self) -> u64 {
        self.backlog
    }

    /// Bytes kept until the peer has them.
    pub fn held_bytes(&self) -> u64 {
        self.held
    }

    /// Bytes that wait here for gaps to be filled or for the application to read.
    pub fn waiting_bytes(&self) -> u64 {
        self.streams.values().map(|s| s.recv.waiting_bytes()).sum()
    }

    /// Bytes that have arrived or were announced, and that the application has not read.
    pub fn unread_bytes(&self) -> u64 {
        self.rx_data - self.read_data
    }

    /// Whether stream bytes are on their way on some subflow, or wait to be; the end of a stream
    /// counts, though it has no bytes.
    pub fn is_sending(&self) -> bool {
        let waits = self.ready.iter().any(|queue| !queue.is_empty());
        waits || self.backlog > 0 || self.subflows.iter().any(|s| s.sent.data_bytes > 0)
    }

    /// Every subflow as it stands.
    pub fn subflows(&self, now: Timestamp) -> Vec<SubflowStats> {
        self.subflows
            .iter()
            .map(|s| self.subflow_stats(now, s))
            .collect()
    }

    fn subflow_stats(&self, now: Timestamp, s: &Subflow) -> SubflowStats {
        SubflowStats {
            id: s.id,
            name: s.name.clone(),
            helper: s.helper,
            state: match (&s.phase, s.suspect, s.backup) {
                (_, Some(_), _) => SubflowState::Suspect,
                (Phase::Up | Phase::AwaitJoinOk, None, _) if s.express => SubflowState::Express,
                (Phase::Up | Phase::AwaitJoinOk, None, true) => SubflowState::Backup,
                (Phase::Up | Phase::AwaitJoinOk, None, false) => SubflowState::Up,
                _ => SubflowState::Joining,
            },
            bytes_in: s.bytes_in,
            bytes_out: s.bytes_out,
            redundant_bytes_out: s.redundant_out,
            last_in: s.last_in,
            last_out: s.last_out,
            pad: s
                .estimator
                .pad(now, s.tx_octets, s.acked_octets, self.config.buffer_delay),
            b_near_bytes: s.estimator.b_near(now, s.tx_octets),
            b_far_bytes: s.estimator.b_far(now, s.tx_octets, s.acked_octets),
            throughput: s.estimator.throughput(now),
            far_throughput: s.estimator.far_throughput(now),
            rtt: s.estimator.rtt(),
        }
    }

    /// Every open stream as it stands.
    pub fn streams(&self) -> Vec<StreamStats> {
        let mut all: Vec<_> = self
            .streams
            .iter()
            .map(|(id, s)| s.stats(*id, None))
            .collect();
        all.sort_by_key(|s| s.id);
        all
    }

    // ---- results --------------------------------------------------------------------------

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        // A due ACK that no subflow takes waits for room, not for time.
        let spared = self.spares_expresses();
        let takes = |s: &Subflow| s.room > 0 && s.carries() && !(spared && s.express);
        let room = self.subflows.iter().any(takes);
        let ack = self.ack_since.filter(|_| room);
        let ack = ack.map(|t| t + self.config.ack_delay);
        let lonely = self.lonely_since.map(|t| t + self.config.resume_for);
        let silence = self.subflows.iter().filter_map(|s| self.silence_ends(s));
        [
            ack,
            self.defer_until,
            lonely,
            self.stall_check,
            self.ask_at(),
        ]
        .into_iter()
        .flatten()
        .chain(silence)
        .min()
    }

    // ---- what streams and windows have in common ------------------------------------------

    /// Brings the sums and queues up to date after something happened to a stream.
    fn touch(&mut self, id: StreamId) {
        let Some(s) = self.streams.get_mut(&id) else {
            return;
        };
        let (backlog, again) = match s.reset_out {
            Some(_) => (0, 0),
            None => (s.send.untransmitted(), s.send.again_bytes()),
        };
        self.backlog = self.backlog - s.backlog + backlog;
        s.backlog = backlog;
        let awaits = s.awaits_answer();
        self.awaiting = self.awaiting + usize::from(awaits) - usize::from(s.awaits);
        s.awaits = awaits;
        self.again = self.again - s.again + again;
        s.again = again;
        if !s.queued && s.sendable() {
            s.queued = true;
            self.ready[queue_of(s.class)].push_back(id);
        }
    }

    fn signal(&mut self, id: StreamId) {
        if !self.signalling.contains(&id) {
            self.signalling.push_back(id);
        }
    }

    /// Forgets a stream that is over both ways.
    fn close_if_done(&mut self, now: Timestamp, id: StreamId) {
        if !self.streams.get(&id).is_some_and(Stream::done) {
            return;
        }
        let Some(s) = self.streams.remove(&id) else {
            return;
        };
        self.backlog -= s.backlog;
        self.again -= s.again;
        self.held -= s.send.held_bytes();
        self.stalled_streams -= usize::from(s.stalled);
        self.awaiting -= usize::from(s.awaits);
        self.closed.insert(id.0..id.0 + 1);
        self.blocked.retain(|b| *b != id);
        if !self.client {
            // As many as may be open, above those that are over.
            let grant = self.closed.len() + self.config.max_streams;
            if grant >= self.granted_streams + self.config.max_streams / 4 {
                self.granted_streams = grant;
                self.max_streams_wanted = true;
            }
        }
        self.events
            .push_back(Event::StreamClosed(Box::new(s.stats(id, Some(now)))));
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .field("subflows", &self.subflows)
            .field("streams", &self.streams)
            .field("backlog", &self.backlog)
            .field("tx_data", &self.tx_data)
            .field("peer", &self.peer)
            .field("rx_data", &self.rx_data)
            .field("read_data", &self.read_data)
            .field("granted_data", &self.granted_data)
            .field("defer_until", &self.defer_until)
            .finish_non_exhaustive()
    }
}

fn queue_of(class: StreamClass) -> usize {
    match class {
        StreamClass::Interactive => 0,
        StreamClass::Bulk => 1,
    }
}

fn record_time(rate: BitRate) -> Duration {
    rate.time_for(crate::wire::MAX_RECORD_BYTES as u64)
        .min(Duration::from_secs(1))
}

#[cfg(test)]
mod tests;
