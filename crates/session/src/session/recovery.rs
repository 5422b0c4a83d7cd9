//! When things go wrong or change: lost, silent and slow subflows, and the end of the session.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::{DEAD_COUNTS, Event, Session, record_time};
use crate::stream::Stream;
use crate::subflow::{Owed, Phase, Signal, SignalState, Subflow};
use crate::{CloseCode, ResetCode, StreamId, SubflowId};

/// A suspect that stays silent for so long is given up and joined anew; so is a subflow whose hello
/// nobody answers.
const GIVE_UP_AFTER: Duration = Duration::from_secs(15);

/// While others wait for the session to be opened, a subflow gets no longer to do it: a handshake of
/// two round trips has just come through there.
const OPEN_WITHIN: Duration = Duration::from_secs(5);

/// Silence before which no subflow is doubted: ACKs come 25 ms apart.
const LEAST_DOUBT: Duration = Duration::from_millis(50);

/// What others are given of a subflow when it is first doubted. As long as it stays silent it is
/// doubted again, the first times for twice as much as before: little is lost where it only paused,
/// and the reader goes on until it can be called silent for good.
const DOUBT_BYTES: u64 = 2 << 10;
const DOUBT_DOUBLINGS: u32 = 2;
const MOST_DOUBTS: u32 = 12;

/// So little may be the last that is under way.
const LAST_BYTES: u64 = 16 << 10;

/// Within the tails of cellular radios, so that asking wakes none.
const ASK_AFTER: Duration = Duration::from_secs(5);

/// While an answer is awaited a primary asks again, each time after twice as long: 5, 15, 35 and 75 s
/// after it last heard something. TCP at a proxy whose paths went silent waits on for up to as long
/// as they were; beyond the last one the session is over as `resume_for` commonly is.
const MOST_ASKS: u32 = 4;

impl Session {
    /// The connection of a subflow is gone. What it owed goes to the others; when it was the last,
    /// the session waits for a new one.
    ///
    /// A primary tells the proxy by CUT: where an address is gone, or a NAT has forgotten, the
    /// proxy hears nothing of its own, and what it keeps counts among its subflows.
    pub fn handle_subflow_closed(&mut self, now: Timestamp, id: SubflowId) {
        let joined = |i: usize| self.subflows[i].carries();
        if self.client && self.index(id).is_some_and(joined) {
            if self.cuts.len() == DEAD_COUNTS {
                self.cuts.pop_front();
            }
            self.cuts.push_back(id);
        }
        self.drop_subflow(now, id);
    }

    pub(super) fn drop_subflow(&mut self, now: Timestamp, id: SubflowId) {
        let Some(i) = self.index(id) else {
            return;
        };
        let mut gone = self.subflows.remove(i);
        if self.dead.len() == DEAD_COUNTS {
            self.dead.pop_front();
        }
        self.dead.push_back((id, gone.rx_octets));
        self.reports.retain(|(r, _)| r.subflow != id);
        // Also before its hello was written: until there is a session, the others wait for it.
        if !self.established && matches!(gone.phase, Phase::SendHello(_) | Phase::AwaitOk) {
            self.try_another_first();
        }
        for s in self.streams.values_mut() {
            s.send.forget_origin(id);
            s.copied.retain(|(c, _)| *c != id);
        }
        if self.subflows.iter().any(Subflow::carries) {
            let lost: Vec<Owed> = gone.sent.drain().collect();
            self.owe_again(lost, None);
        } else {
            // Whoever joins next will tell how far this one got; until then nobody can say what
            // has to be sent again.
            self.limbo.push((id, std::mem::take(&mut gone.sent)));
        }
        // An express is no path of its own: its proxy does not wait for it longer than for none.
        if self.lonely_since.is_none() && self.has_no_path() && !self.lost {
            self.lonely_since = Some(now);
        }
        self.defer_until = None;
    }

