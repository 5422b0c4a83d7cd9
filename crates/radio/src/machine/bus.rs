//! Bus between processor and WiFi chip, which sleeps when idle ("Toward Accurate Network Delay
//! Measurement on Android Phones", section 5.9: Broadcom's SDIO bus after 50 ms, with a wake-up of
//! over 10 ms; Qualcomm's alike with a shorter timer).

use serde::Deserialize;

use super::ladder::{Climb, Plan, Rung};
use crate::active::ActivePower;
use crate::profile::{Param, Power, Span};
use crate::timeline::{Phase, State};

/// Parameters of a host bus.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusParameters {
    /// Idle time after which the bus sleeps.
    pub idle: Param<Span>,
    /// Duration of a wake-up.
    pub wake: Param<Span>,
    /// Power while awake.
    pub awake_power: Param<Power>,
    /// Power while asleep.
    pub asleep_power: Param<Power>,
}

impl BusParameters {
    pub(crate) fn plan(&self) -> Plan {
        let awake_mw = self.awake_power.get();
        Plan {
            active: ActivePower::Linear {
                up_nj_per_bit: 0.0,
                down_nj_per_bit: 0.0,
                base_mw: awake_mw,
            },
            hold: std::time::Duration::ZERO,
            rungs: vec![
                Rung {
                    state: State::Tail,
                    phase: Phase::Tail,
                    lasts: Some(self.idle.duration()),
                    power_mw: awake_mw,
                    duty: None,
                    climb: None,
                },
                Rung {
                    state: State::Asleep,
                    phase: Phase::Idle,
                    lasts: None,
                    power_mw: self.asleep_power.get(),
                    duty: None,
                    climb: Some(Climb {
                        state: State::Promotion,
                        lasts: self.wake.duration(),
                        power_mw: awake_mw,
                    }),
                },
            ],
            rest: 1,
        }
    }
}
