//! 3G radio: the RRC machine of IDLE, FACH and DCH with queue thresholds (Qian et al., IMC 2010),
//! with the powers of Qian et al. or of Huang et al., MobiSys 2012.

use std::time::Duration;

use mpbond_units::Timestamp;
use serde::Deserialize;

use super::ladder::Duty;
use crate::event::{Direction, Hint, Packet, Placement};
use crate::profile::{BitEnergy, Bytes, Param, Period, Power, Rate, Span};
use crate::timeline::{Phase, State, Tape, Timeline, Transfer};

/// Parameters of a 3G radio.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UmtsParameters {
    /// Energy per bit sent over DCH.
    pub alpha_up: Param<BitEnergy>,
    /// Energy per bit received over DCH.
    pub alpha_down: Param<BitEnergy>,
    /// Power of DCH while data passes, without the per-bit part.
    pub dch_active_power: Param<Power>,
    /// Longest gap that still counts as passing data.
    pub hold: Param<Span>,
    /// Power of DCH without data.
    pub dch_power: Param<Power>,
    /// Inactivity timer from DCH to FACH.
    pub dch_timer: Param<Span>,
    /// Bytes within `dch_reset_window` above which the DCH timer is reset.
    pub dch_reset_bytes: Param<Bytes>,
    /// Window in which bytes that reset the DCH timer are counted.
    pub dch_reset_window: Param<Span>,
    /// Power of FACH.
    pub fach_power: Param<Power>,
    /// Inactivity timer from FACH to IDLE.
    pub fach_timer: Param<Span>,
    /// Uplink queue above which FACH gives way to DCH.
    pub fach_queue_up: Param<Bytes>,
    /// Downlink queue above which FACH gives way to DCH.
    pub fach_queue_down: Param<Bytes>,
    /// Uplink rate of FACH.
    pub fach_rate_up: Param<Rate>,
    /// Downlink rate of FACH.
    pub fach_rate_down: Param<Rate>,
    /// Duration of the promotion from IDLE to DCH.
    pub idle_to_dch: Param<Span>,
    /// Power of the promotion from IDLE to DCH.
    pub idle_to_dch_power: Param<Power>,
    /// Duration of the promotion from FACH to DCH.
    pub fach_to_dch: Param<Span>,
    /// Power of the promotion from FACH to DCH.
    pub fach_to_dch_power: Param<Power>,
    /// Promotion of small packets from IDLE to FACH, in networks that have it.
    pub idle_to_fach: Option<IdleToFach>,
    /// Cycle of paging in IDLE.
    pub paging_cycle: Param<Period>,
    /// Duration of a paging occasion.
    pub paging_on: Param<Span>,
    /// Power during a paging occasion.
    pub paging_power: Param<Power>,
    /// Power in IDLE between occasions.
    pub idle_power: Param<Power>,
}

/// Parameters of networks that promote small packets from IDLE to FACH.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleToFach {
    /// Uplink queue above which the promotion goes to DCH.
    pub queue_up: Param<Bytes>,
    /// Downlink queue above which the promotion goes to DCH.
    pub queue_down: Param<Bytes>,
    /// Duration of the promotion from IDLE to FACH.
    pub lasts: Param<Span>,
    /// Power of the promotion from IDLE to FACH.
    pub power: Param<Power>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rrc {
    Idle,
    Fach,
    Dch,
}

#[derive(Debug, Clone, Copy)]
struct Way {
    to: Rrc,
    lasts: Duration,
    power_mw: f64,
}

#[derive(Debug, Clone, Copy)]
struct Rising {
    way: Way,
    start: Timestamp,
    ready: Timestamp,
}

/// Bytes queued in FACH, in one direction.
#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    bytes: f64,
    at: Timestamp,
}

impl Queue {
    fn add(&mut self, now: Timestamp, bytes: u32, bytes_per_sec: f64) -> f64 {
        let drained = now.since(self.at).as_secs_f64() * bytes_per_sec;
        self.bytes = (self.bytes - drained).max(0.0) + f64::from(bytes);
        self.at = now;
        self.bytes
    }
}