    /// Whether no subflow is left but such as only take what is urgent past another one.
    fn has_no_path(&self) -> bool {
        self.subflows.iter().all(|s| s.express)
    }

    /// The subflow that was to open the session is gone: another one does it, the one that connected
    /// last, of which most can be hoped.
    fn try_another_first(&mut self) {
        let waiting = |s: &Subflow| s.phase == Phase::AwaitSession;
        if let Some(i) = self.subflows.iter().rposition(waiting) {
            let hello = self.hello(&self.subflows[i]);
            self.subflows[i].phase = Phase::SendHello(Box::new(hello));
        }
    }

    /// Frames to be sent again. `origin` still carries them, if given.
    fn owe_again(&mut self, frames: Vec<Owed>, origin: Option<SubflowId>) {
        for f in frames {
            match f {
                Owed::Data {
                    stream,
                    range,
                    fin,
                    recalled,
                } => {
                    // What was recalled is in other hands.
                    if !recalled {
                        self.data_again(stream, range, fin, origin);
                    }
                }
                Owed::Open(id) => {
                    if let Some(s) = self.streams.get_mut(&id) {
                        s.open_wanted = true;
                        self.signal(id);
                    }
                }
                Owed::MaxStreamData(id) => {
                    if let Some(s) = self.streams.get_mut(&id) {
                        s.grant_wanted = true;
                        self.signal(id);
                    }
                }
                Owed::Reset(id) => self.signal_again(id, |s| &mut s.reset_out),
                Owed::Stop(id) => self.signal_again(id, |s| &mut s.stop_out),
                Owed::MaxData => self.max_data_wanted = true,
                Owed::MaxStreams => self.max_streams_wanted = true,
                Owed::Priority(id) => self.priorities.push_back(id),
                Owed::Cut(id) => self.cuts.push_back(id),
                Owed::GoAway | Owed::Ping => {}
            }
        }
    }

    fn data_again(
        &mut self,
        id: StreamId,
        range: std::ops::Range<u64>,
        fin: bool,
        origin: Option<SubflowId>,
    ) {
        let Some(s) = self.streams.get_mut(&id) else {
            return;
        };
        if s.reset_out.is_some() {
            return;
        }
        let bytes = s.send.again(range, origin);
        if fin && !s.fin_acked {
            s.fin_wanted = true;
        }
        self.stats.reinjected_bytes_out += bytes;
        self.touch(id);
    }

    fn signal_again(&mut self, id: StreamId, slot: fn(&mut Stream) -> &mut Option<Signal>) {
        if let Some(s) = self.streams.get_mut(&id)
            && let Some(signal) = slot(s)
            && signal.state == SignalState::Sent
        {
            signal.state = SignalState::Wanted;
            self.signal(id);
        }
    }

    /// A peer has come back and told how far lost subflows got: the rest is sent again.
    pub(super) fn settle_limbo(&mut self, _now: Timestamp) {
        for (_, mut queue) in std::mem::take(&mut self.limbo) {
            let lost: Vec<Owed> = queue.drain().collect();
            self.owe_again(lost, None);
        }
    }

    // ---- silence --------------------------------------------------------------------------

    /// How long a subflow that owes something may go without progress: four round trips cover a
    /// repair of lost packets, two records' time and the ACK's own delay what is normal.
    fn silence_allowed(&self, s: &Subflow) -> Duration {
        let rate = s.estimator.throughput(s.progress_at);
        self.config.reinjection.least_silence
            + s.estimator.rtt() * 4
            + record_time(rate) * 2
            + self.config.ack_delay
    }

    /// When a subflow's silence becomes doubtful or suspicious, or a silent one is given up.
    pub(super) fn silence_ends(&self, s: &Subflow) -> Option<Timestamp> {
        [self.silent_at(s), self.doubted_at(s)]
            .into_iter()
            .flatten()
            .min()
    }

