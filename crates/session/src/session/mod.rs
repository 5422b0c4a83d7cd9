//! One endpoint of a multipath session: its parts, and how facts and time reach them.
//!
//! A part owns its state and is given the others that it needs:
//!
//! | Part | Owns |
//! | --- | --- |
//! | [`identity`] | which session this is, and how far it has come |
//! | [`subflows`] | all subflows and their numbers |
//! | [`shared_links`] | links of helpers to which there are several pipes |
//! | [`streams`] | all streams, the queues of those with something to do, sums over all |
//! | [`flow`] | windows both ways, unread bytes, stalled readers |
//! | [`feedback`] | acknowledgements and reports, and the subflow that carries them |
//! | [`control`] | control frames of the session as a whole |
//! | [`short_exchanges`] | short exchanges beside transfers |
//! | [`movement`] | pauses in which no stream bytes move |
//! | [`health`] | when a subflow is probed, counts as failed, is given up |
//! | [`reinject`] | which bytes are given to another subflow as well |
//! | [`resume`] | what is kept of lost subflows |
//! | [`timer`] | deadlines |
//!
//! The other modules are methods of [`Session`]: [`app`] for applications, [`join`] for
//! connections, [`receive`] for records that arrive, [`transmit`] for records that are sent,
//! [`lifecycle`] for timeouts and ends.

mod app;
mod control;
mod error;
mod event;
mod feedback;
mod flow;
mod health;
mod identity;
mod join;
mod lifecycle;
mod movement;
mod order;
mod receive;
mod reinject;
mod resume;
mod shared_links;
mod short_exchanges;
mod streams;
mod subflows;
mod timer;
mod transmit;

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_units::Timestamp;

pub use error::{OpenError, SubflowError, TreatmentError, close_record};
pub use event::{Event, Read, Transmit};
pub use health::IDLE_LONG;

use crate::SubflowId;
use crate::config::SessionConfig;
use crate::estimator::{FarReport, PathInfo};
use crate::handshake::{Hello, SessionKey};
use crate::known_paths::KnownPaths;
use crate::path_bytes::{ByName, PathBytes};
use crate::scheduler::{Scheduler, SubflowView};
use crate::stats::{SessionStats, StreamStats, SubflowStats};
use crate::subflow::{HelperDownlink, SentFrame};
use crate::wire::Capabilities;
use crate::{SessionId, StreamClass, StreamId};
use control::Control;
use feedback::Feedback;
use flow::Flow;
use health::{Liveness, Watch};
use identity::Identity;
use movement::Movement;
pub(crate) use order::Place;
use reinject::{Reinjection, Work};
use resume::Resume;
use short_exchanges::ShortExchanges;
use streams::Streams;
use subflows::Subflows;
use timer::{Deadlines, Timer};

/// One endpoint of a multipath session.
///
/// # Order of calls
/// * **Facts** go in by `handle_*`: a record arrived ([`handle_record`](Self::handle_record)), a
///   socket takes more ([`handle_room`](Self::handle_room)), the kernel's view of a path
///   ([`handle_path`](Self::handle_path)), a helper's report
///   ([`handle_far_report`](Self::handle_far_report)), a connection is gone
///   ([`handle_subflow_closed`](Self::handle_subflow_closed)), time has passed
///   ([`handle_timeout`](Self::handle_timeout)).
/// * **The application** calls [`open`](Self::open), [`write`](Self::write),
///   [`read`](Self::read), [`finish`](Self::finish), [`reset`](Self::reset),
///   [`stop`](Self::stop), [`mark_chunk_end`](Self::mark_chunk_end).
/// * After any of these, **results** are fetched by `poll_*` until there are none:
///   [`poll_transmit`](Self::poll_transmit), then [`poll_event`](Self::poll_event), and
///   [`poll_timeout`](Self::poll_timeout) for the time of the next call.
/// * **Getters** change nothing.
///
/// A subflow is a reliable, ordered channel of records. The session never blocks. An error in
/// what one subflow carried closes that subflow only; of the close codes, `UnknownSession`,
/// `GoingAway` and `NotTrusted` end the session, too.
pub struct Session {
    config: SessionConfig,
    identity: Identity,
    subflows: Subflows,
    streams: Streams,
    flow: Flow,
    feedback: Feedback,
    control: Control,
    scheduler: Box<dyn Scheduler + Send>,
    reinjection: Reinjection,
    liveness: Liveness,
    short_exchanges: ShortExchanges,
    movement: Movement,
    resume: Resume,
    /// Deadlines that do not follow from the state of other parts.
    timers: Deadlines,
    events: VecDeque<Event>,
    stats: SessionStats,
    /// Bytes of subflows that are gone.
    gone: ByName,
    /// What is known of the paths of such subflows.
    known: KnownPaths,
    scratch: Scratch,
}

