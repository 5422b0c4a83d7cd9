//! The record of one transfer.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::message_times::MessageTimes;
use crate::experiment::{Client, Connection, Direction, Interception, Role};
use crate::figures::quantity::Quantity;
use crate::machine_use::{Use, Waited};

/// One transfer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Transfer {
    /// Kind of transport: `mpbond`, `single`, `kibbutz` or `combine`.
    pub scheme: String,
    /// Name of the scheme.
    pub name: String,
    /// Name of the workload.
    pub workload: String,
    /// Number of the repetition, from 0.
    pub repetition: u32,
    /// Seed of a simulated transfer; the same seed gives the same transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Scheduler at both ends, of mpbond.
    pub scheduler: Option<String>,
    /// Direction of the bytes.
    pub direction: Direction,
    /// Number of devices: the primary and its helpers.
    pub devices: usize,
    /// How the client's connection reached mpbond.
    pub interception: Interception,
    /// Client program.
    #[serde(default)]
    pub client: Client,
    /// Whether the client opened a connection.
    #[serde(default)]
    pub connection: Connection,
    /// TCP congestion control.
    pub congestion: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// Time by the client, from start to end, in seconds; a new connection's handshake counts.
    pub seconds: f64,
    /// Fluid bound over the links of the scheme, in seconds.
    pub ideal_seconds: f64,
    /// `seconds` over `ideal_seconds`.
    pub ratio: f64,
    /// Bytes of the file that crossed a subflow more than once; `None` where the daemons do not
    /// say.
    pub redundant_bytes: Option<u64>,
    /// Whether every byte arrived, in order.
    pub sha256_ok: bool,
    /// Time to the client's first byte, in seconds.
    pub first_byte_s: Option<f64>,
    /// Longest time without a byte at the receiver between its first and last byte, in seconds.
    pub longest_stall_s: f64,
    /// Bytes of each subflow. Of an application with more than 64 connections over mpbond, these
    /// and the redundant bytes are those of the last 64.
    pub subflows: Vec<SubflowShare>,
    /// Traffic classes of its connections, by the daemons; empty without daemons.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub classes: BTreeSet<String>,
    /// Seconds since the start and bytes received by then, one point for each 10 ms with an
    /// arrival; empty with curl.
    #[serde(default)]
    pub progress: Vec<(f64, u64)>,
    /// Quantities of an application, as its user experiences them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub noticed: BTreeMap<Quantity, f64>,
    /// Times of messages, for figures over all repetitions.
    #[serde(default, skip_serializing_if = "MessageTimes::is_empty")]
    pub messages: MessageTimes,
    /// Processor time of each host's daemons during the transfer, in seconds.
    pub cpu_s: BTreeMap<String, f64>,
    /// The same in percent of one processor, of the busiest host of each role; zero without
    /// daemons.
    #[serde(default)]
    pub cpu_percent: BTreeMap<Role, f64>,
    /// Use of all processors of this machine, where the experiment measures it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Use>,
    /// Waiting of the experiment's threads for a processor; `None` where the kernel does not count
    /// it, and in a simulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<Waited>,
    /// Energy of all devices that take part, by each of the experiment's models.
    #[serde(default)]
    pub energy: Vec<Energy>,
    /// Bytes delivered by each link over time, in the direction of the transfer.
    #[serde(default)]
    pub links: Vec<LinkProgress>,
    /// Whether it enters figures: the machine kept the times of the emulated links, the transfer
    /// was what its scheme says, and it is not left out.
    pub fit: bool,
    /// Reason why it is unfit.
    pub unfit_because: Option<String>,
    /// It enters no figure because its repetition is disturbed, and enough others are not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
    /// Reason why it is disturbed: threads of the experiment waited for a processor, others used
    /// the machine, or links were late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<String>,
    /// Lateness of packets on the emulated links; `None` in a simulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_us: Option<Lateness>,
}

/// Release of packets from the emulated links after their due time, in microseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Lateness {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
    /// Whether the player had real-time priority.
    pub realtime: bool,
}