    fn silent_at(&self, s: &Subflow) -> Option<Timestamp> {
        let unanswered = self.unanswered_at(s);
        let silent = match s.suspect {
            Some(since) => Some(since + self.patience(s)),
            None => self.suspicious_at(s),
        };
        [unanswered, silent].into_iter().flatten().min()
    }

    /// When a hello has been unanswered for too long.
    fn unanswered_at(&self, s: &Subflow) -> Option<Timestamp> {
        let since = s.unanswered_since()?;
        let waits = |o: &Subflow| o.phase == Phase::AwaitSession;
        let opens = s.phase == Phase::AwaitOk && self.subflows.iter().any(waits);
        Some(since + if opens { OPEN_WITHIN } else { GIVE_UP_AFTER })
    }

    fn suspicious_at(&self, s: &Subflow) -> Option<Timestamp> {
        let oldest = s.sent.oldest()?;
        if !self.config.reinjection.suspicion {
            return None;
        }
        Some(s.progress_at.max(oldest) + self.silence_allowed(s))
    }

    /// When a subflow that has gone on at an even pace is silent for so long that the application
    /// should not wait for it: well before it can be called silent for good.
    fn doubted_at(&self, s: &Subflow) -> Option<Timestamp> {
        if !self.config.reinjection.suspicion
            || s.suspect.is_some()
            || s.express
            || s.sent.useful_bytes() == 0
            || s.doubts >= MOST_DOUBTS
        {
            return None;
        }
        // Where no ACK comes at all, nobody knows how far the others are: the path that brought them
        // is the one that has failed.
        let heard_since = |(on, at)| at > s.progress_at || on == s.id;
        if !self.last_ack.is_some_and(heard_since) {
            return None;
        }
        let patience = (s.progress.gap()? * 5 / 4).max(LEAST_DOUBT);
        let next = (patience / 2).max(LEAST_DOUBT);
        Some(s.progress_at + patience + next * s.doubts)
    }

    /// Gives others the little that the application waits for first, where a subflow that went on
    /// evenly is silent. It costs a packet or two if the silence was none.
    fn help_doubted(&mut self, now: Timestamp) {
        let doubted = |s: &Subflow| self.doubted_at(s).is_some_and(|t| t <= now);
        let ids: Vec<SubflowId> = self
            .subflows
            .iter()
            .filter(|s| doubted(s))
            .map(|s| s.id)
            .collect();
        for id in ids {
            let helps = |s: &Subflow| {
                s.id != id && s.carries() && s.suspect.is_none() && s.doubts == 0 && !s.backup
            };
            let helped = self.subflows.iter().any(helps);
            let Some(i) = self.index(id) else {
                continue;
            };
            let bytes = DOUBT_BYTES << self.subflows[i].doubts.min(DOUBT_DOUBLINGS);
            self.subflows[i].doubts += 1;
            self.defer_until = None;
            if !helped {
                continue;
            }
            let streams = &self.streams;
            let mut held_up: Vec<StreamId> = Vec::new();
            let oldest = self.subflows[i].sent.recall_oldest(bytes, |stream, range| {
                let Some(s) = streams.get(&stream).filter(|s| s.reset_out.is_none()) else {
                    return false;
                };
                if range.start <= s.send.base() {
                    held_up.push(stream);
                }
                held_up.contains(&stream)
            });
            let copies = self.stats.reinjected_bytes_out;
            for (stream, range, fin) in oldest {
                self.data_again(stream, range, fin, Some(id));
            }
            // Rebalancing has its own allowance.
            self.idle_mark.1 += self.stats.reinjected_bytes_out - copies;
        }
    }

    /// How long a suspect is kept. A proxy can't dial: while it has nothing better, the connection
    /// that may come back to life is all there is, and a primary that only waits for data would not
    /// notice that it was given up.
    fn patience(&self, s: &Subflow) -> Duration {
        let healthy = |o: &Subflow| o.id != s.id && o.carries() && o.suspect.is_none();
        if self.client || self.subflows.iter().any(healthy) {
            GIVE_UP_AFTER
        } else {
            GIVE_UP_AFTER.max(self.config.resume_for)
        }
    }

