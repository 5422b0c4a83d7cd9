//! WiFi radio: association, awake (CAM), power save (PSM) with beacons.

use serde::Deserialize;

use super::ladder::{Climb, Duty, Plan, Rung};
use crate::active::ActivePower;
use crate::profile::{BitEnergy, Bytes, Param, Period, Power, Span, Table};
use crate::timeline::{Phase, State};

/// Parameters of a WiFi interface.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WifiParameters {
    /// Power while data passes.
    pub active: WifiPower,
    /// Longest gap that still counts as passing data.
    pub hold: Param<Span>,
    /// Duration of the awake tail after the last packet (the adaptive-PSM timeout; driver
    /// specific).
    pub tail: Param<Span>,
    /// Power of the awake tail.
    pub tail_power: Param<Power>,
    /// Duration of the exit from power save.
    pub promotion: Param<Span>,
    /// Power of the exit from power save.
    pub promotion_power: Param<Power>,
    /// Interval between received beacons.
    pub beacon_cycle: Param<Period>,
    /// Time for which a beacon keeps the radio awake.
    pub beacon_on: Param<Span>,
    /// Power during a beacon.
    pub beacon_power: Param<Power>,
    /// Power while associated, between beacons.
    pub idle_power: Param<Power>,
    /// Duration of joining an access point. Required: without it WiFi seems to cost less than
    /// Bluetooth even for the shortest messages.
    pub association: Param<Span>,
    /// Power of joining.
    pub association_power: Param<Power>,
}

/// Model of the power of moving data.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum WifiPower {
    /// By rate (Huang et al. 2012).
    Linear {
        /// Energy per sent bit.
        alpha_up: Param<BitEnergy>,
        /// Energy per received bit.
        alpha_down: Param<BitEnergy>,
        /// Power without the per-bit part.
        beta: Param<Power>,
    },
    /// By direction and signal strength (Ding et al. 2013, Chen et al. 2015, Liu 2017).
    BySignal {
        /// Columns: signal in dBm, power to send in mW, to receive in mW.
        powers: Table<2>,
        /// Signal strength when no other is known, in dBm.
        default_dbm: f64,
        /// Columns: signal in dBm, rate of the physical layer in Mbit/s.
        #[serde(default)]
        phy_rate: Option<Table<1>>,
        /// Columns: signal in dBm, share of TCP segments retransmitted.
        #[serde(default)]
        retransmissions: Option<Table<1>>,
    },
    /// A low and a high awake power (EnergyBox).
    Stepped {
        /// Power below the threshold.
        low: Param<Power>,
        /// Power above the threshold.
        high: Param<Power>,
        /// Window over which data is counted.
        window: Param<Period>,
        /// Bytes in a window above which the high power applies.
        threshold: Param<Bytes>,
    },
}

impl WifiPower {
    /// Power model at a signal strength; `None` selects the profile's default.
    pub fn at(&self, dbm: Option<f64>) -> ActivePower {
        match self {
            Self::Linear {
                alpha_up,
                alpha_down,
                beta,
            } => ActivePower::Linear {
                up_nj_per_bit: alpha_up.get(),
                down_nj_per_bit: alpha_down.get(),
                base_mw: beta.get(),
            },
            Self::BySignal {
                powers,
                default_dbm,
                ..
            } => {
                let [tx_mw, rx_mw] = powers.at(dbm.unwrap_or(*default_dbm));
                ActivePower::ByDirection { tx_mw, rx_mw }
            }
            Self::Stepped {
                low,
                high,
                window,
                threshold,
            } => ActivePower::Stepped {
                low_mw: low.get(),
                high_mw: high.get(),
                window: window.duration(),
                threshold_bytes: threshold.get(),
            },
        }
    }
}

impl WifiParameters {
    /// Index of the rung on which the interface is off.
    pub(crate) const OFF: usize = 2;

    pub(crate) fn plan(&self) -> Plan {
        let beacons = Duty {
            cycle: self.beacon_cycle.duration(),
            on: self.beacon_on.duration(),
        };
        Plan {
            active: self.active.at(None),
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
                    state: State::Psm,
                    phase: Phase::Idle,
                    lasts: None,
                    power_mw: beacons.mean_mw(self.idle_power.get(), self.beacon_power.get()),
                    duty: Some(beacons),
                    climb: Some(Climb {
                        state: State::Promotion,
                        lasts: self.promotion.duration(),
                        power_mw: self.promotion_power.get(),
                    }),
                },
                Rung {
                    state: State::Off,
                    phase: Phase::Idle,
                    lasts: None,
                    power_mw: 0.0,
                    duty: None,
                    climb: Some(Climb {
                        state: State::Association,
                        lasts: self.association.duration(),
                        power_mw: self.association_power.get(),
                    }),
                },
            ],
            rest: 1,
        }
    }
}
