//! A radio of which only an active power is known, or several radios measured
//! as one: the phone that relays for a watch (Wear OS paper, section 5.1) draws
//! 1.048 W whatever the rate.

use serde::Deserialize;

use super::ladder::{Plan, Rung};
use crate::active::ActivePower;
use crate::profile::{Param, Power, Span};
use crate::timeline::{Phase, State};

/// Figures of a flat radio.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlatParameters {
    /// Power while data passes.
    pub active_power: Param<Power>,
    /// A gap up to this counts as data passing.
    pub hold: Param<Span>,
    /// How long it stays awake after the last packet.
    pub tail: Param<Span>,
    /// Power of that time.
    pub tail_power: Param<Power>,
    /// Power else.
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
