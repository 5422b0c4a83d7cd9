//! One end of a Bluetooth classic link: Active and Sniff, as the Wear OS paper
//! found them on eight watches and eight phones (section 3.2, Figure 2).

use std::time::Duration;

use mpbond_units::Timestamp;
use serde::{Deserialize, Serialize};

use super::ladder::Duty;
use crate::active::{ActivePower, Mix};
use crate::event::{Direction, Hint, Packet, Placement};
use crate::profile::{Param, Period, Power, Span};
use crate::timeline::{Phase, State, Tape, Timeline, Transfer};

/// Whose state machine an end follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Only what it transmits keeps it awake or wakes it.
    Wearable,
    /// Data either way does.
    Phone,
}

/// Figures of one end of a Bluetooth link.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BluetoothParameters {
    /// Whose state machine it follows.
    pub role: Role,
    /// Sending.
    pub tx_power: Param<Power>,
    /// Receiving.
    pub rx_power: Param<Power>,
    /// A gap up to this counts as data passing.
    pub hold: Param<Span>,
    /// Active without data.
    pub active_power: Param<Power>,
    /// Active to Sniff after this long.
    pub timer: Param<Span>,
    /// Mean power in Sniff.
    pub sniff_power: Param<Power>,
    /// From one anchor point of Sniff to the next.
    pub sniff_interval: Param<Period>,
    /// From the anchor point at which Active is asked for until data flows.
    pub exit: Param<Span>,
}

/// A mode of the link; it is always the same at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Listening all the time.
    Active,
    /// Listening at anchor points only.
    Sniff,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Active,
    Sniff { since: Timestamp },
    Rising { start: Timestamp, ready: Timestamp },
}

/// One end of a link.
///
/// Alone, it assumes a peer that accepts every request and asks for Active
/// when it has data for this end. Two of them make a
/// [`BluetoothLink`](super::BluetoothLink).
#[derive(Debug, Clone)]
pub struct BluetoothEnd {
    role: Role,
    power: ActivePower,
    hold: Duration,
    active_mw: f64,
    timer: Duration,
    sniff_mw: f64,
    interval: Duration,
    exit: Duration,
    placement: Placement,
    place: Place,
    /// What the inactivity timer counts from.
    base: Timestamp,
    tape: Tape,
    now: Timestamp,
    last: Timestamp,
    burst: bool,
    mix: Mix,
}

impl BluetoothEnd {
    /// An end in Sniff.
    pub fn new(p: &BluetoothParameters, placement: Placement) -> Self {
        Self {
            role: p.role,
            power: ActivePower::ByDirection {
                tx_mw: p.tx_power.get(),
                rx_mw: p.rx_power.get(),
            },
            hold: p.hold.duration(),
            active_mw: p.active_power.get(),
            timer: p.timer.duration(),
            sniff_mw: p.sniff_power.get(),
            interval: p.sniff_interval.duration(),
            exit: p.exit.duration(),
            placement,
            place: Place::Sniff {
                since: Timestamp::ZERO,
            },
            base: Timestamp::ZERO,
            tape: Tape::default(),
            now: Timestamp::ZERO,
            last: Timestamp::ZERO,
            burst: false,
            mix: Mix::default(),
        }
    }

    /// Whether data this way counts for this end's own machine: resets its
    /// timer in Active (❸, ❿ in Figure 2) and ends its Sniff (❶, ❸).
    pub fn heeds(&self, direction: Direction) -> bool {
        self.role == Role::Phone || direction == Direction::Up
    }

    /// The mode now. On the way out of Sniff it is still Sniff.
    pub fn mode(&self) -> Mode {
        match self.place {
            Place::Active => Mode::Active,
            Place::Sniff { .. } | Place::Rising { .. } => Mode::Sniff,
        }
    }

    /// When the inactivity timer ends; `None` outside Active.
    pub fn timer_ends(&self) -> Option<Timestamp> {
        match self.place {
            Place::Active => Some(self.base + self.timer),
            Place::Rising { ready, .. } => Some(ready + self.timer),
            Place::Sniff { .. } => None,
        }
    }

    fn write_active<T: Timeline>(&mut self, end: Timestamp, out: &mut T) {
        if self.burst {
            let until = self.last.min(end);
            let start = self.tape.begin(until);
            let mean = self.mix.mean_mw(&self.power, until.since(start));
            self.tape
                .emit(until, State::Active, Phase::Transfer, mean, out);
            self.mix = Mix::default();
        }
        self.tape
            .emit(end, State::Tail, Phase::Tail, self.active_mw, out);
        self.burst = false;
    }

    fn write_rising<T: Timeline>(&mut self, start: Timestamp, ready: Timestamp, out: &mut T) {
        self.tape
            .emit(start, State::Sniff, Phase::Idle, self.sniff_mw, out);
        self.tape.emit(
            ready,
            State::Promotion,
            Phase::Promotion,
            self.active_mw,
            out,
        );
        self.place = Place::Active;
        self.base = ready;
        self.last = self.last.max(ready);
        self.burst = true;
    }

