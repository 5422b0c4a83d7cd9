//! State machine that most radios share: active while data passes, then a ladder of ever cheaper
//! states, and back up by a promotion.

use std::time::Duration;

use mpbond_units::Timestamp;

use crate::active::{ActivePower, Mix};
use crate::event::{Direction, Packet, Placement};
use crate::timeline::{Phase, State, Tape, Timeline, Transfer};

/// Periodic listening in a low-power state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Duty {
    /// Interval between listening occasions.
    pub cycle: Duration,
    /// Duration of a listening occasion.
    pub on: Duration,
}

impl Duty {
    /// Mean power when `on_mw` is drawn during occasions and `base_mw` between them: P = P_base +
    /// (P_on − P_base)·t_on/T_c.
    pub fn mean_mw(&self, base_mw: f64, on_mw: f64) -> f64 {
        let share = (self.on.as_secs_f64() / self.cycle.as_secs_f64()).min(1.0);
        base_mw + (on_mw - base_mw) * share
    }

    /// Time at which a packet for the device, available at `now`, is received; cycles count from
    /// `origin`.
    pub(crate) fn heard(&self, origin: Timestamp, now: Timestamp) -> Timestamp {
        let (since, cycle) = (now.since(origin).as_nanos(), self.cycle.as_nanos());
        let into = since.checked_rem(cycle).unwrap_or(0);
        if into < self.on.as_nanos().max(1) {
            return now;
        }
        let wait = u64::try_from(cycle - into).unwrap_or(u64::MAX);
        now + Duration::from_nanos(wait)
    }
}

/// Transition from a low-power state back to the active one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Climb {
    /// State shown during the transition: promotion or association.
    pub state: State,
    /// Duration.
    pub lasts: Duration,
    /// Power, in mW.
    pub power_mw: f64,
}

/// One state below the active one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rung {
    /// State of this rung.
    pub state: State,
    /// Phase that its time counts as.
    pub phase: Phase,
    /// Time after which the next rung follows; `None` for the rung on which the radio rests.
    pub lasts: Option<Duration>,
    /// Mean power, in mW, listening included.
    pub power_mw: f64,
    /// Listening pattern; `None` when it receives at any time.
    pub duty: Option<Duty>,
    /// Transition to the active state; `None` when there is none to wait for.
    pub climb: Option<Climb>,
}

/// Maximum number of rungs.
pub(crate) const MAX_RUNGS: usize = 5;

/// Description of a radio as a ladder.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Power while data passes.
    pub active: ActivePower,
    /// Longest gap between packets that still counts as passing data.
    pub hold: Duration,
    /// Rungs from the one below activity to the lowest.
    pub rungs: Vec<Rung>,
    /// Rung on which the radio starts, and to which [`crate::Hint::Release`] takes it.
    pub rest: usize,
}

#[derive(Debug, Clone, Copy)]
struct Rising {
    /// Time until which the radio stays on its rung.
    start: Timestamp,
    /// Time at which the active state is reached.
    ready: Timestamp,
    /// Transition; `None` when the packet only waited for a listening occasion.
    climb: Option<Climb>,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// Data passes, or passed at most `hold` ago.
    Active,
    /// On the rung of this index since the given instant.
    Rung(usize, Timestamp),
    /// Leaving the rung of this index.
    Rising(usize, Rising),
}

/// State of a radio on its ladder.
#[derive(Debug, Clone)]
pub(crate) struct Ladder {
    active: ActivePower,
    hold: Duration,
    rungs: [Rung; MAX_RUNGS],
    count: usize,
    rest: usize,
    placement: Placement,
    place: Place,
    tape: Tape,
    now: Timestamp,
    last: Timestamp,
    mix: Mix,
}

const EMPTY: Rung = Rung {
    state: State::Off,
    phase: Phase::Idle,
    lasts: None,
    power_mw: 0.0,
    duty: None,
    climb: None,
};

impl Ladder {
    pub(crate) fn new(plan: &Plan, placement: Placement) -> Self {
        let mut rungs = [EMPTY; MAX_RUNGS];
        let count = plan.rungs.len().min(MAX_RUNGS);
        for (to, from) in rungs.iter_mut().zip(&plan.rungs) {
            *to = *from;
        }
        Self {
            active: plan.active,
            hold: plan.hold,
            rungs,
            count: count.max(1),
            rest: plan.rest.min(count.saturating_sub(1)),
            placement,
            place: Place::Rung(plan.rest, Timestamp::ZERO),
            tape: Tape::default(),
            now: Timestamp::ZERO,
            last: Timestamp::ZERO,
            mix: Mix::default(),
        }
    }

