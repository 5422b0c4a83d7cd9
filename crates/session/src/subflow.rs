use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use mpbond_units::Timestamp;

use crate::estimator::Estimator;
use crate::pace::Pace;
use crate::wire::Frame;
use crate::{HelperId, ResetCode, StreamId, SubflowId};

/// What a driver knows of a connection when it hands it to the session.
#[derive(Clone, Debug)]
pub struct SubflowSetup {
    /// For people: the path's or helper's name.
    pub name: String,
    /// The helper it runs through, if any.
    pub helper: Option<HelperId>,
    /// Used only when no regular subflow is left.
    pub backup: bool,
    /// A backup through the same helper as another subflow, which takes urgent copies past what
    /// that helper holds for the other (ADR 0011).
    pub express: bool,
    /// Exporter of its TLS connection, which MP_JOIN's proof is bound to.
    pub exporter: [u8; 32],
    /// Ciphertext octets written to the TLS stream so far (its handshake).
    pub tx_octets: u64,
    /// Ciphertext octets read from the TLS stream so far, the hello's record included.
    pub rx_octets: u64,
    /// Octets that TLS adds to a record: 22 for TLS 1.3 with a 16-octet tag (RFC 8446, section
    /// 5.2).
    pub record_overhead: u32,
}

impl Default for SubflowSetup {
    fn default() -> Self {
        Self {
            name: String::new(),
            helper: None,
            backup: false,
            express: false,
            exporter: [0; 32],
            tx_octets: 0,
            rx_octets: 0,
            record_overhead: 22,
        }
    }
}

/// A frame that is owed to the peer until its record is acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Owed {
    Data {
        stream: StreamId,
        range: Range<u64>,
        fin: bool,
        /// Given to another subflow as well since: the copy here is redundant.
        recalled: bool,
    },
    Open(StreamId),
    Reset(StreamId),
    Stop(StreamId),
    MaxData,
    MaxStreamData(StreamId),
    MaxStreams,
    Priority(SubflowId),
    Cut(SubflowId),
    GoAway,
    Ping,
}

#[derive(Debug)]
struct SentRecord {
    /// Ciphertext octets from the start of the TLS stream to this record's end.
    end: u64,
    at: Timestamp,
    frames: u32,
}

/// Records that a subflow has been given and whose count has not come back, with what they owe.
#[derive(Debug, Default)]
pub(crate) struct SentQueue {
    records: VecDeque<SentRecord>,
    frames: VecDeque<Owed>,
    /// Stream bytes among the frames.
    pub(crate) data_bytes: u64,
    /// Those of them that another subflow has been given as well.
    pub(crate) recalled_bytes: u64,
}

impl SentQueue {
    pub(crate) fn push(&mut self, end: u64, at: Timestamp, frames: &mut Vec<Owed>) {
        if frames.is_empty() {
            return;
        }
        for f in frames.iter() {
            if let Owed::Data {
                range, recalled, ..
            } = f
            {
                self.data_bytes += range.end - range.start;
                if *recalled {
                    self.recalled_bytes += range.end - range.start;
                }
            }
        }
        self.records.push_back(SentRecord {
            end,
            at,
            frames: frames.len() as u32,
        });
        self.frames.extend(frames.drain(..));
    }

    /// Takes out what a count of `count` octets acknowledges, frame by frame.
    pub(crate) fn pop_acked(&mut self, count: u64, mut each: impl FnMut(Owed)) {
        while let Some(r) = self.records.front()
            && r.end <= count
        {
            for _ in 0..r.frames {
                if let Some(f) = self.frames.pop_front() {
                    self.forget(&f);
                    each(f);
                }
            }
            self.records.pop_front();
        }
    }

    fn forget(&mut self, f: &Owed) {
        if let Owed::Data {
            range, recalled, ..
        } = f
        {
            self.data_bytes -= range.end - range.start;
            if *recalled {
                self.recalled_bytes -= range.end - range.start;
            }
        }
    }