/// Memory of the transmit path, kept to save allocations.
#[derive(Default)]
struct Scratch {
    /// Frames of the record that is being written.
    frames: Vec<SentFrame>,
    /// Views of the subflows that the scheduler chooses from.
    views: Vec<SubflowView>,
    /// A short stream was left to a faster subflow than the one that asked.
    left_to_faster: bool,
    /// Data was left to a time when others keep a link less busy: no event tells when.
    gave_way: bool,
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
        s.identity.id = Some(id);
        s.identity.established = true;
        if let Hello::Capable {
            random: client,
            limits,
            capabilities,
            ..
        } = hello
        {
            s.identity.peer = Some(*capabilities);
            s.identity.key = Some(SessionKey::derive(&client.0, &random, id));
            s.flow.peer = *limits;
        }
        s
    }

    fn new(config: SessionConfig, client: bool, random: [u8; 32]) -> Self {
        Self {
            identity: Identity::new(client, random),
            subflows: Subflows::new(),
            streams: Streams::new().with_order(config.stream_order),
            flow: Flow::new(&config),
            feedback: Feedback::new(&config),
            control: Control::default(),
            scheduler: config.scheduler.build(),
            reinjection: Reinjection::new(&config.reinjection),
            liveness: Liveness::default(),
            short_exchanges: ShortExchanges::default(),
            movement: Movement::default(),
            resume: Resume::new(config.resume_for),
            timers: Deadlines::default(),
            events: VecDeque::new(),
            stats: SessionStats::default(),
            gone: ByName::default(),
            known: KnownPaths::default(),
            scratch: Scratch::default(),
            config,
        }
    }

    // ---- facts ----------------------------------------------------------------------------

    /// The subflow's socket takes `octets` of ciphertext now; a subflow without room gets no
    /// records. Every record taken by [`poll_transmit`](Self::poll_transmit) lowers it.
    pub fn handle_room(&mut self, id: SubflowId, octets: u64) {
        if let Some(s) = self.subflows.by_id_mut(id) {
            s.tx.room = octets;
        }
    }

    /// Octets of ciphertext were read from a subflow's connection, whether or not they complete a
    /// record: shows the rate at which they arrive.
    pub fn handle_arrival(&mut self, now: Timestamp, id: SubflowId, octets: u64) {
        if let Some(s) = self.subflows.by_id_mut(id) {
            s.rx.rate.arrived(now, octets);
        }
    }

    /// A record turned out longer on the wire than foreseen, since TLS had to write something
    /// before it (KeyUpdate): `octets` of ciphertext have been written in all.
    pub fn handle_octets(&mut self, id: SubflowId, octets: u64) {
        if let Some(s) = self.subflows.by_id_mut(id) {
            s.tx.octets = s.tx.octets.max(octets);
        }
    }

    /// The kernel's view of the near hop. Call it before `poll_transmit` when the last view is
    /// older than a few milliseconds and data is flowing.
    pub fn handle_path(&mut self, now: Timestamp, id: SubflowId, info: PathInfo) {
        let short = self.short_exchanges.is_recent(now);
        if let Some(s) = self.subflows.by_id_mut(id) {
            let short = short || s.giving_way.keeps_short();
            s.on_path(now, info, short);
        }
        self.subflows.share(now, self.identity.client);
    }

    /// A helper's report on the far hop in the direction that this end sends.
    pub fn handle_far_report(&mut self, now: Timestamp, id: SubflowId, report: FarReport) {
        if let Some(s) = self.subflows.by_id_mut(id) {
            s.estimator.on_far_report(now, report);
        }
    }

    /// A helper reports how long ago bytes last came down its own link: whether feedback would find
    /// that radio awake (MPBond section 6.2, "Benefit of Flexible Feedback"). The pipe may go on
    /// bringing what the helper holds for long after.
    pub fn handle_helper_downlink(&mut self, now: Timestamp, id: SubflowId, since: Duration) {
        if let Some(s) = self.subflows.by_id_mut(id) {
            s.radio.downlink = Some(HelperDownlink {
                quiet: since,
                read_at: now,
            });
        }
    }

    /// A helper's report on the hop that the *peer* cannot see: goes to the peer as PATH_REPORT,
    /// over a subflow that the feedback rule allows.
    pub fn relay_report(&mut self, now: Timestamp, id: SubflowId, report: FarReport) {
        if self.subflows.by_id(id).is_some() {
            self.feedback.relay(now, id, report);
        }
    }

    /// What an earlier session of the same peers has shown of its paths: subflows that join from
    /// now on begin with it. Both sessions are told the time by the same clock.
    pub fn remember(&mut self, known: KnownPaths) {
        self.known = known;
    }

    // ---- getters --------------------------------------------------------------------------

    /// What is known of the paths of this session, for the next one.
    pub fn known_paths(&self) -> KnownPaths {
        let mut known = self.known.clone();
        for s in self.subflows.iter() {
            known.note(s);
        }
        known
    }

    /// The session's id at the proxy, once known.
    pub fn id(&self) -> Option<SessionId> {
        self.identity.id
    }

    /// The configuration it runs with.
    pub fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// Capabilities of the peer, as its hello announced; `None` until that has arrived.
    pub fn peer_capabilities(&self) -> Option<&Capabilities> {
        self.identity.peer.as_ref()
    }

    /// Whether both ends know the session.
    pub fn is_established(&self) -> bool {
        self.identity.established && !self.identity.lost
    }

    /// Whether one of the ends takes no new streams.
    pub fn is_going_away(&self) -> bool {
        self.identity.going_away
    }

    /// Whether the session has ended.
    pub fn is_lost(&self) -> bool {
        self.identity.lost
    }

    /// Counters.
    pub fn stats(&self) -> SessionStats {
        SessionStats {
            streams_open: self.streams.len() as u64,
            ..self.stats
        }
    }

    /// Numbers of open streams, in the order of [`StreamClass::IN_ORDER`].
    pub fn streams_open_by_class(&self) -> [u64; StreamClass::IN_ORDER.len()] {
        let mut open = StreamClass::IN_ORDER.map(|_| 0);
        for stream in self.streams.values() {
            let of_class = StreamClass::IN_ORDER.iter().zip(&mut open);
            of_class.for_each(|(class, n)| *n += u64::from(*class == stream.treatment.class));
        }
        open
    }

    /// Bytes that no subflow has been given yet.
    pub fn unscheduled_bytes(&self) -> u64 {
        self.streams.unscheduled_in_all()
    }

    /// Bytes kept until the peer has them.
    pub fn held_bytes(&self) -> u64 {
        self.streams.held()
    }

    /// Bytes that wait here for gaps to be filled or for the application to read.
    pub fn waiting_bytes(&self) -> u64 {
        let streams = self.streams.values();
        streams.map(|s| s.recv.buffer.waiting_bytes()).sum()
    }

    /// Bytes that have arrived or were announced, and that the application has not read.
    pub fn unread_bytes(&self) -> u64 {
        self.flow.unread()
    }

    /// Copies all bytes that are held to be sent or that wait to be read. Those that were written,
    /// or have arrived, as slices of larger blocks keep them no longer.
    pub fn leave_blocks(&mut self) {
        for s in self.streams.values_mut() {
            s.send.buffer.leave_blocks();
            s.recv.buffer.leave_blocks();
        }
    }

    /// Separate pieces in which the bytes that have arrived wait for the application.
    pub fn unread_pieces(&self) -> usize {
        self.flow.pieces()
    }

    /// Streams that take memory here: with those whose OPEN has not arrived, and those that the
    /// application has given up, until the peer has acknowledged that and ended its own half.
    pub fn streams_kept(&self) -> usize {
        self.streams.len()
    }

    /// Shares of subflows that those streams keep: each one's traffic on each subflow, up to 256 a
    /// stream.
    pub fn shares_kept(&self) -> usize {
        self.streams.shares()
    }

    /// Whether stream bytes are on their way on some subflow, or wait to be; the end of a stream
    /// counts, though it has no bytes. Streams of which no path has a subflow do not count.
    pub fn is_sending(&self) -> bool {
        self.streams.has_ready()
            || self.streams.unscheduled() > 0
            || self.subflows.iter().any(|s| s.sent.data_bytes > 0)
    }

    /// Time since stream bytes last moved, on any subflow and in either direction; the time itself
    /// if they never did.
    pub fn quiet_for(&self, now: Timestamp) -> Duration {
        self.movement.quiet_for(now)
    }

    /// Every subflow as it stands.
    pub fn subflows(&self, now: Timestamp) -> Vec<SubflowStats> {
        self.subflows.iter().map(|s| s.stats(now)).collect()
    }

    /// Stream bytes of each path, those of its former subflows included.
    pub fn paths(&self) -> Vec<PathBytes> {
        let mut paths = self.gone.clone();
        for s in self.subflows.iter() {
            paths.add(&s.name, s.counters.bytes_in, s.counters.bytes_out);
        }
        paths.into_inner()
    }

    /// Every open stream as it stands.
    pub fn streams(&self) -> Vec<StreamStats> {
        let ids = self.stream_ids().into_iter();
        ids.filter_map(|id| self.stream(id)).collect()
    }

    /// Numbers of the open streams, ascending.
    pub fn stream_ids(&self) -> Vec<StreamId> {
        self.streams.ids()
    }

    /// A stream as it stands, if it is open.
    pub fn stream(&self, id: StreamId) -> Option<StreamStats> {
        Some(self.streams.get(id)?.stats(id, None))
    }

    // ---- results --------------------------------------------------------------------------

    /// The next event, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.deadlines().earliest()
    }

    /// The table of all deadlines.
    fn deadlines(&self) -> Deadlines {
        let mut deadlines = self.timers;
        if self.identity.lost {
            return deadlines;
        }
        // A due ACK that no subflow takes waits for room, not for time.
        if Feedback::has_room(&self.subflows) {
            deadlines.set(Timer::Ack, self.feedback.ack_deadline());
        }
        if self.identity.client {
            let liveness = self.liveness.deadline(&self.streams, &self.subflows);
            deadlines.set(Timer::Liveness, liveness);
            let kept = health::keep_alive::due(&self.streams, &self.subflows);
            deadlines.set(Timer::KeepAlive, kept.map(|(_, at)| at));
        }
        deadlines.set(Timer::Health, self.watch().deadline());
        deadlines.set(Timer::Resume, self.resume.deadline());
        deadlines
    }

    fn watch(&self) -> Watch<'_> {
        Watch {
            config: &self.config,
            client: self.identity.client,
            subflows: &self.subflows,
            last_ack: self.feedback.last_ack(),
        }
    }

    /// Reinjection and what it works on, and control frames.
    fn reinjection(&mut self) -> (&mut Reinjection, Work<'_>, &mut Control) {
        let work = Work {
            subflows: &mut self.subflows,
            streams: &mut self.streams,
            stats: &mut self.stats,
        };
        (&mut self.reinjection, work, &mut self.control)
    }

    /// Forgets a stream that is over both ways.
    fn close_if_done(&mut self, now: Timestamp, id: StreamId) {
        let Some(s) = self.streams.remove_if_done(id) else {
            return;
        };
        if s.recv.stalled {
            self.flow.unstalled();
        }
        if !self.identity.client {
            let (open, closed) = (self.streams.len() as u64, self.streams.closed());
            self.flow.stream_over(open, closed, &mut self.control);
        }
        let stats = Box::new(s.stats(id, Some(now)));
        self.events.push_back(Event::StreamClosed(stats));
    }

    fn wake_writers(&mut self) {
        let events = &mut self.events;
        self.streams.unblock(self.config.send_memory_bytes, |id| {
            events.push_back(Event::StreamWritable(id));
        });
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.identity.id)
            .field("subflows", &self.subflows)
            .field("flow", &self.flow)
            .field("feedback", &self.feedback)
            .field("control", &self.control)
            .field("unscheduled", &self.streams.unscheduled())
            .field("timers", &self.timers)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
