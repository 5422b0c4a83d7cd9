//! The power of moving data.

use std::time::Duration;

use crate::event::{Direction, Packet};

/// How a radio's power follows its traffic while data passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ActivePower {
    /// A base and a price for every bit: P = α_u·rate_up + α_d·rate_down + β
    /// (Huang et al., MobiSys 2012, section 5). 1 mW per Mbit/s is 1 nJ per
    /// bit, so no averaging window is needed.
    Linear {
        /// α_u, nJ/bit.
        up_nj_per_bit: f64,
        /// α_d, nJ/bit.
        down_nj_per_bit: f64,
        /// β, mW.
        base_mw: f64,
    },
    /// One power to send, one to receive; time is shared out by bytes, since
    /// both directions of a link use much the same rate.
    ByDirection {
        /// Sending, mW.
        tx_mw: f64,
        /// Receiving, mW.
        rx_mw: f64,
    },
    /// A low power, and a high one when a window carries much data
    /// (EnergyBox, Galaxy S2).
    Stepped {
        /// Below the threshold, mW.
        low_mw: f64,
        /// Above it, mW.
        high_mw: f64,
        /// Length of the window.
        window: Duration,
        /// Bytes in a window above which the high power holds.
        threshold_bytes: f64,
    },
}

/// The mix of directions is taken afresh this often, so that a long transfer's
/// power follows it; ARO averages over the same half second.
const MIX_WINDOW: Duration = Duration::from_millis(500);

impl ActivePower {
    /// Energy of this packet's bits alone, in mJ.
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

    /// After how long a stretch of activity is written and a new one begun.
    pub(crate) fn window(&self) -> Duration {
        match *self {
            Self::Linear { .. } => Duration::MAX,
            Self::ByDirection { .. } => MIX_WINDOW,
            Self::Stepped { window, .. } => window,
        }
    }
}

/// What passed in the stretch of activity that is not written yet.
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

    /// Mean power of a stretch of this length that carried this mix, in mW.
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
