//! One end of a subflow: its connection, what it has sent, its estimates and its health.

mod eligibility;
mod giving_way;
mod health;
mod owed_ranks;
mod radio;
mod run_ahead;
mod sent;
mod setup;
mod short_queue;

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

use giving_way::GivingWay;
pub use giving_way::OthersFirst;
pub(crate) use health::{Health, Standing};
use owed_ranks::OwedRanks;
pub(crate) use radio::{HelperDownlink, Radio};
pub(crate) use run_ahead::RunAhead;
pub(crate) use sent::{LastFrame, SentFrame, SentQueue};
pub use setup::SubflowSetup;
use short_queue::ShortQueue;

use crate::arrival_rate::ArrivalRate;
use crate::config::{BufferDelay, SessionConfig};
use crate::estimator::{Estimator, PathInfo};
use crate::mechanism::Mechanism;
use crate::stats::{SubflowState, SubflowStats};
use crate::wire::Frame;
use crate::{DeviceLabel, HelperId, PathNumber, Role, SubflowId};

/// Time that an ACK may wait at the peer, and what it takes longer than a one-way delay.
const ACK_TIME: Duration = Duration::from_millis(30);

/// A link that sleeps unless this end sends is sent something after this long: watches leave Active
/// mode 2 and 5 s after their own last data (Wear OS paper, section 3.2).
const AWAKE_FOR: Duration = Duration::from_millis(1_500);
/// Longest time since stream bytes came at which a link still counts as bringing them.
const BRINGS_FOR: Duration = Duration::from_secs(1);

/// State of a subflow's handshake.
#[derive(Debug, PartialEq)]
pub(crate) enum Phase {
    /// Client: another subflow's MP_CAPABLE must be answered first.
    AwaitSession,
    /// The hello is to be written.
    SendHello(Box<Frame>),
    /// Client: MP_CAPABLE is written, MP_OK has not arrived.
    AwaitOk,
    /// Client: MP_JOIN is written, MP_JOIN_OK has not arrived. Data may flow already.
    AwaitJoinOk,
    /// Both hellos have been exchanged.
    Up,
}

/// One end of a subflow.
#[derive(Debug)]
pub(crate) struct Subflow {
    pub(crate) id: SubflowId,
    pub(crate) name: String,
    pub(crate) helper: Option<HelperId>,
    pub(crate) path: Option<PathNumber>,
    /// Bound of the run-ahead to its pipe.
    pub(crate) run_ahead: RunAhead,
    /// Client: label of the device that lends its link to it.
    pub(crate) lender: Option<DeviceLabel>,
    pub(crate) role: Role,
    /// Others than this session that go first on its link.
    pub(crate) giving_way: GivingWay,
    /// Step of its cost: of those that have room, the ones of the lowest carry data.
    pub(crate) cost: u8,
    pub(crate) phase: Phase,
    /// When the hello was written.
    pub(crate) hello_at: Option<Timestamp>,
    pub(crate) exporter: [u8; 32],
    pub(crate) tx: Transmitted,
    pub(crate) rx: Received,
    pub(crate) sent: SentQueue,
    pub(crate) estimator: Estimator,
    buffer_delay: BufferDelay,
    /// Its PAD heeds windows of TCP that are still opening.
    heeds_windows: bool,
    short_queue: ShortQueue,
    pub(crate) health: Health,
    pub(crate) pings: Pings,
    /// Client: idle time after which a NAT may forget it, where that is known.
    pub(crate) keep_alive: Option<Duration>,
    /// Client: its link goes to sleep unless this end sends.
    pub(crate) sleeps: bool,
    pub(crate) radio: Radio,
    pub(crate) counters: Counters,
}

/// Ciphertext octets written to a subflow's connection.
#[derive(Debug)]
pub(crate) struct Transmitted {
    record_overhead: u64,
    /// Octets that the driver takes now without having to queue them.
    pub(crate) room: u64,
    /// Octets written.
    pub(crate) octets: u64,
    /// Time of the last write.
    pub(crate) at: Timestamp,
    /// Octets that the far end has accepted.
    pub(crate) acked: u64,
    ranks: OwedRanks,
}

