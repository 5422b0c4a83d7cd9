//! One end of a Bluetooth classic link with the modes Active and Sniff, as measured on eight
//! watches and eight phones ("Understanding the Networking Performance of Wear OS", section 3.2,
//! Figure 2).

use std::time::Duration;

use mpbond_units::Timestamp;
use serde::{Deserialize, Serialize};

use super::ladder::Duty;
use crate::active::{ActivePower, Mix};
use crate::event::{Direction, Hint, Packet, Placement};
use crate::profile::{Param, Period, Power, Span};
use crate::timeline::{Phase, State, Tape, Timeline, Transfer};

/// State machine that an end follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Only transmitted data resets the timer or ends Sniff.
    Wearable,
    /// Data in either direction resets the timer or ends Sniff.
    Phone,
}

/// Parameters of one end of a Bluetooth link.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BluetoothParameters {
    /// State machine of this end.
    pub role: Role,
    /// Power while sending.
    pub tx_power: Param<Power>,
    /// Power while receiving.
    pub rx_power: Param<Power>,
    /// Longest gap that still counts as passing data.
    pub hold: Param<Span>,
    /// Power in Active mode without data.
    pub active_power: Param<Power>,
    /// Inactivity timer: from the last data to Sniff.
    pub timer: Param<Span>,
    /// Mean power in Sniff mode.
    pub sniff_power: Param<Power>,
    /// Interval between anchor points in Sniff mode.
    pub sniff_interval: Param<Period>,
    /// Time from the anchor point at which Active mode is requested until data flows.
    pub exit: Param<Span>,
}

/// Mode of the link; always the same at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Listens all the time.
    Active,
    /// Listens at anchor points only.
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
/// Used alone, it assumes a peer that accepts every request and requests Active mode when it has
/// data for this end. Two ends make a [`BluetoothLink`](super::BluetoothLink).
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
    /// Start of the inactivity timer.
    base: Timestamp,
    tape: Tape,
    now: Timestamp,
    last: Timestamp,
    burst: bool,
    mix: Mix,
}

impl BluetoothEnd {
    /// An end in Sniff mode.
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

    /// Whether data in this direction affects this end's own state machine: resets its timer in
    /// Active (❸, ❿ in Figure 2) and ends Sniff (❶, ❸).
    pub fn heeds(&self, direction: Direction) -> bool {
        self.role == Role::Phone || direction == Direction::Up
    }

    /// Current mode. During the exit from Sniff it is still Sniff.
    pub fn mode(&self) -> Mode {
        match self.place {
            Place::Active => Mode::Active,
            Place::Sniff { .. } | Place::Rising { .. } => Mode::Sniff,
        }
    }

    /// Expiry of the inactivity timer; `None` outside Active.
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

    /// Writes all spans that end by `now`, without evaluating the timer.
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

    /// Enters Sniff at `at`, as both ends do: by the own timer (❷, ④) or on the peer's request (❻,
    /// ❽).
    pub fn enter_sniff<T: Timeline>(&mut self, at: Timestamp, out: &mut T) {
        self.catch_up(at, out);
        if matches!(self.place, Place::Active) {
            self.write_active(at, out);
            self.place = Place::Sniff { since: at };
        }
    }

    /// Leaves Sniff, for own data or on the peer's request (❺, ❼); returns the time at which data
    /// may flow. The request waits for the next anchor point.
    pub fn leave_sniff(&mut self, now: Timestamp) -> Timestamp {
        match self.place {
            Place::Active => now,
            Place::Rising { ready, .. } => ready,
            Place::Sniff { since } => {
                let duty = Duty {
                    cycle: self.interval,
                    on: Duration::ZERO,
                };
                // The anchor point at entry has already passed.
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

    /// Records data at `at`; the link is Active by then.
    pub fn data<T: Timeline>(&mut self, at: Timestamp, packet: Packet, out: &mut T) {
        // During the exit from Sniff, data is announced early; its span is written on arrival.
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

    /// Advances to `now`: evaluates the timer and writes finished spans.
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

    /// Offers a packet at `at`; returns the time at which it may pass.
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
            // A recorded packet did pass, so the transition that a hint began is over.
            (Placement::Recorded, Place::Rising { start, .. }) => {
                self.write_rising(start.min(now), now, out);
                now
            }
            _ => self.leave_sniff(now),
        };
        self.data(pass, packet, out);
        pass
    }

    /// Applies a hint: [`Hint::Wake`] and [`Hint::Release`] act as requests.
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

    /// Ends the timeline: writes Active up to the timer's expiry, then Sniff up to `end`.
    pub fn finish<T: Timeline>(&mut self, end: Timestamp, out: &mut T) {
        let end = end.max(self.timer_ends().unwrap_or(end));
        self.advance(end, out);
        self.tape
            .emit(self.now, State::Sniff, Phase::Idle, self.sniff_mw, out);
    }

    /// State at `at`, which must not be before the last event.
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

    /// Time of the next state change without further events.
    pub fn next_event(&self) -> Option<Timestamp> {
        match self.place {
            Place::Rising { ready, .. } => Some(ready),
            _ => self.timer_ends(),
        }
    }
}
