//! Choice of the pipe of one helper.

use std::time::Duration;

use mpbond_price::PipeRadios;
use mpbond_session::SubflowId;
use mpbond_units::{BitRate, Timestamp};

use super::average::Average;
use super::cost;
use super::facts::PipeFacts;
use super::known::Known;
use super::why::{PipeChoice, PipeUse, Why};
use crate::config;
use crate::ids::LinkId;

/// Time for which bytes wait before another pipe is tried.
const WAITS_FOR: Duration = Duration::from_millis(500);

/// Longest time for which two pipes are used, to find out which one is faster.
const TRIAL: Duration = Duration::from_secs(1);

/// Time for which a tried pipe may bring nothing before that: its radios wake. By the models, that
/// takes up to 0.7 s over WiFi that saves power (a beacon and two promotions), and 0.8 s over
/// Bluetooth.
const WAKES_FOR: Duration = Duration::from_secs(1);

/// Age of its last answer from which it is asked again after that.
const ANSWERS_EVERY: Duration = Duration::from_millis(500);

/// Time for a pipe that is left to bring what it carries.
const DRAIN: Duration = Duration::from_secs(2);

/// Demand from which on a pipe on standby whose link sleeps is kept awake, and how often it is
/// asked for that: Bluetooth goes to Sniff mode after 5 s.
const READY_FROM: BitRate = BitRate::from_bps(1_000_000);
const READY_EVERY: Duration = Duration::from_secs(4);

/// Time without bytes from which on a change of the pipe costs nothing.
const IDLE: Duration = Duration::from_secs(1);

/// The number that no pipe has.
const NONE: LinkId = LinkId(usize::MAX);

/// Time constant of the demand.
const DEMAND: Duration = Duration::from_secs(1);

/// Reasons for which a subflow is closed, for people.
const FAILED: &str = "another pipe to its helper has taken over";
const WEAK: &str = "its signal is weak, and another pipe to its helper has taken over";
const SLOW: &str = "another pipe to its helper has taken over, and it is still busy";

/// A result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Other pipes stand by than before.
    Roles,
    /// This pipe is used from now on.
    Chosen(LinkId, Why),
    /// This one is tried.
    Tried(LinkId),
    /// The proxy is to be asked over this subflow.
    Ask(SubflowId),
    /// The subflow of this pipe is to be closed, and another one made.
    Rejoin(LinkId, &'static str),
}

/// Another pipe beside the used one.
#[derive(Clone, Copy, Debug)]
struct Trial {
    link: LinkId,
    begun: Timestamp,
    /// The last look before it brought something.
    since: Timestamp,
    /// What it and the used one had carried by then.
    carried: [u64; 2],
    /// Begin of the wait for the used one.
    waited: Waiting,
}

/// Bytes wait for the used pipe.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: Timestamp,
    /// What it had carried by then.
    carried: u64,
}

/// A pipe that was left, and may still carry something.
#[derive(Clone, Copy, Debug)]
struct Draining {
    link: LinkId,
    subflow: SubflowId,
    since: Timestamp,
}

/// The pipes of a helper.
#[derive(Debug)]
pub(super) struct Choice {
    /// In their order by cost, as of the last look.
    pipes: Vec<Known>,
    /// None is tried because the used one is too slow.
    by_app: bool,
    used: LinkId,
    why: Why,
    since: Timestamp,
    trial: Option<Trial>,
    draining: Vec<Draining>,
    demand: Average,
    /// Rate of the used pipe since it is used. After a faster one was lost it is far below the
    /// demand.
    used_rate: Average,
    /// Rates down and up: the radios' energy depends on them.
    flows: [Average; 2],
    waiting: Option<Waiting>,
    looked: Option<Timestamp>,
    moved: Option<Timestamp>,
    steps: Vec<Step>,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            pipes: Vec::new(),
            by_app: false,
            used: NONE,
            why: Why::First,
            since: Timestamp::ZERO,
            trial: None,
            draining: Vec::new(),
            demand: Average::over(DEMAND),
            used_rate: Average::over(DEMAND),
            flows: [Average::over(DEMAND), Average::over(DEMAND)],
            waiting: None,
            looked: None,
            moved: None,
            steps: Vec::new(),
        }
    }
}

