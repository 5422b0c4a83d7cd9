//! Result of a run.

use std::time::Duration;

use mpbond_radio::machine::LmpRequest;
use mpbond_units::Timestamp;

use super::Path;

/// Arrival of a chunk at the watch, the first of its copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// Number of the flow.
    pub flow: usize,
    /// Size.
    pub bytes: u64,
    /// Time at which the server's application had it.
    pub due: Timestamp,
    /// Path.
    pub path: Path,
    /// Time of arrival.
    pub arrived: Timestamp,
    /// Time at which the application of the watch could read it: all before it had arrived.
    pub delivered: Timestamp,
    /// Time since the server's kernel sent it.
    pub delay: Duration,
    /// Parts d1 to d4 of the delay over the phone.
    pub parts: Option<[Duration; 4]>,
}

/// Energy of radios, in J.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Joules {
    /// Bluetooth of the watch.
    pub watch_bluetooth: f64,
    /// WiFi of the watch.
    pub watch_wifi: f64,
    /// Bluetooth of the phone.
    pub phone_bluetooth: f64,
    /// WiFi of the phone.
    pub phone_wifi: f64,
    /// Both radios of the phone by the model of them together ([`super::Radios::relaying_phone`]).
    pub relaying_phone: f64,
    /// The watch without its radios.
    pub watch_base: f64,
}

/// Result of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Begin of the traffic.
    pub start: Timestamp,
    /// End of the run.
    pub end: Timestamp,
    /// Chunks delivered in order, by flow and order.
    pub deliveries: Vec<Delivery>,
    /// Chunks that were due and not delivered in order until the end.
    pub undelivered: usize,
    /// Requests for modes of Bluetooth.
    pub requests: Vec<LmpRequest>,
    /// Packets of the keeper.
    pub keeper_packets: u64,
    /// Changes of the path of new data.
    pub switches: u64,
    /// Phases P1 to P4 of a handover that followed the loss of Bluetooth (Wear OS paper, section
    /// 6.3): without data, without a network, until WiFi was joined, and until the first bytes.
    pub phases: Option<[Duration; 4]>,
    /// Energy until the end, tails included.
    pub joules: Joules,
}