    fn rung(&self, index: usize) -> &Rung {
        &self.rungs[index.min(self.count - 1)]
    }

    /// Changes the active power from `now` on.
    pub(crate) fn set_active<T: Timeline>(
        &mut self,
        now: Timestamp,
        power: ActivePower,
        out: &mut T,
    ) {
        self.advance(now, out);
        if matches!(self.place, Place::Active) {
            self.write_active(self.last.max(self.now), out);
        }
        self.active = power;
    }

    /// Advances to `now`: writes all spans that end by then.
    pub(crate) fn advance<T: Timeline>(&mut self, now: Timestamp, out: &mut T) {
        self.now = self.now.max(now);
        self.tape.begin(now);
        self.settle(out);
    }

    fn settle<T: Timeline>(&mut self, out: &mut T) {
        let now = self.now;
        if let Place::Rising(index, rising) = self.place {
            if now < rising.ready {
                return;
            }
            self.write_rising(index, rising, out);
        }
        if matches!(self.place, Place::Active) {
            if now.since(self.last) <= self.hold {
                return;
            }
            self.write_active(self.last, out);
            self.place = Place::Rung(0, self.last);
        }
        while let Place::Rung(index, since) = self.place {
            let rung = *self.rung(index);
            let Some(end) = rung.lasts.map(|lasts| since + lasts) else {
                return;
            };
            if now < end {
                return;
            }
            self.tape
                .emit(end, rung.state, rung.phase, rung.power_mw, out);
            self.place = Place::Rung(index + 1, end);
        }
    }

    fn write_rising<T: Timeline>(&mut self, index: usize, rising: Rising, out: &mut T) {
        let rung = *self.rung(index);
        self.tape
            .emit(rising.start, rung.state, rung.phase, rung.power_mw, out);
        if let Some(climb) = rising.climb {
            self.tape.emit(
                rising.ready,
                climb.state,
                Phase::Promotion,
                climb.power_mw,
                out,
            );
        }
        self.last = self.last.max(rising.ready);
        self.place = Place::Active;
    }

    fn write_active<T: Timeline>(&mut self, end: Timestamp, out: &mut T) {
        let start = self.tape.begin(end);
        let mean = self.mix.mean_mw(&self.active, end.since(start));
        self.tape
            .emit(end, State::Active, Phase::Transfer, mean, out);
        self.mix = Mix::default();
    }

    /// Offers a packet at `at`; returns the time at which it may pass.
    pub(crate) fn packet<T: Timeline>(
        &mut self,
        at: Timestamp,
        packet: Packet,
        out: &mut T,
    ) -> Timestamp {
        self.now = self.now.max(at);
        self.settle(out);
        let pass = self.admit(packet.direction, out);
        if let Some(start) = self.tape.at()
            && matches!(self.place, Place::Active)
            && pass.since(start) >= self.active.window()
        {
            self.write_active(pass, out);
        }
        self.last = self.last.max(pass);
        self.mix.add(packet);
        out.transfer(Transfer {
            at: pass,
            direction: packet.direction,
            bytes: packet.bytes,
            energy_mj: self.active.per_packet_mj(packet),
        });
        pass
    }

    /// Brings the radio to the active state, or begins the transition to it.
    fn admit<T: Timeline>(&mut self, direction: Direction, out: &mut T) -> Timestamp {
        let now = self.now;
        match self.place {
            Place::Active => now,
            // A recorded packet did pass, so the transition that a hint began is over.
            Place::Rising(index, rising) if self.placement == Placement::Recorded => {
                let rising = Rising {
                    start: rising.start.min(now),
                    ready: now,
                    climb: rising.climb,
                };
                self.write_rising(index, rising, out);
                now
            }
            Place::Rising(index, rising) => {
                // Own data need not wait for the network's next paging occasion.
                if direction == Direction::Up && now < rising.start {
                    self.rise(index, now)
                } else {
                    rising.ready
                }
            }
            Place::Rung(index, since) => {
                let rung = *self.rung(index);
                match self.placement {
                    Placement::Live => {
                        self.tape.begin(now);
                        let start = match (direction, rung.duty) {
                            (Direction::Down, Some(duty)) => duty.heard(since, now),
                            _ => now,
                        };
                        self.rise(index, start)
                    }
                    Placement::Recorded => {
                        let lasts = rung.climb.map_or(Duration::ZERO, |climb| climb.lasts);
                        let start = self.tape.begin(now.before(lasts)).max(now.before(lasts));
                        let rising = Rising {
                            start,
                            ready: now,
                            climb: rung.climb,
                        };
                        self.write_rising(index, rising, out);
                        now
                    }
                }
            }
        }
    }