impl Transmitted {
    /// The record that is being filled has bytes of a stream of this rank.
    pub(crate) fn give(&mut self, rank: usize) {
        self.ranks.given(rank, self.octets);
    }

    /// The first rank of the streams whose bytes are owed.
    pub(crate) fn first_owed_rank(&self) -> Option<usize> {
        self.ranks.first(self.acked)
    }

    /// The last rank of the streams whose bytes are owed.
    pub(crate) fn owed_rank(&self) -> Option<usize> {
        self.ranks.last(self.acked)
    }
}

/// Ciphertext octets read from a subflow's connection.
#[derive(Debug)]
pub(crate) struct Received {
    /// Octets up to the last accepted record.
    pub(crate) octets: u64,
    /// When that arrived.
    pub(crate) at: Timestamp,
    /// Rate at which octets arrive.
    pub(crate) rate: ArrivalRate,
}

/// PINGs of this end and answers to the peer's.
#[derive(Debug, Default)]
pub(crate) struct Pings {
    /// A PING is to be written.
    pub(crate) wanted: bool,
    /// Tokens of PONGs to be written.
    pub(crate) pongs: VecDeque<u64>,
}

/// Stream bytes on one subflow.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) redundant_out: u64,
    pub(crate) last_in: Option<Timestamp>,
    pub(crate) last_out: Option<Timestamp>,
}

