//! What is known of one pipe.

use std::time::Duration;

use mpbond_price::PipeRadios;
use mpbond_session::SubflowId;
use mpbond_units::{BitRate, Timestamp};

use super::facts::PipeFacts;
use super::pause::Pause;
use super::signal::Margin;
use crate::ids::LinkId;

/// Share of the demand, in quarters, that a pipe has to have to suffice.
const ENOUGH_QUARTERS: u64 = 5;

/// Bytes that count as waiting: so many, and what the pipe carries in this time.
const WAITING_BYTES: u64 = 10_000;
const WAITING_FOR: Duration = Duration::from_millis(100);

/// Time without a record after which a pipe that was in use is asked; at least 5/4 of the longest
/// recent one. A record of 16 KiB takes 130 ms at 1 Mbit/s.
const QUIET: Duration = Duration::from_millis(150);

/// Time for an answer, beside two round trips.
const ANSWER: Duration = Duration::from_millis(100);

/// Time for an answer beside that, while nothing has come since bytes began to move: the radio may
/// have to wake. WiFi that saves power takes 0.3 s for it, and as long for its next beacon.
const WAKES: Duration = Duration::from_millis(600);

/// Longest time between two records that counts: a slow pipe takes that long for one of 16 KiB. As
/// long without one, and without bytes that move, is a pause of the applications.
const MOST_GAP: Duration = Duration::from_secs(2);

/// Longest pauses of a pipe that was too slow, and of one whose signal was weak: its owner may have
/// come nearer.
const MOST_SLOW: Duration = Duration::from_secs(600);
const MOST_WEAK: Duration = Duration::from_secs(300);

/// Time for which a cheaper pipe has to suffice.
const SUFFICES_FOR: Duration = Duration::from_secs(5);

/// Time for which one that was left for its weak signal has to answer: five samples of its signal
/// come in it, which its process takes while something moves.
const JUDGED_FOR: Duration = Duration::from_secs(4);

/// Age of a helper's report from which it says nothing about now.
const STALE: Duration = Duration::from_millis(300);

/// A pipe.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) link: LinkId,
    /// Place in the file.
    place: usize,
    /// Its radios, where they are named.
    pub(super) radios: Option<PipeRadios>,
    /// Power of its radios while bytes move at the present rate, in W, where they are named.
    pub(super) watts: Option<f64>,
    /// Longest time for which its link says nothing though it works.
    pause: Duration,
    /// Its subflow, once the proxy has answered on it.
    pub(super) subflow: Option<SubflowId>,
    carrier: bool,
    suspect: bool,
    bytes: [u64; 2],
    octets: u64,
    /// Stream bytes that it has carried, in both directions together.
    pub(super) carried: u64,
    /// Bytes that moved in the last interval: down and up.
    pub(super) moved: [u64; 2],
    waiting_bytes: u64,
    /// The helper's last report.
    reported: Option<Report>,
    /// When its last record came.
    record: Timestamp,
    /// The same, or when an acknowledgement of what it has carried came on any subflow.
    heard: Timestamp,
    /// When it was asked, unless it has answered.
    asked: Option<Timestamp>,
    /// Bytes have moved since its last answer, so that its silence is none of the applications.
    expects: bool,
    /// When they began to move after a pause.
    expected: Timestamp,
    /// Nothing has come since then.
    rested: bool,
    /// When bytes last moved, in either direction.
    moved_at: Timestamp,
    /// Longest recent time between two records while it carried bytes.
    gap: Duration,
    patience: Duration,
    left: Left,
    /// It suffices, and is cheaper than the used one.
    pub(super) candidate: Option<Candidate>,
    signal: Margin,
}

/// A helper's report of what waits for a pipe.
#[derive(Clone, Copy, Debug)]
struct Report {
    at: Timestamp,
    bytes: u64,
    /// Bytes that the pipe had carried by then.
    carried: u64,
}

/// A pipe that may be used in place of a dearer one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// It has sufficed since then.
    since: Timestamp,
    /// When it first answered, once it had sufficed for long enough.
    answered: Option<Timestamp>,
}

/// Reasons for which a pipe was left.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    /// It was too slow, with this rate.
    slow: Pause,
    rate: BitRate,
    /// Its signal was weak.
    weak: Pause,
    /// When the signal was first heard to be good since then.
    good_since: Option<Timestamp>,
    /// No good signal was heard since.
    is_unjudged: bool,
}

impl Known {
    pub(super) fn new(
        link: LinkId,
        place: usize,
        pause: Duration,
        radios: Option<PipeRadios>,
    ) -> Self {
        Self {
            link,
            place,
            radios,
            watts: None,
            pause,
            subflow: None,
            carrier: true,
            suspect: false,
            bytes: [0; 2],
            octets: 0,
            carried: 0,
            moved: [0; 2],
            waiting_bytes: 0,
            reported: None,
            record: Timestamp::ZERO,
            heard: Timestamp::ZERO,
            asked: None,
            expects: false,
            expected: Timestamp::ZERO,
            rested: false,
            moved_at: Timestamp::ZERO,
            gap: Duration::ZERO,
            patience: Duration::ZERO,
            left: Left::default(),
            candidate: None,
            signal: Margin::default(),
        }
    }