    /// When a primary with open streams asks whether its subflows still work: once after each time
    /// that bytes came, and again while an answer is due. It cannot tell a slow origin from a dead
    /// path, and a proxy whose paths have all gone silent can't call it. Where nothing is due it
    /// leaves radios asleep.
    pub(super) fn ask_at(&self) -> Option<Timestamp> {
        if !self.client || self.streams.is_empty() {
            return None;
        }
        let heard = self.subflows.iter().map(|s| s.rx_at).max()?;
        // What is still to be sent asks by itself.
        let due = self.awaiting > 0 && self.ready.iter().all(|queue| queue.is_empty());
        match self.asks {
            0 => Some(heard + ASK_AFTER),
            1..MOST_ASKS if due => {
                let sent = self.subflows.iter().filter_map(|s| s.last_out).max();
                let since = sent.unwrap_or(heard).max(heard).max(self.asked_at);
                Some(since + ASK_AFTER * (1 << self.asks))
            }
            _ => None,
        }
    }

    fn ask_if_silent(&mut self, now: Timestamp) {
        if self.ask_at().is_some_and(|t| t <= now) {
            self.asks += 1;
            self.asked_at = now;
            // What goes over an express goes through a helper that is asked over its own subflow.
            let asked = |s: &&mut Subflow| s.carries() && !s.express;
            for s in self.subflows.iter_mut().filter(asked) {
                s.ping_wanted = true;
            }
        }
    }

    fn check_silence(&mut self, now: Timestamp) {
        self.help_doubted(now);
        let silent: Vec<SubflowId> = self
            .subflows
            .iter()
            .filter(|s| self.silent_at(s).is_some_and(|t| t <= now))
            .map(|s| s.id)
            .collect();
        for id in silent {
            let Some(i) = self.index(id) else {
                continue;
            };
            let s = &self.subflows[i];
            let unanswered = self.unanswered_at(s).is_some_and(|t| t <= now);
            if unanswered || s.suspect.is_some() {
                let since = if unanswered { s.hello_at } else { s.suspect };
                let seconds = since.map_or(0, |t| now.since(t).as_secs());
                let what = if unanswered { "no answer" } else { "silent" };
                self.drop_subflow(now, id);
                self.cuts.push_back(id);
                self.events.push_back(Event::SubflowClosed {
                    subflow: id,
                    code: CloseCode::Cut,
                    reason: format!("{what} for {seconds} s"),
                });
                continue;
            }
            let s = &mut self.subflows[i];
            s.suspect = Some(now);
            s.ping_wanted = true;
            self.events.push_back(Event::SubflowSuspect(id));
            self.defer_until = None;
        }
        self.recall_from_suspects();
    }

    /// Gives what suspects owe to others, if there are any that are not suspect themselves.
    pub(super) fn recall_from_suspects(&mut self) {
        if !self
            .subflows
            .iter()
            .any(|s| s.carries() && s.suspect.is_none())
        {
            return;
        }
        for i in 0..self.subflows.len() {
            if self.subflows[i].suspect.is_some() {
                self.recall(i, u64::MAX);
                // An OPEN, a RESET or a window that waits there holds up more than bulk does.
                let signals = self.subflows[i].sent.recall_signals();
                self.owe_again(signals, None);
            }
        }
    }

    /// A suspect has come back to life: what it owes and others have not yet been given, it brings
    /// itself.
    pub(super) fn leave_to(&mut self, id: SubflowId) {
        let Some(i) = self.index(id) else {
            return;
        };
        let mut helped = Vec::new();
        for (stream, s) in &mut self.streams {
            let kept = s.send.leave_to(id);
            if !kept.is_empty() {
                self.subflows[i].sent.unrecall(*stream, &kept);
                let bytes: u64 = kept.iter().map(|r| r.end - r.start).sum();
                self.stats.reinjected_bytes_out -= bytes;
                helped.push(*stream);
            }
        }
        for stream in helped {
            self.touch(stream);
        }
    }

