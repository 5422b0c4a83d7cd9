//! LTE radio of 2012: promotion, continuous reception, short and long DRX, paging (Huang et al.,
//! MobiSys 2012; state order as in AT&T's ARO).

use std::time::Duration;

use serde::Deserialize;

use super::ladder::{Climb, Duty, Plan, Rung};
use crate::active::ActivePower;
use crate::profile::{BitEnergy, Param, Period, Power, Span};
use crate::timeline::{Phase, State};

/// Parameters of an LTE radio.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LteParameters {
    /// Energy per sent bit.
    pub alpha_up: Param<BitEnergy>,
    /// Energy per received bit.
    pub alpha_down: Param<BitEnergy>,
    /// Power while data passes, without the per-bit part.
    pub beta: Param<Power>,
    /// Duration of the promotion from IDLE to CONNECTED.
    pub promotion: Param<Span>,
    /// Power of the promotion.
    pub promotion_power: Param<Power>,
    /// Inactivity timer T_i of continuous reception after a packet. Shorter gaps count as passing
    /// data.
    pub continuous: Param<Span>,
    /// Power of continuous reception without data.
    pub continuous_power: Param<Power>,
    /// Duration of short DRX.
    pub short_drx: Param<Span>,
    /// Cycle of short DRX.
    pub short_drx_cycle: Param<Period>,
    /// Cycle of long DRX.
    pub long_drx_cycle: Param<Period>,
    /// On-time of a DRX cycle.
    pub drx_on: Param<Span>,
    /// Power during the on-time.
    pub drx_on_power: Param<Power>,
    /// Power between on-times.
    pub tail_power: Param<Power>,
    /// Time from the last packet to IDLE, continuous reception included.
    pub tail: Param<Span>,
    /// Cycle of paging in IDLE.
    pub paging_cycle: Param<Period>,
    /// Duration of a paging occasion.
    pub paging_on: Param<Span>,
    /// Power during a paging occasion.
    pub paging_power: Param<Power>,
    /// Power in IDLE between occasions.
    pub idle_power: Param<Power>,
}

impl LteParameters {
    pub(crate) fn plan(&self) -> Plan {
        let on = self.drx_on.duration();
        let drx = |state, lasts, cycle: &Param<Period>| {
            let duty = Duty {
                cycle: cycle.duration(),
                on,
            };
            Rung {
                state,
                phase: Phase::Tail,
                lasts: Some(lasts),
                power_mw: duty.mean_mw(self.tail_power.get(), self.drx_on_power.get()),
                duty: Some(duty),
                climb: None,
            }
        };
        let (continuous, short) = (self.continuous.duration(), self.short_drx.duration());
        let long = self.tail.duration().saturating_sub(continuous + short);
        let paging = Duty {
            cycle: self.paging_cycle.duration(),
            on: self.paging_on.duration(),
        };
        Plan {
            active: ActivePower::Linear {
                up_nj_per_bit: self.alpha_up.get(),
                down_nj_per_bit: self.alpha_down.get(),
                base_mw: self.beta.get(),
            },
            hold: continuous,
            rungs: vec![
                Rung {
                    state: State::ContinuousReception,
                    phase: Phase::Tail,
                    lasts: Some(continuous),
                    power_mw: self.continuous_power.get(),
                    duty: None,
                    climb: None,
                },
                drx(State::ShortDrx, short, &self.short_drx_cycle),
                drx(State::LongDrx, long, &self.long_drx_cycle),
                Rung {
                    state: State::Idle,
                    phase: Phase::Idle,
                    lasts: None,
                    power_mw: paging.mean_mw(self.idle_power.get(), self.paging_power.get()),
                    duty: Some(paging),
                    climb: Some(Climb {
                        state: State::Promotion,
                        lasts: self.promotion.duration(),
                        power_mw: self.promotion_power.get(),
                    }),
                },
            ],
            rest: 3,
        }
    }

    /// Duration of the whole tail, from the last packet to IDLE.
    pub fn tail_length(&self) -> Duration {
        self.tail.duration()
    }
}
