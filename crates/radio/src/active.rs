//! Power while data passes.

use std::time::Duration;

use crate::event::{Direction, Packet};

/// Model of a radio's power as a function of its traffic, while data passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ActivePower {
    /// Base power plus a price per bit: P = α_u·rate_up + α_d·rate_down + β (Huang et al., MobiSys
    /// 2012, section 5). 1 mW per Mbit/s is 1 nJ per bit, so no averaging window is needed.
    Linear {
        /// Energy per sent bit, α_u, in nJ.
        up_nj_per_bit: f64,
        /// Energy per received bit, α_d, in nJ.
        down_nj_per_bit: f64,
        /// Base power, β, in mW.
        base_mw: f64,
    },
    /// One power for sending, one for receiving; time is divided by bytes, since both directions of
    /// a link use about the same rate.
    ByDirection {
        /// Power while sending, in mW.
        tx_mw: f64,
        /// Power while receiving, in mW.
        rx_mw: f64,
    },
    /// A low power, and a high one while a window carries much data (EnergyBox, Galaxy S2).
    Stepped {
        /// Power below the threshold, in mW.
        low_mw: f64,
        /// Power above the threshold, in mW.
        high_mw: f64,
        /// Length of the counting window.
        window: Duration,
        /// Bytes in a window above which the high power applies.
        threshold_bytes: f64,
    },
}

/// Interval after which the mix of directions is recomputed, so that power follows a long transfer;
/// ARO averages over the same half second.
const MIX_WINDOW: Duration = Duration::from_millis(500);

impl ActivePower {
    /// Energy of a packet's bits alone, in mJ.
    pub(crate) fn per_packet_mj(&self, packet: Packet) -> f64 {
        match *self {
            Self::Linear {
                up_nj_per_bit,
                down_nj_per_bit,
                ..
            } => {
                let nj_per_bit = match packet.direction {
                    Direction::Up => up_nj_per_bit,
                    Direction::Down => down_nj_per_bit,
                };
                nj_per_bit * packet.bits() * 1e-6
            }
            Self::ByDirection { .. } | Self::Stepped { .. } => 0.0,
        }
    }

    /// Longest stretch of activity that is written as one span.
    pub(crate) fn window(&self) -> Duration {
        match *self {
            Self::Linear { .. } => Duration::MAX,
            Self::ByDirection { .. } => MIX_WINDOW,
            Self::Stepped { window, .. } => window,
        }
    }
}

/// Traffic of the stretch of activity that is not written yet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mix {
    up_bytes: u64,
    down_bytes: u64,
}

impl Mix {
    pub(crate) fn add(&mut self, packet: Packet) {
        let bytes = u64::from(packet.bytes);
        match packet.direction {
            Direction::Up => self.up_bytes += bytes,
            Direction::Down => self.down_bytes += bytes,
        }
    }

    /// Mean power, in mW, of a stretch of `length` that carried this mix.
    pub(crate) fn mean_mw(self, power: &ActivePower, length: Duration) -> f64 {
        match *power {
            ActivePower::Linear { base_mw, .. } => base_mw,
            ActivePower::ByDirection { tx_mw, rx_mw } => {
                let total = self.up_bytes + self.down_bytes;
                if total == 0 {
                    return rx_mw;
                }
                let up = self.up_bytes as f64 / total as f64;
                up * tx_mw + (1.0 - up) * rx_mw
            }
            ActivePower::Stepped {
                low_mw,
                high_mw,
                window,
                threshold_bytes,
            } => {
                let windows = (length.as_secs_f64() / window.as_secs_f64()).max(1.0);
                let per_window = (self.up_bytes + self.down_bytes) as f64 / windows;
                if per_window > threshold_bytes {
                    high_mw
                } else {
                    low_mw
                }
            }
        }
    }
}