    /// Marks up to `budget` bytes of a subflow, the youngest first, to be sent again on another;
    /// returns how many.
    fn recall(&mut self, i: usize, budget: u64) -> u64 {
        let origin = self.subflows[i].id;
        let mut taken: Vec<(StreamId, std::ops::Range<u64>, bool)> = Vec::new();
        let streams = &self.streams;
        let bytes = self.subflows[i].sent.recall(budget, |stream, range, fin| {
            let alive = streams.get(&stream).is_some_and(|s| s.reset_out.is_none());
            if alive {
                taken.push((stream, range, fin));
            }
            alive
        });
        for (stream, range, fin) in taken {
            self.data_again(stream, range, fin, Some(origin));
        }
        bytes
    }

    // ---- rebalancing ----------------------------------------------------------------------

    /// The published rebalancing (MPBond paper, section 4.3.4): with nothing left unscheduled, or
    /// nothing that the peer's windows let go, and `(maxPAD - minPAD) / minPAD > eta`, up to `r = (maxPAD - minPAD) * B` bytes with the
    /// highest sequence numbers move from the slowest subflow back to the meta buffer.
    ///
    /// Bytes that the slow subflow carries and another one has been given too no longer delay the
    /// transfer, so they do not count into its PAD here; without that, every feedback would recall
    /// the same imbalance anew.
    pub(super) fn rebalance(&mut self, now: Timestamp) {
        let config = &self.config.reinjection;
        if !config.rebalance || self.new_bytes_may_go() {
            return;
        }
        let (eta, least_gain) = (config.eta, config.least_gain);
        let sure_gain = config.sure_gain;
        let pad = |s: &Subflow| {
            let pad = s
                .estimator
                .pad(now, s.tx_octets, s.acked_octets, self.config.buffer_delay);
            let copies = s.estimator.throughput(now).time_for(s.sent.recalled_bytes);
            pad.saturating_sub(copies)
        };
        if self.held == 0 {
            return self.cut_what_only_copies(now);
        }
        let healthy = |s: &&Subflow| s.carries() && s.suspect.is_none() && !s.backup;
        let candidates = self.subflows.iter().filter(healthy);
        let Some(slowest) = candidates
            .clone()
            .filter(|s| s.sent.useful_bytes() > 0)
            .max_by_key(|s| pad(s))
        else {
            return self.cut_what_only_copies(now);
        };
        // What a doubted one is given goes to others, who may have more to do than it seems to have.
        let Some(fastest) = candidates
            .filter(|s| s.id != slowest.id && s.doubts == 0)
            .min_by_key(|s| pad(s))
        else {
            return;
        };
        let (most, least) = (pad(slowest), pad(fastest));
        let gain = most.saturating_sub(least);
        if gain <= least_gain || gain.as_secs_f64() <= eta * least.as_secs_f64() {
            return;
        }
        let mut r = slowest.estimator.throughput(now).bytes_in(gain);
        // All wait for these: they are worth more than their share.
        let last_ones = fastest.sent.data_bytes == 0 && slowest.sent.useful_bytes() <= LAST_BYTES;
        if gain < sure_gain && !last_ones {
            r = r.min(self.copies_left());
        }
        if r > 0
            && let Some(i) = self.index(slowest.id)
        {
            let (subflow, bytes) = (self.subflows[i].id, self.recall(i, r));
            self.events.push_back(Event::Recalled {
                subflow,
                bytes,
                gain,
            });
        }
    }

    /// Whether there are unscheduled bytes that the peer's windows have room for. Where a slow
    /// subflow owes what the application waits for, a window is soon full, and every other subflow
    /// idle: "opportunistic retransmission" (Raiciu et al., NSDI 2012, section 4.2).
    fn new_bytes_may_go(&self) -> bool {
        let credit = self.peer.max_data > self.tx_data;
        let mut ready = self.ready.iter().flatten();
        self.backlog > 0
            && credit
            && ready.any(|id| {
                let stream = self.streams.get(id);
                stream.is_some_and(|s| s.send.next() < s.send.end().min(s.max_send))
            })
    }