    fn rise(&mut self, index: usize, start: Timestamp) -> Timestamp {
        let climb = self.rung(index).climb;
        let ready = start + climb.map_or(Duration::ZERO, |climb| climb.lasts);
        self.place = Place::Rising(
            index,
            Rising {
                start,
                ready,
                climb,
            },
        );
        ready
    }

    /// Keeps the radio awake until then, as while a packet that may pass waits for something else.
    pub(crate) fn keep_awake(&mut self, until: Timestamp) {
        self.last = self.last.max(until);
    }

    /// Begins a promotion without a packet, so that the next one finds the radio ready.
    pub(crate) fn wake<T: Timeline>(&mut self, at: Timestamp, out: &mut T) {
        self.advance(at, out);
        match self.place {
            Place::Rung(index, _) => {
                self.rise(index, self.now);
            }
            Place::Active => self.last = self.last.max(self.now),
            Place::Rising(..) => {}
        }
    }

    /// Falls to the rung of this index now. A transition under way is finished first, unless
    /// packets are recorded: the next of them passes at its own time, so the transition must have
    /// been cut short.
    pub(crate) fn drop_to<T: Timeline>(&mut self, at: Timestamp, index: usize, out: &mut T) {
        self.advance(at, out);
        match self.place {
            Place::Rising(from, mut rising) => {
                match self.placement {
                    Placement::Live => self.now = self.now.max(rising.ready),
                    Placement::Recorded => rising.ready = self.now,
                }
                self.write_rising(from, rising, out);
            }
            Place::Active => {
                self.write_active(self.last, out);
                let first = *self.rung(0);
                self.tape
                    .emit(self.now, first.state, first.phase, first.power_mw, out);
            }
            Place::Rung(from, _) if from >= index => return,
            Place::Rung(from, _) => {
                let rung = *self.rung(from);
                self.tape
                    .emit(self.now, rung.state, rung.phase, rung.power_mw, out);
            }
        }
        self.place = Place::Rung(index.min(self.count - 1), self.now);
    }

    /// Falls to the resting rung.
    pub(crate) fn release<T: Timeline>(&mut self, at: Timestamp, out: &mut T) {
        self.drop_to(at, self.rest, out);
    }

    /// Ends the timeline: writes the whole tail, and rest up to `end`.
    pub(crate) fn finish<T: Timeline>(&mut self, end: Timestamp, out: &mut T) {
        self.now = self.now.max(end);
        if let Place::Rising(index, rising) = self.place {
            self.now = self.now.max(rising.ready);
            self.write_rising(index, rising, out);
        }
        if matches!(self.place, Place::Active) {
            self.write_active(self.last, out);
            self.place = Place::Rung(0, self.last);
        }
        while let Place::Rung(index, since) = self.place {
            let rung = *self.rung(index);
            let over = rung.lasts.map_or(self.now, |lasts| since + lasts);
            self.tape
                .emit(over, rung.state, rung.phase, rung.power_mw, out);
            if rung.lasts.is_none() {
                return;
            }
            self.now = self.now.max(over);
            self.place = Place::Rung(index + 1, over);
        }
    }

    /// State at `at`, which must not be before the last event.
    pub(crate) fn state(&self, at: Timestamp) -> State {
        let mut copy = self.clone();
        copy.advance(at, &mut ());
        match copy.place {
            Place::Active => State::Active,
            Place::Rung(index, _) => copy.rung(index).state,
            Place::Rising(index, rising) => match rising.climb {
                Some(climb) if copy.now >= rising.start => climb.state,
                _ => copy.rung(index).state,
            },
        }
    }

    /// Time of the next state change without further events; `None` at rest.
    pub(crate) fn next_event(&self) -> Option<Timestamp> {
        match self.place {
            // A gap of exactly `hold` still counts as activity.
            Place::Active => Some(self.last + self.hold + Duration::from_nanos(1)),
            Place::Rung(index, since) => self.rung(index).lasts.map(|lasts| since + lasts),
            Place::Rising(_, rising) => Some(rising.ready),
        }
    }
}