impl Choice {
    pub(super) fn add(&mut self, link: LinkId, place: usize, of: &config::Link) {
        self.by_app = of.by_app;
        self.pipes
            .push(Known::new(link, place, of.pause, of.radios));
        self.pipes_changed();
    }

    /// The radios of a pipe are other ones.
    pub(super) fn set_radios(&mut self, link: LinkId, radios: Option<PipeRadios>) {
        if let Some(pipe) = self.get_mut(link) {
            pipe.radios = radios;
            self.pipes_changed();
            self.explain_without_radios();
        }
    }

    /// Energy is no reason any more once the radios of the used pipe are not named.
    fn explain_without_radios(&mut self) {
        let is_by_energy = matches!(
            self.why,
            Why::FewestJoules | Why::FewerJoules(_) | Why::Kept
        );
        let is_named = self.get(self.used).is_some_and(|pipe| pipe.watts.is_some());
        if is_by_energy && !is_named {
            let is_first = self
                .pipes
                .first()
                .is_some_and(|pipe| pipe.link == self.used);
            self.why = if is_first { Why::First } else { Why::Kept };
        }
    }

    fn pipes_changed(&mut self) {
        // Nothing has been carried yet.
        match self.moved {
            None => self.begin(),
            Some(_) => self.sort(),
        }
        self.steps.push(Step::Roles);
    }

    /// Whether any pipe is left.
    pub(super) fn remove(&mut self, link: LinkId) -> bool {
        let before = self.pipes.len();
        self.pipes.retain(|pipe| pipe.link != link);
        if self.pipes.len() < before {
            self.draining.retain(|draining| draining.link != link);
            self.trial = self.trial.filter(|trial| trial.link != link);
            match self.used == link {
                true => {
                    self.trial = None;
                    self.begin();
                }
                false => self.sort(),
            }
            self.steps.push(Step::Roles);
        }
        !self.pipes.is_empty()
    }

    pub(super) fn is_needed(&self) -> bool {
        self.pipes.len() > 1
    }

    pub(super) fn of(&self, link: LinkId) -> Option<PipeChoice> {
        let pipe = self.get(link)?;
        let state = match self.trial {
            _ if link == self.used => PipeUse::Used,
            Some(trial) if trial.link == link => PipeUse::Tried,
            _ => PipeUse::Standby,
        };
        Some(PipeChoice {
            state,
            why: self.why,
            milliwatts: pipe.watts.map(|watts| (1e3 * watts) as u64),
        })
    }

    /// The results since the last call.
    pub(super) fn steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    /// A helper has told how many bytes wait there for a pipe.
    pub(super) fn reported(&mut self, now: Timestamp, subflow: SubflowId, bytes: u64) {
        let mut pipes = self.pipes.iter_mut();
        if let Some(pipe) = pipes.find(|pipe| pipe.subflow == Some(subflow)) {
            pipe.reported(now, bytes);
        }
    }

    // ---- decisions ------------------------------------------------------------------------