impl Subflow {
    pub(crate) fn new(
        id: SubflowId,
        phase: Phase,
        setup: SubflowSetup,
        config: &SessionConfig,
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            name: setup.name,
            helper: setup.helper,
            run_ahead: RunAhead::default(),
            path: setup.path,
            lender: setup.lender,
            role: setup.role,
            giving_way: GivingWay::new(now),
            cost: 0,
            phase,
            hello_at: None,
            exporter: setup.exporter,
            tx: Transmitted {
                record_overhead: u64::from(setup.record_overhead),
                room: 0,
                octets: setup.tx_octets,
                at: now,
                acked: setup.tx_octets,
                ranks: OwedRanks::default(),
            },
            rx: Received {
                octets: setup.rx_octets,
                at: now,
                rate: ArrivalRate::default(),
            },
            sent: SentQueue::default(),
            estimator: Estimator::new(setup.helper.is_some(), config.feedback),
            buffer_delay: config.buffer_delay,
            heeds_windows: config.uses(Mechanism::OpeningWindows)
                && !config.scheduler.fills_windows(),
            short_queue: ShortQueue::default(),
            health: Health::new(now),
            pings: Pings::default(),
            keep_alive: setup.keep_alive,
            sleeps: setup.sleeps,
            radio: Radio::default(),
            counters: Counters::default(),
        }
    }

    /// May carry stream data.
    pub(crate) fn carries(&self) -> bool {
        matches!(self.phase, Phase::Up | Phase::AwaitJoinOk)
    }

    pub(crate) fn is_regular(&self) -> bool {
        self.role == Role::Regular
    }

    pub(crate) fn is_express(&self) -> bool {
        self.role == Role::Express
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.helper.is_none()
    }

    /// Has failed potentially.
    pub(crate) fn has_failed(&self) -> bool {
        self.health.standing() == Standing::PotentiallyFailed
    }

    /// Makes the subflow regular or backup. An express stays what it is.
    pub(crate) fn set_backup(&mut self, backup: bool) {
        if !self.is_express() {
            self.role = Role::regular_unless(backup);
        }
    }

    /// When its hello was written, if it is still to be answered.
    pub(crate) fn unanswered_since(&self) -> Option<Timestamp> {
        let awaits = matches!(self.phase, Phase::AwaitOk | Phase::AwaitJoinOk);
        self.hello_at.filter(|_| awaits)
    }

    /// Pipe-aware delay of a byte that is handed to it now.
    pub(crate) fn pad(&self, now: Timestamp) -> Duration {
        let (sent, acked) = (self.tx.octets, self.tx.acked);
        let pad = self.estimator.pad(now, sent, acked, self.buffer_delay);
        pad.max(self.while_opening(now, sent))
    }

    /// The delay of a byte behind so many octets, where windows that are still opening hold it
    /// back.
    fn while_opening(&self, now: Timestamp, sent: u64) -> Duration {
        if !self.heeds_windows {
            return Duration::ZERO;
        }
        // Feedback is not acknowledged.
        let is_idle = self.sent.is_empty();
        let acked = if is_idle { sent } else { self.tx.acked };
        self.estimator.while_opening(now, sent, acked)
    }

    /// Plaintext octets of a record that TCP's initial window lets go at once; `None` where it
    /// holds none back, or all.
    pub(crate) fn at_once(&self, now: Timestamp) -> Option<u64> {
        let at_once = self.heeds_windows.then(|| {
            let octets = self.estimator.at_once(now, self.tx.octets)?;
            Some(octets.saturating_sub(self.tx.record_overhead))
        });
        at_once.flatten()
    }

    /// The same as if bytes that another subflow has been given as well did not wait.
    pub(crate) fn pad_without_copies(&self, now: Timestamp) -> Duration {
        let (sent, acked) = (self.tx.octets, self.tx.acked);
        let copies = self.sent.recalled_bytes;
        let pad = self.estimator.pad(now, sent, acked, self.buffer_delay);
        let pad = pad.saturating_sub(self.throughput(now).time_for(copies));
        pad.max(self.while_opening(now, sent.saturating_sub(copies)))
    }

    /// Is regular, works, and owes bytes that no other subflow has been given.
    pub(crate) fn owes_useful(&self) -> bool {
        self.works() && self.is_regular() && self.sent.useful_bytes() > 0
    }

    /// Time until the last owed byte arrives: as predicted when it was written; longer where that
    /// is so by today's estimates, or where an acknowledgement is overdue. Where no rate is known,
    /// as long as it has taken already, unless TCP has shown that all arrives and is acknowledged
    /// within `soon`: what takes longer then is the peer's process.
    pub(crate) fn remaining(&self, now: Timestamp, soon: Duration) -> Duration {
        let Some((at, due)) = self.sent.youngest() else {
            return Duration::ZERO;
        };
        let acked_by = due + self.estimator.one_way_delay() + ACK_TIME;
        let is_known = self.estimator.rate_is_known(now) || self.is_shown_to_answer_in(soon);
        let waited = match is_known {
            true => now.since(acked_by).max(self.pad(now)),
            false => now.since(at),
        };
        due.since(now).max(waited)
    }

    /// End-to-end throughput.
    pub(crate) fn throughput(&self, now: Timestamp) -> BitRate {
        self.estimator.throughput(now)
    }

    /// Octets that its congestion window lets go at once.
    pub(crate) fn free_window(&self) -> u64 {
        let path = self.estimator.path();
        let in_flight = self.tx.octets.saturating_sub(path.bytes_arrived);
        path.cwnd_bytes.saturating_sub(in_flight)
    }

    /// Whether TCP has shown a rate, if only as a lower bound, that brings all that is on its way
    /// within `span`. Of the far hop of a helper it shows none.
    pub(crate) fn is_shown_to_bring_all_in(&self, span: Duration) -> bool {
        let path = self.estimator.path();
        let in_flight = self.tx.octets.saturating_sub(path.bytes_arrived);
        self.is_direct() && path.delivery_rate.time_for(in_flight) < span
    }

    /// The same with the round trip of the acknowledgement.
    pub(crate) fn is_shown_to_answer_in(&self, span: Duration) -> bool {
        let rtt = self.estimator.path().min_rtt;
        self.is_shown_to_bring_all_in(span.saturating_sub(rtt))
    }

    /// Whether more is on its way over the near hop than it can use, or as many frames as may be.
    pub(crate) fn near_is_full(&self, now: Timestamp) -> bool {
        let (sent, acked) = (self.tx.octets, self.tx.acked);
        self.sent.is_full() || self.estimator.near_is_full(now, sent, acked)
    }

    /// Whether bulk data waits, since others than this session, which go first, keep its link busy.
    pub(crate) fn gives_way(&self, now: Timestamp) -> bool {
        let octets = self.giving_way.octets(now);
        octets > 0 && self.estimator.keep_busy(now, octets)
    }

    /// Whether it is a regular one through a helper whose far hop has shown no rate.
    pub(crate) fn is_unproven(&self, now: Timestamp) -> bool {
        self.is_regular() && !self.is_direct() && !self.estimator.far_is_shown(now)
    }

    /// Whether the octets owed through a helper of unknown rate exceed their limit.
    pub(crate) fn unproven_is_full(&self, now: Timestamp) -> bool {
        let (sent, acked) = (self.tx.octets, self.tx.acked);
        self.estimator.unproven_is_full(now, sent, acked)
    }

    /// Time for which bytes may be on their way to its pipe and wait for it, where that is less
    /// than the helper's buffer is for.
    pub(crate) fn run_ahead_time(&self) -> Option<Duration> {
        let waits = self.run_ahead.time()?;
        Some(self.estimator.path().min_rtt + waits)
    }

    /// Time for which bytes of an upload may be on their way to the peer and wait at the helper,
    /// where that is bounded.
    pub(crate) fn upload_ahead_time(&self, now: Timestamp) -> Option<Duration> {
        let pipe = self.estimator.near_throughput(now);
        let waits = run_ahead::of_upload(pipe, self.estimator.far_throughput(now)?)?;
        Some(self.estimator.one_way_delay() + waits)
    }

    /// Whether the helper holds more than it passes on within `bound`.
    pub(crate) fn far_is_full(&self, now: Timestamp, bound: Duration) -> bool {
        let (sent, acked) = (self.tx.octets, self.tx.acked);
        self.estimator.far_is_full(now, sent, acked, bound)
    }

    /// The kernel's view of the near hop; whether its queue is to be short.
    pub(crate) fn on_path(&mut self, now: Timestamp, info: PathInfo, short: bool) {
        self.estimator.on_path(now, info);
        if self.is_direct() {
            self.health.on_tcp(now, info.bytes_acked, info.all_acked);
        }
        if short {
            let rate = self.estimator.near_throughput(now);
            self.short_queue.on_path(now, &info, rate, self.tx.octets);
        } else {
            self.short_queue.forget();
        }
    }

    /// Whether more would make its queues longer than needed: that of the near hop, or those of a
    /// helper and its far hop.
    pub(crate) fn has_queued_enough(&self, now: Timestamp) -> bool {
        let in_flight = self
            .tx
            .octets
            .saturating_sub(self.estimator.path().bytes_arrived);
        let ahead = self.estimator.one_way_delay() + short_queue::AIM;
        self.short_queue.is_full(in_flight) || self.far_is_full(now, ahead)
    }

    /// Notes a record of `plaintext` octets; returns the octets it is on the wire.
    pub(crate) fn wrote(
        &mut self,
        now: Timestamp,
        plaintext: usize,
        frames: &mut Vec<SentFrame>,
    ) -> u64 {
        let octets = plaintext as u64 + self.tx.record_overhead;
        self.health.delivered = false;
        self.tx.octets += octets;
        self.tx.at = now;
        self.tx.room = self.tx.room.saturating_sub(octets);
        if self.sent.is_empty() && !frames.is_empty() {
            self.health.owes_again(now, self.rx.at);
            self.estimator.owes_again(now, self.tx.octets - octets);
        }
        let due = now + self.pad(now);
        self.sent.push(self.tx.octets, now, due, frames);
        octets
    }

    /// Whether its link would go to sleep while it brings stream bytes, since nothing is sent.
    pub(crate) fn would_sleep(&self, now: Timestamp) -> bool {
        let brings = |at| now.since(at) < BRINGS_FOR;
        self.sleeps
            && now.since(self.tx.at) >= AWAKE_FOR
            && self.counters.last_in.is_some_and(brings)
    }

    /// Time since stream bytes last came or went on its hop at this end; none, if none ever did.
    pub(crate) fn pipe_quiet(&self, now: Timestamp) -> Option<Duration> {
        let last = self.counters.last_in.max(self.counters.last_out);
        last.map(|at| now.since(at))
    }

    /// Time since its radio towards the Internet last carried stream bytes: a helper's radio by its
    /// own report, if that is recent.
    pub(crate) fn radio_quiet(&self, now: Timestamp) -> Option<Duration> {
        let Some(down) = self.radio.downlink_quiet(now) else {
            return self.pipe_quiet(now);
        };
        let up = self.counters.last_out.map(|at| now.since(at));
        Some(up.map_or(down, |up| up.min(down)))
    }

    /// Octets of ciphertext that are known to have arrived, in both directions.
    pub(crate) fn arrived(&self) -> u64 {
        self.rx.octets + self.tx.acked
    }

    /// The subflow as status pages show it.
    pub(crate) fn stats(&self, now: Timestamp) -> SubflowStats {
        SubflowStats {
            id: self.id,
            name: self.name.clone(),
            helper: self.helper,
            state: self.state(),
            bytes_in: self.counters.bytes_in,
            bytes_out: self.counters.bytes_out,
            redundant_bytes_out: self.counters.redundant_out,
            last_in: self.counters.last_in,
            last_out: self.counters.last_out,
            pad: self.pad(now),
            b_near_bytes: self.estimator.b_near(now, self.tx.octets),
            b_far_bytes: self.estimator.b_far(now, self.tx.octets, self.tx.acked),
            throughput: self.throughput(now),
            throughput_under_load: self.estimator.throughput_under_load(now),
            far_throughput: self.estimator.far_throughput(now),
            rtt: self.estimator.rtt(),
            octets: self.arrived(),
            heard: self.rx.at,
            progress: self.health.progress_at,
            idle_before: self.health.idle_before,
            idle_survived: self.health.idle_survived,
        }
    }

    fn state(&self) -> SubflowState {
        match self.role {
            _ if self.has_failed() => SubflowState::PotentiallyFailed,
            _ if !self.carries() => SubflowState::Joining,
            Role::Express => SubflowState::Express,
            Role::Backup => SubflowState::Backup,
            Role::Regular => SubflowState::Up,
        }
    }
}

