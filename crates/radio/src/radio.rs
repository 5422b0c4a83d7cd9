//! One interface to all radio state machines.

use mpbond_units::Timestamp;

use crate::event::{Hint, Packet, Placement};
use crate::machine::{BluetoothEnd, Ladder, Umts, WifiParameters, WifiPower};
use crate::profile::{RadioProfile, Radios};
use crate::timeline::{State, Timeline};

/// A radio: packets and time in, passing times and a timeline out.
///
/// Time never runs backwards: an event before the last one counts as simultaneous with it. No call
/// allocates.
#[derive(Debug, Clone)]
pub struct Radio {
    machine: Machine,
}

// A device has a handful of radios, so their size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone)]
enum Machine {
    Ladder(Ladder),
    Wifi(Ladder, WifiPower),
    Umts(Umts),
    Bluetooth(BluetoothEnd),
}

impl Radio {
    /// A radio at rest.
    pub fn new(profile: &RadioProfile, placement: Placement) -> Self {
        let ladder = |plan| Ladder::new(&plan, placement);
        let machine = match &profile.radio {
            Radios::Lte(p) => Machine::Ladder(ladder(p.plan())),
            Radios::Nr(p) => Machine::Ladder(ladder(p.plan())),
            Radios::Bus(p) => Machine::Ladder(ladder(p.plan())),
            Radios::Flat(p) => Machine::Ladder(ladder(p.plan())),
            Radios::Wifi(p) => Machine::Wifi(ladder(p.plan()), p.active.clone()),
            Radios::Umts(p) => Machine::Umts(Umts::new(p, placement)),
            Radios::Bluetooth(p) => Machine::Bluetooth(BluetoothEnd::new(p, placement)),
        };
        Self { machine }
    }

    /// Offers a packet at `now`; returns the earliest instant at which it may pass. With
    /// [`Placement::Recorded`] that is `now`.
    pub fn packet<T: Timeline>(
        &mut self,
        now: Timestamp,
        packet: Packet,
        out: &mut T,
    ) -> Timestamp {
        match &mut self.machine {
            Machine::Ladder(m) | Machine::Wifi(m, _) => m.packet(now, packet, out),
            Machine::Umts(m) => m.packet(now, packet, out),
            Machine::Bluetooth(m) => m.packet(now, packet, out),
        }
    }

    /// Keeps the radio awake until then, while a packet that may pass here waits for the radio of
    /// the other end. Without effect on UMTS and Bluetooth, whose timers are far longer than such
    /// waits.
    pub fn keep_awake(&mut self, until: Timestamp) {
        if let Machine::Ladder(m) | Machine::Wifi(m, _) = &mut self.machine {
            m.keep_awake(until);
        }
    }

    /// Applies a hint from software. Hints that do not apply to this radio are ignored.
    pub fn hint<T: Timeline>(&mut self, now: Timestamp, hint: Hint, out: &mut T) {
        match &mut self.machine {
            Machine::Umts(m) => m.hint(now, hint, out),
            Machine::Bluetooth(m) => m.hint(now, hint, out),
            Machine::Wifi(m, power) => match hint {
                Hint::Wake => m.wake(now, out),
                Hint::Release => m.release(now, out),
                Hint::Off => m.drop_to(now, WifiParameters::OFF, out),
                Hint::Signal(dbm) => m.set_active(now, power.at(Some(dbm)), out),
            },
            Machine::Ladder(m) => match hint {
                Hint::Wake => m.wake(now, out),
                Hint::Release | Hint::Off => m.release(now, out),
                Hint::Signal(_) => {}
            },
        }
    }

    /// Advances to `now`: writes all spans that end by then.
    pub fn advance<T: Timeline>(&mut self, now: Timestamp, out: &mut T) {
        match &mut self.machine {
            Machine::Ladder(m) | Machine::Wifi(m, _) => m.advance(now, out),
            Machine::Umts(m) => m.advance(now, out),
            Machine::Bluetooth(m) => m.advance(now, out),
        }
    }

    /// Ends the timeline: writes the whole tail after the last packet, and rest up to `end` if that
    /// is later.
    pub fn finish<T: Timeline>(&mut self, end: Timestamp, out: &mut T) {
        match &mut self.machine {
            Machine::Ladder(m) | Machine::Wifi(m, _) => m.finish(end, out),
            Machine::Umts(m) => m.finish(end, out),
            Machine::Bluetooth(m) => m.finish(end, out),
        }
    }

    /// State at `at`, not before the last event.
    pub fn state(&self, at: Timestamp) -> State {
        match &self.machine {
            Machine::Ladder(m) | Machine::Wifi(m, _) => m.state(at),
            Machine::Umts(m) => m.state(at),
            Machine::Bluetooth(m) => m.state(at),
        }
    }

    /// Time of the next state change without further events; `None` at rest.
    pub fn next_event(&self) -> Option<Timestamp> {
        match &self.machine {
            Machine::Ladder(m) | Machine::Wifi(m, _) => m.next_event(),
            Machine::Umts(m) => m.next_event(),
            Machine::Bluetooth(m) => m.next_event(),
        }
    }
}