    /// Takes in the state of the pipes, and decides by it.
    pub(super) fn look(&mut self, now: Timestamp, facts: &[PipeFacts]) {
        let time = self.looked.replace(now).map(|before| now.since(before));
        for pipe in &mut self.pipes {
            if let Some(facts) = facts.iter().find(|facts| facts.link == pipe.link) {
                pipe.observe(now, facts);
            }
        }
        if !self.is_needed() {
            return;
        }
        let flows = [0, 1].map(|i| self.pipes.iter().map(|pipe| pipe.moved[i]).sum::<u64>());
        let moved = flows[0].max(flows[1]);
        if let Some(time) = time {
            self.demand.add(moved, time);
            let of_used = self.get(self.used).map_or([0; 2], |pipe| pipe.moved);
            self.used_rate.add(of_used[0].max(of_used[1]), time);
            for (flow, moved) in self.flows.iter_mut().zip(flows) {
                flow.add(moved, time);
            }
        }
        if moved > 0 {
            self.moved = Some(now);
        }
        self.sort();
        let used = self.used;
        for pipe in self.pipes.iter_mut().filter(|pipe| pipe.link != used) {
            pipe.stays_weak(now);
        }
        self.look_for_silence(now);
        if self.leave_failed(now) || self.leave_weak(now) {
            return;
        }
        self.drain(now);
        self.wait_for_tried(now);
        match self.trial {
            // One that does not answer has to answer, or to fail, first.
            Some(trial) if self.is_decided(now, trial) && !self.is_asked(self.used) => {
                self.end_trial(now, trial);
            }
            Some(_) => {}
            None => self.look_at_rates(now),
        }
        self.keep_ready(now);
    }

    /// Takes in which pipes have subflows, and decides by it.
    pub(super) fn settle(
        &mut self,
        now: Timestamp,
        subflow: &impl Fn(LinkId) -> Option<SubflowId>,
    ) {
        for pipe in &mut self.pipes {
            pipe.joined(subflow(pipe.link));
        }
        if !self.is_needed() || self.leave_failed(now) {
            return;
        }
        if !self.is_idle(now) || self.trial.is_some() {
            return;
        }
        self.sort();
        let is_good = |pipe: &&Known| {
            pipe.is_usable() && !pipe.may_be_weak(now) && pipe.known_rate(now).is_none()
        };
        let Some(good) = self.pipes.iter().find(is_good).map(|pipe| pipe.link) else {
            return;
        };
        if good != self.used {
            let mut before = self.pipes.iter().take_while(|pipe| pipe.link != good);
            let why = match before.find(|pipe| pipe.link == self.used) {
                Some(used) if used.may_be_weak(now) => Why::Weak(used.link),
                Some(used) => Why::TooSlow(used.link),
                None => self.cheaper(good),
            };
            self.take(now, good, why);
        }
    }

    fn is_idle(&self, now: Timestamp) -> bool {
        self.moved.is_none_or(|moved| now.since(moved) >= IDLE)
    }

    /// Leaves a pipe that cannot carry data, if another one can; whether it has.
    fn leave_failed(&mut self, now: Timestamp) -> bool {
        let is_usable = |link| self.get(link).is_some_and(Known::is_usable);
        if let Some(trial) = self.trial
            && !is_usable(trial.link)
        {
            self.trial = None;
            self.steps.push(Step::Roles);
            self.replace_if_joined(trial.link);
        }
        let is_usable = |link| self.get(link).is_some_and(Known::is_usable);
        if is_usable(self.used) {
            return false;
        }
        let demand = self.demand.rate();
        let usable = || self.pipes.iter().filter(|pipe| pipe.is_usable());
        let sufficient = || usable().find(|pipe| pipe.suffices(now, demand));
        let next = self.trial.map(|trial| trial.link).or_else(|| {
            let next = sufficient().or_else(|| usable().max_by_key(|pipe| pipe.known_rate(now)))?;
            Some(next.link)
        });
        let Some(next) = next else {
            return false;
        };
        if let Some(used) = self.get_mut(self.used) {
            used.forget();
        }
        self.take(now, next, Why::Failed(self.used));
        true
    }