/// Number of recent packets kept for the reset rule: sixteen of the smallest IP packets make 320
/// bytes, which decides it.
const RECENT: usize = 16;

/// State of a 3G radio.
#[derive(Debug, Clone)]
pub(crate) struct Umts {
    p: UmtsParameters,
    placement: Placement,
    paging: Duty,
    at: Rrc,
    rising: Option<Rising>,
    tape: Tape,
    now: Timestamp,
    /// Time of the last data in the present state.
    last: Timestamp,
    /// Whether data passes, or passed at most `hold` ago.
    burst: bool,
    dch_base: Timestamp,
    fach_base: Timestamp,
    idle_since: Timestamp,
    up: Queue,
    down: Queue,
    recent: [(Timestamp, u32); RECENT],
    next_recent: usize,
    /// Time of the last packet that restarted the DCH timer by itself.
    enough_at: Option<Timestamp>,
}

impl Umts {
    pub(crate) fn new(p: &UmtsParameters, placement: Placement) -> Self {
        Self {
            paging: Duty {
                cycle: p.paging_cycle.duration(),
                on: p.paging_on.duration(),
            },
            p: p.clone(),
            placement,
            at: Rrc::Idle,
            rising: None,
            tape: Tape::default(),
            now: Timestamp::ZERO,
            last: Timestamp::ZERO,
            burst: false,
            dch_base: Timestamp::ZERO,
            fach_base: Timestamp::ZERO,
            idle_since: Timestamp::ZERO,
            up: Queue::default(),
            down: Queue::default(),
            recent: [(Timestamp::ZERO, 0); RECENT],
            next_recent: 0,
            enough_at: None,
        }
    }

    fn emit_idle<T: Timeline>(&mut self, end: Timestamp, out: &mut T) {
        let mean = self
            .paging
            .mean_mw(self.p.idle_power.get(), self.p.paging_power.get());
        self.tape.emit(end, State::Idle, Phase::Idle, mean, out);
    }

    /// Writes DCH or FACH up to `end`: with data up to the last packet, without data after it.
    fn emit_connected<T: Timeline>(&mut self, end: Timestamp, out: &mut T) {
        let (busy, idle) = match self.at {
            Rrc::Dch => (
                (State::Active, self.p.dch_active_power.get()),
                (State::Dch, self.p.dch_power.get()),
            ),
            _ => {
                let fach = (State::Fach, self.p.fach_power.get());
                (fach, fach)
            }
        };
        if self.burst {
            let until = self.last.min(end);
            self.tape.emit(until, busy.0, Phase::Transfer, busy.1, out);
        }
        self.tape.emit(end, idle.0, Phase::Tail, idle.1, out);
        self.burst = false;
    }

    fn arrive<T: Timeline>(&mut self, rising: Rising, out: &mut T) {
        match self.at {
            Rrc::Idle => self.emit_idle(rising.start, out),
            Rrc::Fach | Rrc::Dch => self.emit_connected(rising.start, out),
        }
        self.tape.emit(
            rising.ready,
            State::Promotion,
            Phase::Promotion,
            rising.way.power_mw,
            out,
        );
        self.rising = None;
        self.at = rising.way.to;
        // A packet whose passing time was postponed postpones the timers.
        self.dch_base = self.dch_base.max(rising.ready);
        self.fach_base = self.fach_base.max(rising.ready);
        self.last = self.last.max(rising.ready);
        self.burst = true;
        self.up.bytes = 0.0;
        self.down.bytes = 0.0;
    }

    pub(crate) fn advance<T: Timeline>(&mut self, now: Timestamp, out: &mut T) {
        self.now = self.now.max(now);
        self.tape.begin(now);
        self.settle(out);
    }

