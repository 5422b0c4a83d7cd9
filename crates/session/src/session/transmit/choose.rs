//! Which subflow carries the next data: views for the scheduler.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::costs::leave_cheapest;
use crate::mechanism::Mechanism;
use crate::scheduler::{Backlog, DEFER, Decision, SchedulerKind, SubflowView};
use crate::session::Session;
use crate::session::order::{TRANSFER, is_delay_sensitive, is_part};
use crate::session::timer::Timer;
use crate::subflow::Subflow;
use crate::{PathSet, SubflowId};

/// Maximum queueing delay at a helper for delay-sensitive data, for copies of data that failed
/// subflows owe, and while a stream waits that goes before those whose bytes the helper holds. Of
/// other data [`Subflow::upload_ahead_time`] bounds uploads, and the buffer downloads.
const INTERACTIVE_AHEAD: Duration = Duration::from_millis(200);

/// One part in so many of what the peer's session window lets go counts as waiting (ADR 0092).
const WINDOW_PART: u64 = 4;

/// Streams that a record is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    /// Ranks before this one: short exchanges, beside which transfers may wait.
    Before(usize),
    /// This rank and later ones: transfers, beside which short exchanges wait.
    From(usize),
}

impl Scope {
    /// Whether streams of a rank are among them.
    pub(super) fn takes(self, rank: usize) -> bool {
        match self {
            Self::All => true,
            Self::Before(first) => rank < first,
            Self::From(first) => rank >= first,
        }
    }
}

/// Streams of one group that a record is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Selection {
    pub(super) scope: Scope,
    /// Their set of paths.
    pub(super) paths: PathSet,
}

/// Subflows that have turned out to have nothing to carry now, by bits of their indices.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PassedOver {
    /// What waits is left to a faster one: it may be one of these, a little later.
    pub(super) waiting: u64,
    /// They carry all that waits already. Nobody waits for them.
    pub(super) with_nothing: u64,
    /// The same, found before any was chosen.
    pub(super) carriers: u64,
}

impl PassedOver {
    /// Whether none was chosen in vain.
    fn is_none(self) -> bool {
        self.waiting | self.with_nothing == 0
    }

    /// Whether the subflow with this index has nothing to carry, now or later.
    fn has_nothing(self, i: usize) -> bool {
        (self.with_nothing | self.carriers) >> i.min(63) & 1 != 0
    }
}

/// Bounds on what waits on a subflow.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// A helper may hold no more than it passes on within this time.
    far: Option<Duration>,
    /// Only data waits for which others than this session go first where they do on a link.
    gives_way: bool,
    /// The queues that are short for what may be sent next.
    short: Short,
}

/// Queues that are kept short for short exchanges (ADR 0027).
#[derive(Debug, Clone, Copy)]
enum Short {
    None,
    /// Those of helpers. A part of a page ends soon, and the page is not complete before: on a
    /// direct path it may fill the window, unless somebody types or talks.
    OfHelpers,
    All,
}

/// Bytes that the fastest of the subflows that the scheduler was shown delivers before a frame that
/// is given to this one has arrived.
pub(super) fn bytes_before(on: SubflowId, views: &[SubflowView]) -> u64 {
    let own = views.iter().find(|v| v.id == on);
    let fastest = views.iter().min_by_key(|v| v.delivered());
    own.zip(fastest).map_or(0, |(own, fastest)| {
        let later = own.delivered().saturating_sub(fastest.delivered());
        fastest.throughput.bytes_in(later)
    })
}

/// Streams of ranks before this one go before some of what this subflow owes. It is at most that of
/// transfers, which pass nothing: helpers run ahead for them.
pub(super) fn passed_rank(s: &Subflow) -> Option<usize> {
    s.tx.owed_rank().map(|rank| rank.min(TRANSFER))
}