    /// Leaves a pipe whose signal is weak, if that of another one that works is not; whether it
    /// has. What the weak one carries is sent again at once (Wear OS paper, section 6.4).
    fn leave_weak(&mut self, now: Timestamp) -> bool {
        let (used, demand) = (self.used, self.demand.rate());
        if !self.get(used).is_some_and(|pipe| pipe.is_weak(now)) {
            return false;
        }
        let good = || {
            let usable = self.pipes.iter().filter(|pipe| pipe.is_usable());
            usable.filter(|pipe| !pipe.may_be_weak(now))
        };
        let sufficient = good().find(|pipe| pipe.suffices(now, demand));
        let next = sufficient.or_else(|| good().max_by_key(|pipe| pipe.known_rate(now)));
        let Some(next) = next.map(|pipe| pipe.link) else {
            return false;
        };
        if let Some(pipe) = self.get_mut(used) {
            pipe.was_weak(now);
        }
        self.take(now, next, Why::Weak(used));
        self.draining.retain(|draining| draining.link != used);
        if !self.is_idle(now) {
            self.steps.push(Step::Rejoin(used, WEAK));
        }
        true
    }

    /// Asks the used pipe whether it works, and the others if it does not answer. A silence of all
    /// of them is one of their helper, or of the proxy.
    fn look_for_silence(&mut self, now: Timestamp) {
        let used = self.used;
        let Some(pipe) = self.get_mut(used).filter(|pipe| pipe.is_quiet(now)) else {
            return;
        };
        let Some(since) = pipe.asked() else {
            let asked = pipe.ask(now);
            return self.steps.extend(asked.map(Step::Ask));
        };
        if pipe.may_answer(now) {
            return;
        }
        let is_over = pipe.is_unanswered(now);
        let mut works = false;
        for other in self.pipes.iter_mut().filter(|pipe| pipe.link != used) {
            match other.has_answered_since(since) {
                true => works = true,
                false => self.steps.extend(other.ask(now).map(Step::Ask)),
            }
        }
        if is_over
            && works
            && let Some(pipe) = self.get_mut(used)
        {
            pipe.suspect();
        }
    }

    /// Asks pipes on standby whose links sleep while much is carried: the one that is needed when
    /// the used one is lost is awake then.
    fn keep_ready(&mut self, now: Timestamp) {
        if self.is_idle(now) || self.demand.rate() < READY_FROM {
            return;
        }
        let used = self.used;
        let sleeping = |pipe: &&mut Known| pipe.link != used && pipe.is_usable() && pipe.sleeps();
        for pipe in self.pipes.iter_mut().filter(sleeping) {
            if !pipe.has_answered_since(now.before(READY_EVERY)) {
                self.steps.extend(pipe.ask(now).map(Step::Ask));
            }
        }
    }

    /// Closes the subflows of pipes that were left long ago and still bring something. One that has
    /// stopped is the session's matter.
    fn drain(&mut self, now: Timestamp) {
        let over = |draining: &Draining| now.since(draining.since) >= DRAIN;
        let (over, rest) = self.draining.iter().partition(|draining| over(draining));
        self.draining = rest;
        let over: Vec<Draining> = over;
        for draining in over {
            let is_in_use = self
                .of(draining.link)
                .is_none_or(|of| of.state != PipeUse::Standby);
            let is_busy = self
                .get(draining.link)
                .is_some_and(|pipe| pipe.subflow == Some(draining.subflow) && pipe.is_busy());
            if is_busy && !is_in_use {
                self.steps.push(Step::Rejoin(draining.link, SLOW));
            }
        }
    }