    /// Order in the file.
    pub(super) fn order(&self) -> (usize, LinkId) {
        (self.place, self.link)
    }

    /// It has this subflow now.
    pub(super) fn joined(&mut self, subflow: Option<SubflowId>) {
        if self.subflow != subflow {
            *self = Self {
                subflow,
                carrier: self.carrier,
                carried: self.carried,
                watts: self.watts,
                left: self.left,
                signal: std::mem::take(&mut self.signal),
                ..Self::new(self.link, self.place, self.pause, self.radios)
            };
        }
    }

    /// Takes in its state.
    pub(super) fn observe(&mut self, now: Timestamp, facts: &PipeFacts) {
        self.carrier = facts.carrier;
        if let Some((at, signal)) = facts.signal {
            self.signal.sample(at, signal);
            if self.signal.is_weak(now) == Some(false) {
                self.left.weak.end();
                self.left.is_unjudged = false;
                self.left.good_since.get_or_insert(now);
            }
        }
        if self.subflow != Some(facts.subflow) {
            return;
        }
        let of = |i: usize| facts.bytes[i].saturating_sub(self.bytes[i]);
        self.moved = [of(0), of(1)];
        self.bytes = facts.bytes;
        self.carried += self.moved[0] + self.moved[1];
        self.waiting_bytes = facts.waiting_bytes;
        let before = self.heard;
        self.record = self.record.max(facts.heard);
        self.heard = self.heard.max(facts.heard);
        // Acknowledgements may come on other subflows, and late: they are no answers.
        if facts.octets != self.octets {
            self.octets = facts.octets;
            self.heard = now;
        }
        // Pauses of applications are no gaps; a silence while they send is one.
        if self.has_moved() {
            if !self.expects || now.since(before.max(self.moved_at)) >= MOST_GAP {
                self.expected = now;
                self.rested = true;
            }
            self.moved_at = now;
        }
        if self.moved[0] > 0 || self.heard > self.expected {
            self.rested = false;
        }
        // What is acknowledged elsewhere while it is asked came long ago.
        let is_asked = self.asked.is_some_and(|asked| self.record <= asked);
        if self.expects && !is_asked && self.heard > before {
            let since = before.max(self.expected);
            self.gap = self.heard.since(since).max(self.gap * 9 / 10);
        }
        let wakes = self.expects && self.rested;
        let wakes = if wakes { WAKES } else { Duration::ZERO };
        let pause = wakes.max(self.pause);
        let round_trips = match self.has_backlog() {
            true => Duration::ZERO,
            false => 2 * facts.rtt,
        };
        self.patience = ANSWER + round_trips + pause + self.gap.min(MOST_GAP);
        if self.asked.is_some_and(|asked| self.record > asked) {
            self.asked = None;
            self.expects = false;
            self.suspect = false;
        }
        if self.has_moved() && !self.expects {
            self.expects = true;
            self.asked = None;
        }
    }

    /// A helper has told how many bytes wait there for the pipe.
    pub(super) fn reported(&mut self, now: Timestamp, bytes: u64) {
        self.reported = Some(Report {
            at: now,
            bytes,
            carried: self.carried,
        });
    }

    pub(super) fn has_moved(&self) -> bool {
        self.moved != [0; 2]
    }

    /// Whether bytes wait because the pipe, which carries this rate, is slower than what comes.
    pub(super) fn waits(&self, now: Timestamp, rate: BitRate) -> bool {
        let least = WAITING_BYTES.max(rate.bytes_in(WAITING_FOR));
        self.waiting_bytes.max(self.waits_at_helper(now)) > least
    }

    /// Bytes that wait at the helper for the pipe, as far as is known now.
    fn waits_at_helper(&self, now: Timestamp) -> u64 {
        let fresh = |report: &Report| now.since(report.at) <= STALE;
        self.reported.filter(fresh).map_or(0, |report| report.bytes)
    }

    /// Rest of the bytes that waited at the helper by its last report. Behind a slow pipe the next
    /// report is late.
    pub(super) fn left_at_helper(&self) -> u64 {
        let left = |report: Report| {
            let carried = self.carried.saturating_sub(report.carried);
            report.bytes.saturating_sub(carried)
        };
        self.reported.map_or(0, left)
    }

    /// Whether bytes waited at the helper when its last record came: they come before any answer,
    /// and without a round trip to the proxy.
    fn has_backlog(&self) -> bool {
        let waited =
            |report: Report| report.bytes > WAITING_BYTES && self.record.since(report.at) <= STALE;
        self.reported.is_some_and(waited)
    }

    /// Whether it has carried bytes just now, or has some left: a slow one has pauses between two
    /// records, and what was copied meanwhile does not count as carried.
    pub(super) fn is_busy(&self) -> bool {
        self.has_moved() || self.left_at_helper() > WAITING_BYTES
    }

