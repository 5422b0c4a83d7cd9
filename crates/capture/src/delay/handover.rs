//! Report of handovers in four phases ("Understanding the Networking Performance of Wear OS",
//! section 6.3): P1 the old network is connected without data, P2 no network is available, P3 the
//! new network is available but not connected, P4 it is connected without data.

use serde::Serialize;

/// Durations of the phases, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Phases {
    /// Old network connected, without data.
    pub p1_s: f64,
    /// No network.
    pub p2_s: f64,
    /// New network there, not connected.
    pub p3_s: f64,
    /// New network connected, without data.
    pub p4_s: f64,
}

/// One handover.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Handover {
    /// Interface that was left.
    pub from: String,
    /// Interface that replaced it.
    pub to: String,
    /// Time of the last data over the old interface.
    pub last_data_s: f64,
    /// Time of the first data over the new interface.
    pub first_data_s: f64,
    /// Phases in between.
    pub phases: Phases,
    /// Signal strengths, if a log has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rssi: Option<HandoverRssi>,
}

impl Handover {
    /// Whether both begin with the same last data over the same interface.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.from == other.from && self.last_data_s == other.last_data_s
    }
}

/// Signal strengths around a handover in dBm; `None` where the log has no reading in the 5 s
/// before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct HandoverRssi {
    /// Old interface, at its last data.
    pub at_last_data_dbm: Option<f64>,
    /// Old interface, when its connection was lost: the end of P1.
    pub at_loss_dbm: Option<f64>,
    /// Old interface, minimum during P1.
    pub lowest_in_p1_dbm: Option<f64>,
    /// New interface, at its first data.
    pub new_at_first_data_dbm: Option<f64>,
}

/// All handovers of a log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhasesReport {
    /// Means over all handovers; `None` without any.
    pub phases: Option<Phases>,
    /// Handovers in order.
    pub handovers: Vec<Handover>,
    /// Number of lost connections after which no data arrived over another interface.
    pub unfinished: u64,
}
