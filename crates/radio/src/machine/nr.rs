//! LTE and 5G radios of 2020: one long connected tail, followed in 5G standalone by a suspended
//! connection (Narayanan et al., SIGCOMM 2021).

use serde::Deserialize;

use super::ladder::{Climb, Duty, Plan, Rung};
use crate::active::ActivePower;
use crate::profile::{BitEnergy, Param, Period, Power, Span};
use crate::timeline::{Phase, State};

/// Parameters of a cellular radio of the 2020 generation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NrParameters {
    /// Energy per sent bit.
    pub alpha_up: Param<BitEnergy>,
    /// Energy per received bit.
    pub alpha_down: Param<BitEnergy>,
    /// Power while data passes, without the per-bit part.
    pub beta: Param<Power>,
    /// Longest gap that still counts as passing data.
    pub hold: Param<Span>,
    /// Duration of the promotion from IDLE to CONNECTED.
    pub promotion: Param<Span>,
    /// Power of the promotion.
    pub promotion_power: Param<Power>,
    /// Time from the last packet until CONNECTED is left.
    pub tail: Param<Span>,
    /// Mean power of the tail.
    pub tail_power: Param<Power>,
    /// Cycle of discontinuous reception in CONNECTED.
    pub drx_cycle: Param<Period>,
    /// On-time of a DRX cycle; it delays packets, its power is contained in the mean.
    pub drx_on: Param<Span>,
    /// Suspended connection, from the end of CONNECTED to IDLE.
    pub inactive: Option<Inactive>,
    /// Cycle of paging in IDLE and INACTIVE.
    pub paging_cycle: Param<Period>,
    /// Duration of a paging occasion; its power is contained in `idle_power`.
    pub paging_on: Param<Span>,
    /// Mean power in IDLE.
    pub idle_power: Param<Power>,
}

/// Parameters of `RRC_INACTIVE`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inactive {
    /// Time from the last packet to IDLE.
    pub until: Param<Span>,
    /// Mean power.
    pub power: Param<Power>,
    /// Duration of a resume.
    pub resume: Param<Span>,
}

impl NrParameters {
    pub(crate) fn plan(&self) -> Plan {
        let paging = Duty {
            cycle: self.paging_cycle.duration(),
            on: self.paging_on.duration(),
        };
        let mut rungs = vec![Rung {
            state: State::Tail,
            phase: Phase::Tail,
            lasts: Some(self.tail.duration()),
            power_mw: self.tail_power.get(),
            duty: Some(Duty {
                cycle: self.drx_cycle.duration(),
                on: self.drx_on.duration(),
            }),
            climb: None,
        }];
        if let Some(inactive) = &self.inactive {
            rungs.push(Rung {
                state: State::Inactive,
                phase: Phase::Tail,
                lasts: Some(
                    inactive
                        .until
                        .duration()
                        .saturating_sub(self.tail.duration()),
                ),
                power_mw: inactive.power.get(),
                duty: Some(paging),
                climb: Some(Climb {
                    state: State::Promotion,
                    lasts: inactive.resume.duration(),
                    power_mw: self.promotion_power.get(),
                }),
            });
        }
        rungs.push(Rung {
            state: State::Idle,
            phase: Phase::Idle,
            lasts: None,
            power_mw: self.idle_power.get(),
            duty: Some(paging),
            climb: Some(Climb {
                state: State::Promotion,
                lasts: self.promotion.duration(),
                power_mw: self.promotion_power.get(),
            }),
        });
        Plan {
            active: ActivePower::Linear {
                up_nj_per_bit: self.alpha_up.get(),
                down_nj_per_bit: self.alpha_down.get(),
                base_mw: self.beta.get(),
            },
            hold: self.hold.duration(),
            rest: rungs.len() - 1,
            rungs,
        }
    }
}