/// Part of one subflow in a transfer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubflowShare {
    /// Name of the path or helper.
    pub name: String,
    /// Bytes of the stream that it delivered, copies included: the sum over all subflows exceeds
    /// the file by redundant bytes and HTTP headers. For `combine`: bytes of the file. For an
    /// upload by `kibbutz`: bytes that it took from the sender.
    pub bytes: u64,
    /// Arrival of its last byte, in seconds after the stream was opened, or after the start on a
    /// kept connection; `None` where it delivered nothing, or where it is unknown.
    pub finished_s: Option<f64>,
}

/// Bytes delivered by a link over time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkProgress {
    /// Name of the link.
    pub link: String,
    /// Seconds since the first packet on any link, and bytes delivered by then: packets without the
    /// headers of TCP with timestamps.
    pub points: Vec<(f64, u64)>,
}

/// Energy of a transfer, by one model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Energy {
    /// Name of the model.
    pub model: String,
    /// Radios of all devices with their last tails in full, in joules; with the middle figure of
    /// the access point, where it is accounted.
    pub joules: f64,
    /// The same without the tails after the last packets.
    pub joules_without_last_tail: f64,
    /// `joules` with the low and with the high figure of the access point.
    pub joules_band: (f64, f64),
    /// Energy of each device, of the primary first.
    pub devices: Vec<DeviceEnergy>,
}

/// Energy of one device in a transfer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeviceEnergy {
    /// Name of the host.
    pub host: String,
    /// All of its radios, in joules.
    pub joules: f64,
    /// The same without the tails after the last packets.
    pub joules_without_last_tail: f64,
    /// Radios of its Internet links.
    pub wwan_joules: f64,
    /// Radios at its ends of pipes.
    pub pipe_joules: f64,
    /// `joules` in percent of its battery, where the model has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub battery_percent: Option<f64>,
}

impl Transfer {
    /// Ratio of a time to the bound; 0 where the bound is 0, of a transfer that failed without a
    /// byte: JSON has no infinity.
    pub(crate) fn ratio_of(seconds: f64, ideal_seconds: f64) -> f64 {
        match ideal_seconds > 0.0 {
            true => seconds / ideal_seconds,
            false => 0.0,
        }
    }

    /// Seconds from the end of the first subflow to the end of the last, of those that carried
    /// anything; `None` for fewer than two.
    pub fn finish_spread_s(&self) -> Option<f64> {
        let ends: Vec<f64> = self.subflows.iter().filter_map(|s| s.finished_s).collect();
        let last = ends.iter().copied().reduce(f64::max)?;
        let first = ends.iter().copied().reduce(f64::min)?;
        (ends.len() > 1).then_some(last - first)
    }

    /// Whether it enters no figure for a reason of its own.
    pub fn is_unfit(&self) -> bool {
        !self.fit && !self.left_out
    }

    /// Whether it is disturbed, and not unfit.
    pub fn is_disturbed(&self) -> bool {
        self.disturbed.is_some() && !self.is_unfit()
    }
}

#[cfg(test)]
impl Transfer {
    /// A download of 1 MB by one device, of workload `w`.
    pub(crate) fn for_test(name: &str, repetition: u32, seconds: f64) -> Self {
        serde_json::from_value(serde_json::json!({
            "scheme": "single", "name": name, "workload": "w", "repetition": repetition,
            "direction": "down", "devices": 1, "interception": "none", "congestion": "cubic",
            "bytes": 1_000_000, "seconds": seconds, "ideal_seconds": 1.0, "ratio": seconds,
            "sha256_ok": true, "longest_stall_s": 0.0, "subflows": [], "cpu_s": {},
            "fit": true, "lateness_us": {"p50": 0.0, "p99": 0.0, "max": 0.0, "realtime": true},
        }))
        .unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_a_transfer_without_a_byte_can_be_read() {
        assert_eq!(Transfer::ratio_of(3.0, 2.0), 1.5);
        for seconds in [0.0, 3.0] {
            let d = Transfer {
                ratio: Transfer::ratio_of(seconds, 0.0),
                ..Transfer::for_test("a", 0, seconds)
            };
            let text = serde_json::to_string(&d).unwrap();
            let read: Transfer = serde_json::from_str(&text).unwrap();
            assert_eq!(read.ratio, 0.0);
        }
    }
}