impl Session {
    /// The subflow that the scheduler gives the next data of these streams to, and `views` of all
    /// that it was shown: subflows of their paths.
    /// `passed_over` are those that have turned out to have nothing they may carry.
    pub(super) fn choose(
        &mut self,
        now: Timestamp,
        Selection { scope, paths }: Selection,
        passed_over: PassedOver,
        views: &mut Vec<SubflowView>,
    ) -> Option<usize> {
        if !self.streams.ready.waits(paths) && !self.scheduler.duplicates() {
            self.timers.stop(Timer::Schedule);
            return None;
        }
        let is_exchange = matches!(scope, Scope::Before(_));
        let interactive = is_exchange || self.streams.ready.has_delay_sensitive(paths);
        // Copies for a failed subflow that comes back are copies in vain: no store of them at a
        // helper.
        let rescues = || {
            let owes = |s: &Subflow| s.has_failed() && s.sent.data_bytes > 0;
            let mut subflows = self.subflows.iter().filter(|s| paths.contains(s.path));
            subflows.any(owes)
        };
        let bounded = self.config.uses(Mechanism::InteractiveBound) && (interactive || rescues());
        let bound = bounded.then_some(INTERACTIVE_AHEAD);
        // In its turn a transfer has the queues that short exchanges have.
        let ready = &self.streams.ready;
        let due = ready.due_of(paths).zip(self.serves_apart(now));
        let has_turn = due.is_some_and(|(due, from)| due >= from);
        let is_part = || {
            let first = ready.first_of(paths, &|rank| scope.takes(rank));
            first.is_some_and(is_part)
        };
        let exchanges = self.short_exchanges.first(now);
        let short = match exchanges.filter(|_| !is_exchange && !has_turn) {
            None => Short::None,
            Some(rank) if !is_delay_sensitive(rank) && is_part() => Short::OfHelpers,
            Some(_) => Short::All,
        };
        let sensitive = |rank| is_delay_sensitive(rank) && scope.takes(rank);
        let gives_way = !self.scheduler.duplicates()
            && self.streams.ready.first_of(paths, &sensitive).is_none();
        let waits = |s: &Subflow| {
            s.tx.room > 0 && s.carries() && paths.contains(s.path) && s.gives_way(now)
        };
        self.scratch.gave_way |= gives_way && self.subflows.iter().any(waits);
        let waiting = self.streams.unscheduled_beside(paths);
        let bounds = Bounds {
            far: bound,
            short,
            gives_way,
        };
        let held_back = self.fill_views(now, paths, passed_over, bounds, views);
        if !self.scheduler.duplicates() && self.subflows.differ_in_cost() {
            // What one was passed over for, it may not carry.
            let waiting = passed_over.is_none().then_some(waiting);
            leave_cheapest(now, &self.subflows, waiting, views);
        }
        let decision = views.iter().any(|v| v.idle).then(|| {
            // Streams of other sets wait for the same subflows.
            let before = |rank| self.streams.unscheduled_before(rank, paths);
            let unscheduled_bytes = match scope {
                Scope::All => waiting,
                Scope::Before(rank) => before(rank),
                Scope::From(rank) => waiting.saturating_sub(before(rank)),
            };
            let unscheduled_bytes = self.within_window(unscheduled_bytes);
            let backlog = Backlog { unscheduled_bytes };
            self.scheduler.decide(now, views, backlog)
        });
        match decision {
            Some(Decision::Send(id)) => {
                self.timers.stop(Timer::Schedule);
                self.subflows.index(id)
            }
            Some(Decision::Defer { until }) => {
                self.timers.set(Timer::Schedule, Some(until));
                None
            }
            None => {
                // It is looked at again without an event.
                let again = (held_back && passed_over.is_none()).then(|| now + DEFER);
                self.timers.set(Timer::Schedule, again);
                None
            }
        }
    }

    /// Of bytes that wait, those that the scheduler is told of: copies, and a part of the window.
    /// Until a slow subflow delivers, the window has to last for others, which may become faster.
    /// Other schedulers are told of all: PAMS as published, and shares of all bytes.
    fn within_window(&self, unscheduled: u64) -> u64 {
        let counts_part = self.config.scheduler == SchedulerKind::Mpbond;
        if !counts_part || !self.config.uses(Mechanism::WindowPart) {
            return unscheduled;
        }
        let copies = self.streams.retransmit_bytes().min(unscheduled);
        let new = (unscheduled - copies).min(self.flow.credit() / WINDOW_PART);
        copies + new
    }