    /// Writes what is over by `now`, without asking the timer.
    fn catch_up<T: Timeline>(&mut self, now: Timestamp, out: &mut T) {
        self.now = self.now.max(now);
        if let Place::Rising { start, ready } = self.place
            && self.now >= ready
        {
            self.write_rising(start, ready, out);
        }
        if matches!(self.place, Place::Active)
            && self.burst
            && self.now.since(self.last) > self.hold
        {
            self.write_active(self.last, out);
        }
    }

    /// Both ends enter Sniff at `at`: by the own timer (❷, ④) or because the
    /// peer asked (❻, ❽).
    pub fn enter_sniff<T: Timeline>(&mut self, at: Timestamp, out: &mut T) {
        self.catch_up(at, out);
        if matches!(self.place, Place::Active) {
            self.write_active(at, out);
            self.place = Place::Sniff { since: at };
        }
    }

    /// Leaves Sniff, for own data or because the peer asked (❺, ❼); says when
    /// data may flow. The request waits for the next anchor point.
    pub fn leave_sniff(&mut self, now: Timestamp) -> Timestamp {
        match self.place {
            Place::Active => now,
            Place::Rising { ready, .. } => ready,
            Place::Sniff { since } => {
                let duty = Duty {
                    cycle: self.interval,
                    on: Duration::ZERO,
                };
                // The anchor at the very entry has passed already.
                let start = if now > since {
                    duty.heard(since, now)
                } else {
                    since + self.interval
                };
                let ready = start + self.exit;
                self.tape.begin(now);
                self.place = Place::Rising { start, ready };
                ready
            }
        }
    }

    /// Data passes at `at`, at which the link is Active.
    pub fn data<T: Timeline>(&mut self, at: Timestamp, packet: Packet, out: &mut T) {
        // While rising the data is told ahead; its span is written on arrival.
        if matches!(self.place, Place::Active) {
            if !self.burst {
                self.write_active(at, out);
                self.burst = true;
            } else if let Some(start) = self.tape.at()
                && at.since(start) >= self.power.window()
            {
                self.last = self.last.max(at);
                self.write_active(at, out);
                self.burst = true;
            }
            if self.heeds(packet.direction) {
                self.base = self.base.max(at);
            }
        }
        self.last = self.last.max(at);
        self.mix.add(packet);
        out.transfer(Transfer {
            at,
            direction: packet.direction,
            bytes: packet.bytes,
            energy_mj: 0.0,
        });
    }

    /// Time has come to `now`: the timer may end, and what is over is written.
    pub fn advance<T: Timeline>(&mut self, now: Timestamp, out: &mut T) {
        let now = now.max(self.now);
        self.tape.begin(now);
        self.settle(now, out);
    }

    fn settle<T: Timeline>(&mut self, now: Timestamp, out: &mut T) {
        self.catch_up(now.min(self.timer_ends().unwrap_or(now)), out);
        if let Some(ends) = self.timer_ends()
            && ends <= now
        {
            self.enter_sniff(ends, out);
        }
        self.catch_up(now, out);
    }

    /// A packet is there at `at`; says when it may pass.
    pub fn packet<T: Timeline>(&mut self, at: Timestamp, packet: Packet, out: &mut T) -> Timestamp {
        let now = at.max(self.now);
        self.settle(now, out);
        let pass = match (self.placement, self.place) {
            (Placement::Recorded, Place::Sniff { .. }) => {
                let early = now.before(self.exit);
                let start = self.tape.begin(early).max(early);
                self.write_rising(start, now, out);
                now
            }
            // A recorded packet did pass, so what a hint began is over.
            (Placement::Recorded, Place::Rising { start, .. }) => {
                self.write_rising(start.min(now), now, out);
                now
            }
            _ => self.leave_sniff(now),
        };
        self.data(pass, packet, out);
        pass
    }

    /// What software says: [`Hint::Wake`] and [`Hint::Release`] act as requests.
    pub fn hint<T: Timeline>(&mut self, at: Timestamp, hint: Hint, out: &mut T) {
        self.advance(at, out);
        match hint {
            Hint::Wake => {
                self.leave_sniff(self.now);
            }
            Hint::Release | Hint::Off => self.enter_sniff(self.now, out),
            Hint::Signal(_) => {}
        }
    }

    /// Nothing follows: writes Active up to the timer's end, and Sniff up to `end`.
    pub fn finish<T: Timeline>(&mut self, end: Timestamp, out: &mut T) {
        let end = end.max(self.timer_ends().unwrap_or(end));
        self.advance(end, out);
        self.tape
            .emit(self.now, State::Sniff, Phase::Idle, self.sniff_mw, out);
    }

    /// The state at `at`, which must not be before the last event.
    pub fn state(&self, at: Timestamp) -> State {
        let mut copy = self.clone();
        copy.advance(at, &mut ());
        match copy.place {
            Place::Active if copy.burst => State::Active,
            Place::Active => State::Tail,
            Place::Rising { start, .. } if copy.now >= start => State::Promotion,
            Place::Sniff { .. } | Place::Rising { .. } => State::Sniff,
        }
    }

    /// When the state changes if nothing comes.
    pub fn next_event(&self) -> Option<Timestamp> {
        match self.place {
            Place::Rising { ready, .. } => Some(ready),
            _ => self.timer_ends(),
        }
    }
}