#[cfg(test)]
impl Subflow {
    /// A subflow that is up, has room and sends at 1 MB/s with a round trip of 50 ms.
    pub(crate) fn for_test(id: u32, helper: Option<u32>, role: Role) -> Self {
        let now = Timestamp::from_millis(0);
        let setup = SubflowSetup {
            helper: helper.map(HelperId),
            role,
            ..SubflowSetup::default()
        };
        let config = SessionConfig::default();
        let mut s = Self::new(SubflowId(id), Phase::Up, setup, &config, now);
        s.tx.room = 100_000;
        let path = crate::PathInfo {
            cwnd_bytes: 50_000,
            srtt: Duration::from_millis(50),
            min_rtt: Duration::from_millis(50),
            delivery_rate: BitRate::from_bytes_per_sec(1e6),
            ..crate::PathInfo::default()
        };
        s.estimator.on_path(now, path);
        s
    }

    /// A direct subflow that is up, and of whose path nothing is known.
    pub(crate) fn unused_for_test(name: &str) -> Self {
        let setup = SubflowSetup {
            name: name.into(),
            ..SubflowSetup::default()
        };
        let (config, now) = (SessionConfig::default(), Timestamp::from_millis(0));
        Self::new(SubflowId(1), Phase::Up, setup, &config, now)
    }

    /// Gives it stream bytes, in a record that is written now.
    pub(crate) fn give(&mut self, now: Timestamp, stream: u64, range: std::ops::Range<u64>) {
        let len = (range.end - range.start) as usize;
        let frame = SentFrame::Data {
            stream: crate::StreamId(stream),
            range,
            fin: false,
            recalled: false,
            hedge: false,
        };
        self.wrote(now, len, &mut vec![frame]);
    }
}