    fn settle<T: Timeline>(&mut self, out: &mut T) {
        if let Some(rising) = self.rising {
            if self.now < rising.ready {
                return;
            }
            self.arrive(rising, out);
        }
        if self.at == Rrc::Dch {
            let end = self.dch_base + self.p.dch_timer.duration();
            if self.now >= end {
                self.emit_connected(end, out);
                self.at = Rrc::Fach;
                self.fach_base = end;
            } else if self.burst && self.now.since(self.last) > self.p.hold.duration() {
                self.emit_connected(self.last, out);
            }
        }
        if self.at == Rrc::Fach {
            let end = self.fach_base + self.p.fach_timer.duration();
            if self.now >= end {
                self.emit_connected(end, out);
                self.at = Rrc::Idle;
                self.idle_since = end;
            } else if self.burst && self.now.since(self.last) > self.p.hold.duration() {
                self.emit_connected(self.last, out);
            }
        }
    }

    pub(crate) fn packet<T: Timeline>(
        &mut self,
        at: Timestamp,
        packet: Packet,
        out: &mut T,
    ) -> Timestamp {
        self.now = self.now.max(at);
        self.settle(out);
        let pass = match (self.rising, self.at) {
            // A recorded packet did pass, so the transition that a hint began is over.
            (Some(rising), _) if self.placement == Placement::Recorded => {
                let (start, ready) = (rising.start.min(self.now), self.now);
                self.arrive(
                    Rising {
                        start,
                        ready,
                        ..rising
                    },
                    out,
                );
                ready
            }
            (Some(rising), _) => {
                if packet.direction == Direction::Up && self.now < rising.start {
                    self.rise(rising.way, self.now)
                } else {
                    rising.ready
                }
            }
            (None, Rrc::Dch) => self.now,
            (None, Rrc::Fach) => self.in_fach(packet, out),
            (None, Rrc::Idle) => {
                let way = self.way_from_idle(packet);
                self.climb(way, packet.direction, out)
            }
        };
        self.count(pass, packet, out);
        pass
    }

    fn way_from_idle(&self, packet: Packet) -> Way {
        let bytes = f64::from(packet.bytes);
        if let Some(fach) = &self.p.idle_to_fach {
            let threshold = match packet.direction {
                Direction::Up => &fach.queue_up,
                Direction::Down => &fach.queue_down,
            };
            if bytes <= threshold.get() {
                return Way {
                    to: Rrc::Fach,
                    lasts: fach.lasts.duration(),
                    power_mw: fach.power.get(),
                };
            }
        }
        Way {
            to: Rrc::Dch,
            lasts: self.p.idle_to_dch.duration(),
            power_mw: self.p.idle_to_dch_power.get(),
        }
    }

    fn in_fach<T: Timeline>(&mut self, packet: Packet, out: &mut T) -> Timestamp {
        let (queue, rate, threshold) = match packet.direction {
            Direction::Up => (&mut self.up, &self.p.fach_rate_up, &self.p.fach_queue_up),
            Direction::Down => (
                &mut self.down,
                &self.p.fach_rate_down,
                &self.p.fach_queue_down,
            ),
        };
        let bytes_per_sec = rate.rate().bytes_per_sec();
        let waiting = queue.add(self.now, packet.bytes, bytes_per_sec);
        if waiting > threshold.get() {
            let way = Way {
                to: Rrc::Dch,
                lasts: self.p.fach_to_dch.duration(),
                power_mw: self.p.fach_to_dch_power.get(),
            };
            return self.climb(way, packet.direction, out);
        }
        match self.placement {
            Placement::Live => self.now + Duration::from_secs_f64(waiting / bytes_per_sec),
            Placement::Recorded => self.now,
        }
    }

    fn climb<T: Timeline>(&mut self, way: Way, direction: Direction, out: &mut T) -> Timestamp {
        let now = self.now;
        match self.placement {
            Placement::Live => {
                self.tape.begin(now);
                let paged = self.at == Rrc::Idle && direction == Direction::Down;
                let start = if paged {
                    self.paging.heard(self.idle_since, now)
                } else {
                    now
                };
                self.rise(way, start)
            }
            Placement::Recorded => {
                let early = now.before(way.lasts);
                let start = self.tape.begin(early).max(early);
                let rising = Rising {
                    way,
                    start,
                    ready: now,
                };
                self.arrive(rising, out);
                now
            }
        }
    }