    /// Whether its signal is known to be so weak now that it is to be left.
    pub(super) fn is_weak(&self, now: Timestamp) -> bool {
        self.signal.is_weak(now) == Some(true)
    }

    /// Whether its signal is weak, as far as is known: nothing tells that of Bluetooth while no
    /// bytes move there.
    pub(super) fn may_be_weak(&self, now: Timestamp) -> bool {
        self.is_weak(now) || self.left.weak.lasts(now)
    }

    /// It stands by, and its signal may be weak still.
    pub(super) fn stays_weak(&mut self, now: Timestamp) {
        if self.is_weak(now) && !self.left.weak.lasts(now) {
            self.was_weak(now);
        }
    }

    /// It is left for its weak signal. How long it was used does not count: of a pipe at rest the
    /// signal is not heard.
    pub(super) fn was_weak(&mut self, now: Timestamp) {
        let good_since = self.left.good_since.take();
        let good_for = good_since.map_or(Duration::ZERO, |since| now.since(since));
        self.left.weak.begin(now, good_for, MOST_WEAK);
        self.left.is_unjudged = true;
    }

    /// Whether it can carry data.
    pub(super) fn is_usable(&self) -> bool {
        self.subflow.is_some() && self.carrier && !self.suspect
    }

    /// Whether its link sleeps when nothing moves there.
    pub(super) fn sleeps(&self) -> bool {
        !self.pause.is_zero()
    }

    // ---- silence --------------------------------------------------------------------------

    /// Has it asked whether it works. Returns the subflow, unless it is being asked.
    pub(super) fn ask(&mut self, now: Timestamp) -> Option<SubflowId> {
        let subflow = self.subflow.filter(|_| self.asked.is_none())?;
        self.asked = Some(now);
        Some(subflow)
    }

    /// Whether it says nothing, though it should.
    pub(super) fn is_quiet(&self, now: Timestamp) -> bool {
        let quiet = QUIET.max(self.gap.min(MOST_GAP) * 5 / 4);
        let since = self.heard.max(self.expected);
        self.expects && self.is_usable() && now.since(since) >= quiet
    }

    /// When it was asked, unless it has answered.
    pub(super) fn asked(&self) -> Option<Timestamp> {
        self.asked
    }

    /// Whether it answers within half of its time, so that others need not be asked.
    pub(super) fn may_answer(&self, now: Timestamp) -> bool {
        self.asked
            .is_none_or(|asked| now.since(asked) < self.patience / 2)
    }

    /// Whether the time for its answer is over.
    pub(super) fn is_unanswered(&self, now: Timestamp) -> bool {
        self.asked
            .is_some_and(|asked| now.since(asked) >= self.patience)
    }

    pub(super) fn has_answered_since(&self, since: Timestamp) -> bool {
        self.is_usable() && self.record > since
    }

    pub(super) fn suspect(&mut self) {
        self.suspect = true;
    }

    // ---- rate -----------------------------------------------------------------------------

    /// Whether its signal, and its rate for what is demanded, suffice, as far as is known.
    pub(super) fn suffices(&self, now: Timestamp, demand: BitRate) -> bool {
        let wanted = demand.bps().saturating_mul(ENOUGH_QUARTERS);
        let rate = self.known_rate(now);
        !self.may_be_weak(now) && rate.is_none_or(|rate| rate.bps().saturating_mul(4) >= wanted)
    }

    /// Its rate, if it was too slow lately.
    pub(super) fn known_rate(&self, now: Timestamp) -> Option<BitRate> {
        self.left.slow.lasts(now).then_some(self.left.rate)
    }

    /// It was too slow, with this rate, after it had been used for this long.
    pub(super) fn was_slow(&mut self, now: Timestamp, rate: BitRate, used_for: Duration) {
        self.left.slow.begin(now, used_for, MOST_SLOW);
        self.left.rate = rate;
    }

    /// It has failed: when it works again, its link is another one.
    pub(super) fn forget(&mut self) {
        self.left = Left::default();
    }

    // ---- in place of a dearer one ---------------------------------------------------------

    /// Takes in whether it suffices, and is cheaper than the used one.
    pub(super) fn set_candidate(&mut self, now: Timestamp, is_candidate: bool) {
        let first = Candidate {
            since: now,
            answered: None,
        };
        self.candidate = is_candidate.then(|| self.candidate.unwrap_or(first));
    }

    /// Whether it has sufficed for long enough.
    pub(super) fn has_sufficed(&self, now: Timestamp) -> bool {
        self.candidate
            .is_some_and(|candidate| now.since(candidate.since) >= SUFFICES_FOR)
    }

    /// Whether it may be used as it answers now. One that was left for its weak signal, without a
    /// good one since, has to answer for a time.
    pub(super) fn is_judged(&mut self, now: Timestamp) -> bool {
        let is_unjudged = self.left.is_unjudged;
        self.candidate.as_mut().is_some_and(|candidate| {
            let answered = *candidate.answered.get_or_insert(now);
            !is_unjudged || now.since(answered) >= JUDGED_FOR
        })
    }
}