    /// Takes everything out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Owed> + '_ {
        self.records.clear();
        self.data_bytes = 0;
        self.recalled_bytes = 0;
        self.frames.drain(..)
    }

    /// When the oldest record still owed was written.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        self.records.front().map(|r| r.at)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Octets of ciphertext up to the end of the last record whose data is not yet recalled: what
    /// the far end still needs of this subflow.
    pub(crate) fn useful_bytes(&self) -> u64 {
        self.data_bytes - self.recalled_bytes
    }

    /// Takes out what is no data, to be sent again on another subflow. What stays in its place owes
    /// nothing.
    pub(crate) fn recall_signals(&mut self) -> Vec<Owed> {
        let signals = self
            .frames
            .iter_mut()
            .filter(|f| !matches!(f, Owed::Data { .. } | Owed::Ping));
        signals.map(|f| std::mem::replace(f, Owed::Ping)).collect()
    }

    /// Marks data as recalled, the oldest first, until `budget` bytes are reached: a frame that has
    /// more is cut in two. `each` is also asked about frames that are recalled already, which come
    /// to nothing.
    pub(crate) fn recall_oldest(
        &mut self,
        budget: u64,
        mut each: impl FnMut(StreamId, &Range<u64>) -> bool,
    ) -> Vec<(StreamId, Range<u64>, bool)> {
        let mut taken = Vec::new();
        let mut bytes = 0;
        let mut at = 0;
        while bytes < budget
            && let Some(f) = self.frames.get_mut(at)
        {
            if let Owed::Data {
                stream,
                range,
                fin,
                recalled,
            } = f
                && each(*stream, range)
                && !*recalled
            {
                let rest = (range.start + (budget - bytes)).min(range.end)..range.end;
                let cut = !rest.is_empty();
                let second = Owed::Data {
                    stream: *stream,
                    range: rest.clone(),
                    fin: *fin,
                    recalled: false,
                };
                range.end = rest.start;
                *fin &= !cut;
                *recalled = true;
                bytes += range.end - range.start;
                taken.push((*stream, range.clone(), *fin));
                if cut {
                    self.insert_frame(at + 1, second);
                }
            }
            at += 1;
        }
        self.recalled_bytes += bytes;
        taken
    }

    /// Puts a frame behind the one before `at`, into the same record.
    fn insert_frame(&mut self, at: usize, frame: Owed) {
        let mut before = 0;
        for r in &mut self.records {
            before += r.frames as usize;
            if at <= before {
                r.frames += 1;
                self.frames.insert(at, frame);
                return;
            }
        }
    }

    /// Data frames of `stream` that have any byte in `kept` are no longer recalled: this subflow
    /// alone brings that byte.
    pub(crate) fn unrecall(&mut self, stream: StreamId, kept: &[Range<u64>]) {
        let needed = |r: &Range<u64>| kept.iter().any(|k| k.start < r.end && r.start < k.end);
        for f in &mut self.frames {
            if let Owed::Data {
                stream: of,
                range,
                recalled,
                ..
            } = f
                && *recalled
                && *of == stream
                && needed(range)
            {
                *recalled = false;
                self.recalled_bytes -= range.end - range.start;
            }
        }
    }

    /// Marks data frames as recalled, the youngest first, until `budget` bytes are reached.
    pub(crate) fn recall(
        &mut self,
        budget: u64,
        mut each: impl FnMut(StreamId, Range<u64>, bool) -> bool,
    ) -> u64 {
        let mut taken = 0;
        for f in self.frames.iter_mut().rev() {
            if taken >= budget {
                break;
            }
            if let Owed::Data {
                stream,
                range,
                fin,
                recalled,
            } = f
                && !*recalled
            {
                let bytes = range.end - range.start;
                if each(*stream, range.clone(), *fin) {
                    *recalled = true;
                    self.recalled_bytes += bytes;
                    taken += bytes;
                }
            }
        }
        taken
    }
}

/// Where a subflow is in its life.
#[derive(Debug, PartialEq)]
pub(crate) enum Phase {
    /// Client: another subflow's MP_CAPABLE must be answered first.
    AwaitSession,
    /// The hello is to be written.
    SendHello(Box<Frame>),
    /// Client: MP_CAPABLE is written, MP_OK not here.
    AwaitOk,
    /// Client: MP_JOIN is written, MP_JOIN_OK not here. Data may flow already.
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
    pub(crate) phase: Phase,
    /// When the hello was written.
    pub(crate) hello_at: Option<Timestamp>,
    pub(crate) exporter: [u8; 32],
    pub(crate) backup: bool,
    pub(crate) express: bool,
    record_overhead: u64,
    /// Octets that the driver takes now without having to queue them.
    pub(crate) room: u64,
    /// Ciphertext octets written.
    pub(crate) tx_octets: u64,
    /// Ciphertext octets that the far end has accepted.
    pub(crate) acked_octets: u64,
    /// Ciphertext octets up to the last accepted record, and when that arrived.
    pub(crate) rx_octets: u64,
    pub(crate) rx_at: Timestamp,
    pub(crate) pace: Pace,
    /// When stream bytes last arrived: is its radio awake?
    pub(crate) data_in_at: Option<Timestamp>,
    /// What the helper last said about its own radio, which knows better than the pipe.
    pub(crate) downlink: Option<HelperDownlink>,
    pub(crate) sent: SentQueue,
    pub(crate) estimator: Estimator,
    /// When an ACK count last rose, or when it began to owe.
    pub(crate) progress_at: Timestamp,
    /// The pace of that.
    pub(crate) progress: ProgressPace,
    /// How often it has been helped since then, in case it is silent for good.
    pub(crate) doubts: u32,
    /// Silent since.
    pub(crate) suspect: Option<Timestamp>,
    pub(crate) ping_wanted: bool,
    pub(crate) pongs: VecDeque<u64>,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) redundant_out: u64,
    pub(crate) last_in: Option<Timestamp>,
    pub(crate) last_out: Option<Timestamp>,
}

/// How far apart a subflow's ACK counts rise while it owes something.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProgressPace {
    /// Rises since it last began to owe.
    rises: u32,
    /// The longest time between two of late: each later rise takes a fiftieth off it, so that it
    /// halves within about a second.
    gap: Duration,
}