    /// Tries another pipe while bytes wait for the used one, and takes a cheaper one that suffices.
    fn look_at_rates(&mut self, now: Timestamp) {
        let demand = self.demand.rate();
        let waits = |pipe: &Known| pipe.waits(now, self.used_rate.rate());
        let waits = !self.by_app && self.get(self.used).is_some_and(waits);
        let used = self.used;
        if waits {
            self.no_candidates();
            let begun = Waiting {
                since: now,
                carried: self.carried(used),
            };
            let waiting = *self.waiting.get_or_insert(begun);
            if now.since(waiting.since) >= WAITS_FOR
                && let Some(link) = self.awake(now, demand)
            {
                let carried = [self.carried(link), self.carried(used)];
                self.waiting = None;
                self.trial = Some(Trial {
                    link,
                    begun: now,
                    since: now,
                    carried,
                    waited: waiting,
                });
                self.steps.extend([Step::Roles, Step::Tried(link)]);
            }
            return;
        }
        self.waiting = None;
        let mut is_cheaper = true;
        for pipe in &mut self.pipes {
            is_cheaper &= pipe.link != used;
            let is_candidate = is_cheaper && pipe.is_usable() && pipe.suffices(now, demand);
            pipe.set_candidate(now, is_candidate);
        }
        // Questions keep its radio awake: none before it would be used if it answers.
        let mut pipes = self.pipes.iter_mut();
        let Some(pipe) = pipes.find(|pipe| pipe.has_sufficed(now)) else {
            return;
        };
        // While it stood by, nothing showed that it works, nor how strong its signal is.
        if !pipe.has_answered_since(now.before(ANSWERS_EVERY)) {
            let asked = pipe.ask(now);
            self.steps.extend(asked.map(Step::Ask));
        } else if pipe.is_judged(now) {
            let link = pipe.link;
            self.take(now, link, self.cheaper(link));
        }
    }

    /// The first pipe beside the used one that is awake and may be fast enough. Those that sleep
    /// are asked: what one is given before it is awake would be late for the applications.
    fn awake(&mut self, now: Timestamp, demand: BitRate) -> Option<LinkId> {
        let used = self.used;
        let others = self.pipes.iter_mut().filter(|pipe| pipe.link != used);
        let mut awake = None;
        for pipe in others.filter(|pipe| pipe.is_usable() && pipe.suffices(now, demand)) {
            if !pipe.sleeps() || pipe.has_answered_since(now.before(READY_EVERY)) {
                awake = awake.or(Some(pipe.link));
            } else {
                self.steps.extend(pipe.ask(now).map(Step::Ask));
            }
        }
        awake
    }

    /// None has sufficed so far.
    fn no_candidates(&mut self) {
        for pipe in &mut self.pipes {
            pipe.candidate = None;
        }
    }

    /// The time of a trial begins when the tried pipe brings something.
    fn wait_for_tried(&mut self, now: Timestamp) {
        let used = self.carried(self.used);
        if let Some(mut trial) = self.trial
            && now.since(trial.begun) <= WAKES_FOR
            && self.carried(trial.link) == trial.carried[0]
        {
            (trial.since, trial.carried[1]) = (now, used);
            self.trial = Some(trial);
        }
    }

    /// Whether the time of a trial is over, or the tried pipe has carried more than the used one
    /// does in that time. What the helper holds for the used one would wait for the rest of it.
    fn is_decided(&self, now: Timestamp, trial: Trial) -> bool {
        let moved = self.carried(trial.link).saturating_sub(trial.carried[0]);
        let used_moved = self.carried(self.used).saturating_sub(trial.carried[1]);
        let most = self.rate_beside(now, trial).bytes_in(TRIAL);
        now.since(trial.since) >= TRIAL || moved > most.max(used_moved)
    }

    /// Rate of the used pipe since bytes have waited for it: an early end leaves no time to measure
    /// it in the trial.
    fn rate_beside(&self, now: Timestamp, trial: Trial) -> BitRate {
        let Waiting { since, carried } = trial.waited;
        let moved = self.carried(self.used).saturating_sub(carried);
        BitRate::over(moved, now.since(since))
    }