    fn rise(&mut self, way: Way, start: Timestamp) -> Timestamp {
        let ready = start + way.lasts;
        self.rising = Some(Rising { way, start, ready });
        ready
    }

    fn count<T: Timeline>(&mut self, pass: Timestamp, packet: Packet, out: &mut T) {
        let to = self.rising.map_or(self.at, |rising| rising.way.to);
        if self.rising.is_none() && !self.burst {
            self.emit_connected(self.now, out);
            self.burst = true;
        }
        self.last = self.last.max(pass);
        self.fach_base = self.fach_base.max(pass);
        if to == Rrc::Dch && self.resets_dch(pass, packet.bytes) {
            self.dch_base = self.dch_base.max(pass);
        }
        let energy_mj = if to == Rrc::Dch {
            let price = match packet.direction {
                Direction::Up => &self.p.alpha_up,
                Direction::Down => &self.p.alpha_down,
            };
            price.get() * packet.bits() * 1e-6
        } else {
            0.0
        };
        out.transfer(Transfer {
            at: pass,
            direction: packet.direction,
            bytes: packet.bytes,
            energy_mj,
        });
    }

    /// Whether recent traffic makes the network restart the DCH timer.
    fn resets_dch(&mut self, at: Timestamp, bytes: u32) -> bool {
        if let Some(slot) = self.recent.get_mut(self.next_recent) {
            *slot = (at, bytes);
        }
        self.next_recent = (self.next_recent + 1) % RECENT;
        let needed = self.p.dch_reset_bytes.get();
        if f64::from(bytes) > needed {
            self.enough_at = Some(at);
            return true;
        }
        let from = at.before(self.p.dch_reset_window.duration());
        if self.enough_at.is_some_and(|enough| enough >= from) {
            return true;
        }
        let lately = self
            .recent
            .iter()
            .filter(|(when, _)| *when >= from)
            .fold(0.0, |sum, (_, bytes)| sum + f64::from(*bytes));
        lately > needed
    }

    pub(crate) fn hint<T: Timeline>(&mut self, at: Timestamp, hint: Hint, out: &mut T) {
        self.advance(at, out);
        match hint {
            Hint::Wake if self.rising.is_none() && self.at == Rrc::Idle => {
                let way = self.way_from_idle(Packet::up(u32::MAX));
                self.rise(way, self.now);
            }
            Hint::Release | Hint::Off if self.at != Rrc::Idle || self.rising.is_some() => {
                if let Some(mut rising) = self.rising {
                    match self.placement {
                        Placement::Live => self.now = self.now.max(rising.ready),
                        // The next recorded packet passes at its own time, which must not be before
                        // the end of this promotion.
                        Placement::Recorded => rising.ready = self.now,
                    }
                    self.arrive(rising, out);
                }
                self.emit_connected(self.now, out);
                self.at = Rrc::Idle;
                self.idle_since = self.now;
            }
            _ => {}
        }
    }

    pub(crate) fn finish<T: Timeline>(&mut self, end: Timestamp, out: &mut T) {
        while let Some(next) = self.next_event() {
            self.advance(next, out);
        }
        self.advance(end, out);
        self.emit_idle(self.now, out);
    }

    pub(crate) fn next_event(&self) -> Option<Timestamp> {
        if let Some(rising) = self.rising {
            return Some(rising.ready);
        }
        match self.at {
            Rrc::Idle => None,
            Rrc::Fach => Some(self.fach_base + self.p.fach_timer.duration()),
            Rrc::Dch => Some(self.dch_base + self.p.dch_timer.duration()),
        }
    }

    pub(crate) fn state(&self, at: Timestamp) -> State {
        let mut copy = self.clone();
        copy.advance(at, &mut ());
        match (copy.rising, copy.at) {
            (Some(rising), _) if copy.now >= rising.start => State::Promotion,
            (_, Rrc::Idle) => State::Idle,
            (_, Rrc::Fach) => State::Fach,
            (_, Rrc::Dch) if copy.burst => State::Active,
            (_, Rrc::Dch) => State::Dch,
        }
    }
}