    /// How many more bytes may be sent twice since the session was last idle.
    fn copies_left(&self) -> u64 {
        let sent = self.stats.bytes_out - self.idle_mark.0;
        let copies = self
            .stats
            .reinjected_bytes_out
            .saturating_sub(self.idle_mark.1);
        let allowed = sent as f64 * self.config.reinjection.copies_share;
        (allowed as u64).saturating_sub(copies)
    }

    /// Nothing useful is on the way any more. A subflow that would go on carrying copies for long
    /// is cut, so that yesterday's copies do not stand before the next transfer.
    fn cut_what_only_copies(&mut self, now: Timestamp) {
        let after = self.config.reinjection.cut_after;
        let others = self.subflows.iter().filter(|s| s.carries()).count() > 1;
        // Where all has arrived, what is under way was sent for nothing: a suspect that came back
        // brought it before those that were to help it.
        let all_arrived = self.held == 0;
        let copies_only = |s: &&Subflow| {
            let bytes = match all_arrived {
                true => s.sent.data_bytes,
                false => s.sent.recalled_bytes,
            };
            let copies = s.estimator.throughput(now).time_for(bytes);
            s.suspect.is_none() && copies > after
        };
        let Some(id) = self.subflows.iter().find(copies_only).map(|s| s.id) else {
            return;
        };
        if !others {
            return;
        }
        self.drop_subflow(now, id);
        self.cuts.push_back(id);
        self.stats.cuts += 1;
        self.events.push_back(Event::SubflowClosed {
            subflow: id,
            code: CloseCode::Cut,
            reason: "it carried only copies".to_owned(),
        });
    }

    // ---- time -----------------------------------------------------------------------------

    /// Time has passed: call it when [`poll_timeout`](Self::poll_timeout) says so. Earlier calls
    /// do no harm.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if self.defer_until.is_some_and(|t| t <= now) {
            self.defer_until = None;
        }
        if self.stall_check.is_some_and(|t| t <= now) {
            self.check_stalls(now);
        }
        self.ask_if_silent(now);
        self.check_silence(now);
        self.rebalance(now);
        let resume_for = self.config.resume_for;
        if self.lonely_since.is_some_and(|t| t + resume_for <= now) {
            self.lose("no path to the other end for too long");
        }
    }

    /// Client: the proxy has said that it does not trust this device any more. A session that both
    /// ends know is over: nobody will be let in again to go on with it.
    pub fn handle_distrust(&mut self) {
        if self.client && self.established {
            self.lose("the proxy no longer trusts this device");
        }
    }

    /// The session is over: every stream is reset.
    pub(super) fn lose(&mut self, reason: &str) {
        if self.lost {
            return;
        }
        self.lost = true;
        self.lonely_since = None;
        self.backlog = 0;
        self.again = 0;
        self.held = 0;
        for q in &mut self.ready {
            q.clear();
        }
        self.signalling.clear();
        self.blocked.clear();
        self.limbo.clear();
        self.stall_check = None;
        self.defer_until = None;
        self.events.push_back(Event::Lost {
            reason: reason.to_owned(),
        });
        let mut ids: Vec<StreamId> = self.streams.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            if let Some(s) = self.streams.get_mut(&id) {
                s.send.clear();
                s.backlog = 0;
                s.again = 0;
                s.queued = false;
                s.open_owed = false;
                s.reset_out = Some(Signal {
                    code: ResetCode::SessionLost,
                    state: SignalState::Acked,
                });
                if s.reset_in.is_none() && !s.recv.finished() {
                    s.reset_in = Some(ResetCode::SessionLost);
                }
                if s.announced {
                    self.events.push_back(Event::StreamReadable(id));
                }
            }
        }
    }
}