    /// Views of the subflows of these paths in the best tier for new data among them. Returns
    /// whether the socket of one that may have something to carry takes more.
    fn fill_views(
        &self,
        now: Timestamp,
        paths: PathSet,
        passed_over: PassedOver,
        bounds: Bounds,
        views: &mut Vec<SubflowView>,
    ) -> bool {
        views.clear();
        let heeds_silence =
            self.scheduler.heeds_silence() && self.config.uses(Mechanism::Avoidance);
        let tier = |s: &Subflow| {
            let in_set = paths.contains(s.path);
            in_set.then(|| s.data_tier(heeds_silence)).flatten()
        };
        let Some(best) = self.subflows.iter().filter_map(tier).min() else {
            return false;
        };
        // As published, PAD stands for the whole frame.
        let config = &self.config;
        let whole = config.uses(Mechanism::WholeFrames) && !config.scheduler.fills_windows();
        let waiting = whole.then(|| self.streams.unscheduled_beside(paths));
        let frame = |s: &Subflow| {
            let bytes = |waiting| self.record_limit(now, s).min(waiting);
            s.throughput(now).time_for(waiting.map_or(0, bytes))
        };
        let mut takes_more = false;
        for (i, s) in self.subflows.iter().enumerate() {
            if tier(s) != Some(best) || passed_over.has_nothing(i) {
                continue;
            }
            takes_more |= s.tx.room > 0;
            let waits = bounds.gives_way && s.gives_way(now);
            if !waits {
                views.push(SubflowView {
                    id: s.id,
                    helper: s.helper,
                    idle: self.is_idle(now, s, bounds) && passed_over.waiting >> i.min(63) & 1 == 0,
                    pad: s.pad(now),
                    frame: frame(s),
                    rtt: s.estimator.path().srtt,
                    throughput: s.throughput(now),
                });
            }
        }
        takes_more
    }

    /// Whether a subflow takes a frame now.
    fn is_idle(&self, now: Timestamp, s: &Subflow, bounds: Bounds) -> bool {
        let uses = |mechanism| self.config.uses(mechanism);
        // Bytes that wait here go on an express, or are sent as soon as they may be. Behind what
        // the helper holds they would wait for all of it.
        let ready = &self.streams.ready;
        let goes_before = |rank| ready.waits_before_on(rank, s.path);
        let passing = uses(Mechanism::InteractiveBound) && passed_rank(s).is_some_and(goes_before);
        let passing = passing.then_some(INTERACTIVE_AHEAD);
        let minds_uploads =
            self.identity.client && self.scheduler.minds_delay() && uses(Mechanism::UploadBound);
        let upload = minds_uploads.then(|| s.upload_ahead_time(now)).flatten();
        let bounds_of_far = [bounds.far, passing, s.run_ahead_time(), upload];
        let bound = bounds_of_far.into_iter().flatten().min();
        s.tx.room > 0
            && !s.sent.is_full()
            && if self.config.scheduler.fills_windows() {
                !s.estimator.window_is_full(s.tx.octets)
            } else {
                let is_short = match bounds.short {
                    _ if s.giving_way.keeps_short() => true,
                    Short::None => false,
                    Short::OfHelpers => !s.is_direct(),
                    Short::All => true,
                };
                let has_enough = is_short && s.has_queued_enough(now);
                let near_is_full = uses(Mechanism::NearBound) && s.near_is_full(now);
                // No caution where others may be silent, or cost more.
                let takes = |o: &Subflow| o.id != s.id && o.may_take_over() && o.cost <= s.cost;
                let has_other = || self.subflows.iter().any(takes);
                let unproven =
                    uses(Mechanism::UnprovenBound) && s.unproven_is_full(now) && has_other();
                let far_is_full = bound.is_some_and(|bound| s.far_is_full(now, bound));
                !has_enough && !near_is_full && !unproven && !far_is_full
            }
    }

    /// Whether expresses may carry anything past a helper's queue.
    pub(super) fn has_expresses(&self) -> bool {
        self.config.reinjection.express && self.scheduler.minds_delay()
    }

    /// Whether streams wait that go before some whose bytes a subflow owes: an express may carry
    /// them past these.
    pub(super) fn may_pass(&self) -> bool {
        let passed = self.subflows.iter().filter_map(passed_rank).max();
        self.has_expresses() && passed.is_some_and(|rank| self.streams.ready.waits_before(rank))
    }

    /// Whether expresses carry bytes that are to be sent again now.
    pub(super) fn uses_expresses(&self) -> bool {
        self.streams.retransmit_bytes() > 0 && self.has_expresses()
    }
}
