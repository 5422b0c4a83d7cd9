//! Radio with a single active power, or several radios measured as one: the phone that relays for a
//! watch draws 1.048 W at any rate ("Understanding the Networking Performance of Wear OS", section
//! 5.1).

use serde::Deserialize;

use super::ladder::{Plan, Rung};
use crate::active::ActivePower;
use crate::profile::{Param, Power, Span};
use crate::timeline::{Phase, State};

/// Parameters of a flat radio.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlatParameters {
    /// Power while data passes.
    pub active_power: Param<Power>,
    /// Longest gap that still counts as passing data.
    pub hold: Param<Span>,
    /// Duration of the tail after the last packet.
    pub tail: Param<Span>,
    /// Power during the tail.
    pub tail_power: Param<Power>,
    /// Power when idle.
    pub idle_power: Param<Power>,
}

impl FlatParameters {
    pub(crate) fn plan(&self) -> Plan {
        Plan {
            active: ActivePower::Linear {
                up_nj_per_bit: 0.0,
                down_nj_per_bit: 0.0,
                base_mw: self.active_power.get(),
            },
            hold: self.hold.duration(),
            rungs: vec![
                Rung {
                    state: State::Tail,
                    phase: Phase::Tail,
                    lasts: Some(self.tail.duration()),
                    power_mw: self.tail_power.get(),
                    duty: None,
                    climb: None,
                },
                Rung {
                    state: State::Idle,
                    phase: Phase::Idle,
                    lasts: None,
                    power_mw: self.idle_power.get(),
                    duty: None,
                    climb: None,
                },
            ],
            rest: 1,
        }
    }
}