impl ProgressPace {
    /// So many rises say what is usual.
    const ENOUGH: u32 = 8;

    /// The count has risen, so long after it rose last or the subflow began to owe.
    pub(crate) fn rose(&mut self, after: Duration) {
        if self.rises > 0 {
            self.gap = after.max(self.gap - self.gap / 50);
        }
        self.rises = self.rises.saturating_add(1);
    }

    /// Nothing is owed: what comes next says nothing about pace.
    pub(crate) fn pause(&mut self) {
        self.rises = 0;
    }

    /// Nothing of what is owed has been brought yet.
    pub(crate) fn is_new(&self) -> bool {
        self.rises == 0
    }

    /// The longest usual time between two rises, once that is known.
    pub(crate) fn gap(&self) -> Option<Duration> {
        (self.rises >= Self::ENOUGH).then_some(self.gap)
    }
}

/// A helper's own link, as its report has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HelperDownlink {
    /// How long no byte had come down it when the report came.
    pub(crate) quiet: Duration,
    /// When the report came.
    pub(crate) read_at: Timestamp,
}

impl Subflow {
    pub(crate) fn new(id: SubflowId, phase: Phase, setup: SubflowSetup, now: Timestamp) -> Self {
        Self {
            id,
            name: setup.name,
            helper: setup.helper,
            phase,
            hello_at: None,
            exporter: setup.exporter,
            backup: setup.backup || setup.express,
            express: setup.express,
            record_overhead: u64::from(setup.record_overhead),
            room: 0,
            tx_octets: setup.tx_octets,
            acked_octets: setup.tx_octets,
            rx_octets: setup.rx_octets,
            rx_at: now,
            pace: Pace::default(),
            data_in_at: None,
            downlink: None,
            sent: SentQueue::default(),
            estimator: Estimator::new(setup.helper.is_some()),
            progress_at: now,
            progress: ProgressPace::default(),
            doubts: 0,
            suspect: None,
            ping_wanted: false,
            pongs: VecDeque::new(),
            bytes_in: 0,
            bytes_out: 0,
            redundant_out: 0,
            last_in: None,
            last_out: None,
        }
    }

    /// May carry stream data.
    pub(crate) fn carries(&self) -> bool {
        matches!(self.phase, Phase::Up | Phase::AwaitJoinOk)
    }

    /// When its hello was written, if it is still to be answered.
    pub(crate) fn unanswered_since(&self) -> Option<Timestamp> {
        let awaits = matches!(self.phase, Phase::AwaitOk | Phase::AwaitJoinOk);
        self.hello_at.filter(|_| awaits)
    }

    /// Notes a record of `plaintext` octets; returns the octets it is on the wire.
    pub(crate) fn wrote(&mut self, now: Timestamp, plaintext: usize, owed: &mut Vec<Owed>) -> u64 {
        let octets = plaintext as u64 + self.record_overhead;
        self.tx_octets += octets;
        self.room = self.room.saturating_sub(octets);
        if self.sent.is_empty() && !owed.is_empty() {
            self.progress_at = now;
            self.progress.pause();
            self.doubts = 0;
        }
        self.sent.push(self.tx_octets, now, owed);
        octets
    }
}

/// A RESET or STOP on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signal {
    pub(crate) code: ResetCode,
    pub(crate) state: SignalState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalState {
    Wanted,
    Sent,
    Acked,
}

impl Signal {
    pub(crate) fn wanted(code: ResetCode) -> Self {
        Self {
            code,
            state: SignalState::Wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(range: Range<u64>, fin: bool) -> Owed {
        Owed::Data {
            stream: StreamId(1),
            range,
            fin,
            recalled: false,
        }
    }

    /// What the far end accepts later is told of each part, in order and with its own end.
    #[test]
    fn a_frame_is_cut_where_the_budget_ends() {
        let mut queue = SentQueue::default();
        queue.push(
            10,
            Timestamp::ZERO,
            &mut vec![Owed::Ping, data(0..100, false)],
        );
        queue.push(20, Timestamp::ZERO, &mut vec![data(100..300, true)]);
        let mut recalled = |budget| {
            let taken = queue.recall_oldest(budget, |_, _| true);
            taken
                .into_iter()
                .map(|(_, r, fin)| (r, fin))
                .collect::<Vec<_>>()
        };
        assert_eq!(recalled(40), [(0..40, false)]);
        assert_eq!(recalled(100), [(40..100, false), (100..140, false)]);
        assert_eq!(recalled(1_000), [(140..300, true)]);
        assert_eq!(recalled(1_000), []);
        assert_eq!((queue.data_bytes, queue.useful_bytes()), (300, 0));
        let mut first = Vec::new();
        queue.pop_acked(10, |f| first.push(f));
        assert_eq!(first.len(), 3, "{first:?}");
        assert_eq!((queue.data_bytes, queue.recalled_bytes), (200, 200));
        queue.pop_acked(20, |_| ());
        assert_eq!((queue.data_bytes, queue.recalled_bytes), (0, 0));
        assert!(queue.is_empty());
    }
}
