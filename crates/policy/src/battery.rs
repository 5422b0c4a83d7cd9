//! Battery of a device that carries others' data, compared with the floor of its link.

use std::time::Duration;

use mpbond_units::Timestamp;
use serde::Serialize;

/// Points above the floor at which a link is used again, so that a level that varies around the
/// floor does not switch it on and off.
const HYSTERESIS_POINTS: u8 = 5;

/// Time for which open flows of a link keep it once its battery is below the floor: most exchanges
/// end by themselves within it, and a download continues on other paths.
const DRAIN_FOR: Duration = Duration::from_secs(30);

/// Battery of the device of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Charge {
    /// At or above the floor, or no level is known, or there is no floor.
    Sufficient,
    /// Below the floor for a short time: open flows continue, new ones are not accepted.
    Draining,
    /// Below the floor: no flow uses the link.
    Low,
}

/// A battery and a floor.
///
/// The level sinks below the floor: the link drains, until no flow is open or 30 s have passed;
/// then it is not used. It is used again at the floor and 5 points more, at 100 % at most.
#[derive(Clone, Debug)]
pub struct Battery {
    floor: Option<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Sufficient,
    Draining { until: Timestamp },
    Low,
}

impl Battery {
    /// A battery of unknown level.
    pub const fn new(floor_percent: Option<u8>) -> Self {
        Self {
            floor: floor_percent,
            state: State::Sufficient,
        }
    }

    /// Changes the floor, which applies to the next level.
    pub const fn set_floor(&mut self, floor_percent: Option<u8>) {
        self.floor = floor_percent;
    }

    /// Takes the level, and the number of flows that use the link. Where a level could not be read,
    /// only the flows are passed, to [`handle_flows`](Self::handle_flows): the state stays what it
    /// is.
    pub fn handle_level(&mut self, now: Timestamp, percent: u8, open_flows: usize) {
        let Some(floor) = self.floor else {
            self.state = State::Sufficient;
            return;
        };
        let sufficient = match self.state {
            State::Sufficient => percent >= floor,
            State::Draining { .. } | State::Low => {
                percent >= floor.saturating_add(HYSTERESIS_POINTS).min(100)
            }
        };
        match self.state {
            _ if sufficient => self.state = State::Sufficient,
            State::Sufficient => {
                let until = now + DRAIN_FOR;
                self.state = State::Draining { until };
            }
            State::Draining { .. } | State::Low => {}
        }
        self.handle_flows(now, open_flows);
    }

    /// Takes the number of flows that use the link: when one has ended, and at
    /// [`poll_timeout`](Self::poll_timeout).
    pub fn handle_flows(&mut self, now: Timestamp, open_flows: usize) {
        if let State::Draining { until } = self.state
            && (open_flows == 0 || now >= until)
        {
            self.state = State::Low;
        }
    }

    /// The instant at which draining ends.
    pub const fn poll_timeout(&self) -> Option<Timestamp> {
        match self.state {
            State::Draining { until } => Some(until),
            State::Sufficient | State::Low => None,
        }
    }

    /// The state.
    pub const fn charge(&self) -> Charge {
        match self.state {
            State::Sufficient => Charge::Sufficient,
            State::Draining { .. } => Charge::Draining,
            State::Low => Charge::Low,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn below_the_floor_it_drains_before_it_refuses() {
        let mut battery = Battery::new(Some(20));
        battery.handle_level(at(0), 20, 3);
        assert_eq!(battery.charge(), Charge::Sufficient, "at the floor");
        battery.handle_level(at(60), 19, 3);
        assert_eq!(battery.charge(), Charge::Draining);
        assert_eq!(battery.poll_timeout(), Some(at(90)));
        battery.handle_level(at(70), 18, 3);
        assert_eq!(battery.poll_timeout(), Some(at(90)), "not later");
        battery.handle_flows(at(89), 1);
        assert_eq!(battery.charge(), Charge::Draining);
        battery.handle_flows(at(90), 1);
        assert_eq!(battery.charge(), Charge::Low);
        assert_eq!(battery.poll_timeout(), None);
    }

    #[test]
    fn draining_ends_with_the_last_flow() {
        let mut battery = Battery::new(Some(20));
        battery.handle_level(at(0), 19, 1);
        battery.handle_flows(at(1), 0);
        assert_eq!(battery.charge(), Charge::Low);
        let mut idle = Battery::new(Some(20));
        idle.handle_level(at(0), 19, 0);
        assert_eq!(idle.charge(), Charge::Low, "none is open");
    }

    #[test]
    fn it_is_used_again_5_points_above_the_floor() {
        let mut battery = Battery::new(Some(20));
        battery.handle_level(at(0), 19, 0);
        for (level, charge) in [
            (20, Charge::Low),
            (24, Charge::Low),
            (25, Charge::Sufficient),
            (20, Charge::Sufficient),
            (19, Charge::Draining),
            (24, Charge::Draining),
            (25, Charge::Sufficient),
        ] {
            battery.handle_level(at(1), level, 1);
            assert_eq!(battery.charge(), charge, "{level}");
        }
        let mut full = Battery::new(Some(98));
        full.handle_level(at(0), 97, 0);
        full.handle_level(at(1), 99, 0);
        assert_eq!(full.charge(), Charge::Low);
        full.handle_level(at(2), 100, 0);
        assert_eq!(full.charge(), Charge::Sufficient);
    }

    #[test]
    fn without_a_level_or_a_floor_it_is_always_sufficient() {
        let mut battery = Battery::new(Some(20));
        battery.handle_flows(at(0), 0);
        assert_eq!(battery.charge(), Charge::Sufficient);
        battery.handle_level(at(2), 1, 0);
        battery.set_floor(None);
        battery.handle_level(at(3), 1, 0);
        assert_eq!(battery.charge(), Charge::Sufficient);
    }
}