    /// The faster one of two pipes is used from now on.
    fn end_trial(&mut self, now: Timestamp, trial: Trial) {
        let time = now.since(trial.since);
        let [before, used_before] = trial.carried;
        let moved = self.carried(trial.link).saturating_sub(before);
        let used_moved = self.carried(self.used).saturating_sub(used_before);
        let (used, used_for) = (self.used, now.since(self.since));
        // Where the bytes have ended, it was no trial.
        let is_valid = self.moved == Some(now);
        let is_faster = is_valid && moved > used_moved;
        let (slower, rate, used_for) = match is_faster {
            true => (used, self.rate_beside(now, trial), used_for),
            false => (trial.link, BitRate::over(moved, time), Duration::ZERO),
        };
        if is_valid && let Some(pipe) = self.get_mut(slower) {
            pipe.was_slow(now, rate, used_for);
        }
        match is_faster {
            true => self.take(now, trial.link, Why::TooSlow(used)),
            false => {
                self.trial = None;
                self.steps.push(Step::Roles);
                self.leave(now, trial.link);
            }
        }
        // What waits at the helper for a slow one is wanted before all that others have been given
        // since: it is not waited for in vain.
        let waits = self.get(slower).map_or(0, Known::left_at_helper);
        if is_valid && waits > rate.bytes_in(DRAIN) {
            self.draining.retain(|draining| draining.link != slower);
            self.steps.push(Step::Rejoin(slower, SLOW));
        }
    }

    // ---- what decisions have in common ----------------------------------------------------

    /// The cheapest one is used from now on.
    fn begin(&mut self) {
        self.used = NONE;
        self.sort();
        self.why = Why::First;
        if let Some(first) = self.pipes.first() {
            self.used = first.link;
            if first.watts.is_some() {
                self.why = Why::FewestJoules;
            }
        }
    }

    /// Puts the pipes in their order by cost at the present demand.
    fn sort(&mut self) {
        let [down, up] = &self.flows;
        cost::sort(&mut self.pipes, self.used, [down.rate(), up.rate()]);
    }

    /// Reason for which a pipe is used that is cheaper than the used one.
    fn cheaper(&self, link: LinkId) -> Why {
        let has_watts = |link| self.get(link).is_some_and(|pipe| pipe.watts.is_some());
        match has_watts(link) && has_watts(self.used) {
            true => Why::FewerJoules(self.used),
            false => Why::Cheaper(self.used),
        }
    }

    fn take(&mut self, now: Timestamp, link: LinkId, why: Why) {
        let before = std::mem::replace(&mut self.used, link);
        self.why = why;
        self.since = now;
        self.used_rate = Average::over(DEMAND);
        self.trial = None;
        self.waiting = None;
        self.no_candidates();
        self.steps.extend([Step::Roles, Step::Chosen(link, why)]);
        match self.get(before).is_some_and(Known::is_usable) {
            true => self.leave(now, before),
            false => self.replace_if_joined(before),
        }
    }

    /// A pipe that works is to bring what it carries.
    fn leave(&mut self, now: Timestamp, link: LinkId) {
        let is_idle = self.is_idle(now);
        let subflow = self.get(link).and_then(|pipe| pipe.subflow);
        if let Some(subflow) = subflow.filter(|_| !is_idle) {
            self.draining.push(Draining {
                link,
                subflow,
                since: now,
            });
        }
    }

    /// What a pipe that does not work carries is for others.
    fn replace_if_joined(&mut self, link: LinkId) {
        if self.get(link).is_some_and(|pipe| pipe.subflow.is_some()) {
            self.steps.push(Step::Rejoin(link, FAILED));
        }
    }

    fn is_asked(&self, link: LinkId) -> bool {
        self.get(link).is_some_and(|pipe| pipe.asked().is_some())
    }

    fn carried(&self, link: LinkId) -> u64 {
        self.get(link).map_or(0, |pipe| pipe.carried)
    }

    fn get(&self, link: LinkId) -> Option<&Known> {
        self.pipes.iter().find(|pipe| pipe.link == link)
    }

    fn get_mut(&mut self, link: LinkId) -> Option<&mut Known> {
        self.pipes.iter_mut().find(|pipe| pipe.link == link)
    }
}
