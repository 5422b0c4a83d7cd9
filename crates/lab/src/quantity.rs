//! What is measured of a transfer, under one name in files, tables and
//! pictures.

use serde::{Deserialize, Serialize};

use crate::bins;
use crate::experiment::Role;
use crate::record::Download;

/// A figure of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// From the client's start to its end, in seconds.
    Seconds,
    /// Seconds over those of the fluid bound.
    Ratio,
    /// Bytes of the file over seconds, in Mbit/s.
    Mbps,
    /// The 5th percentile of throughput over bins of 100 ms, in Mbit/s.
    MbpsP5,
    /// The median of throughput over bins of 100 ms, in Mbit/s.
    MbpsMedian,
    /// Of all devices that took part, every last tail in full.
    Joules,
    /// The same without the tails after the last packets.
    JoulesWithoutLastTail,
    /// The client's first byte after its start, in seconds.
    FirstByteS,
    /// The longest time without a byte, in seconds.
    StallS,
    /// Redundant bytes over bytes of the file.
    RedundantShare,
    /// Seconds between the end of the first and of the last subflow.
    FinishSpreadS,
    /// Of a video: the mean over its segments' rates, in Mbit/s.
    BitrateMbps,
    /// Of a video: how often the rate changed.
    Switches,
    /// Of a video: how often it stood still, the start not counted.
    Stalls,
    /// Of a video: for how long it stood still, in seconds.
    StalledS,
    /// Of a video: the same over its length.
    StallRatio,
    /// Of a video: from the first request to the first picture, in seconds.
    StartupS,
    /// Of a page: from its request to its last byte, in seconds.
    PageS,
    /// Of chunks: the mean time of one, in seconds.
    ChunkS,
    /// Of chunks: the 95th percentile of their times, in seconds.
    ChunkP95S,
    /// Of chunks in dual mode: the second user's mean time of one, in seconds.
    SecondChunkS,
    /// Of chunks in dual mode: the second user's 95th percentile, in seconds.
    SecondChunkP95S,
    /// Of a stream: the mean one-way delay of its messages, in seconds.
    DelayS,
    /// Of a stream: the 95th percentile of their delays, in seconds.
    DelayP95S,
    /// Of a stream: the longest of their delays, in seconds.
    DelayMaxS,
    /// Of messages: the median of their times, each from asking for it to its
    /// last byte, in seconds.
    MessageS,
    /// Of messages: the 95th percentile of their times, in seconds.
    MessageP95S,
    /// Of messages: the longest of their times, in seconds.
    MessageMaxS,
    /// Of messages: what the download beside them brought, in Mbit/s.
    BulkMbps,
    /// Processor time of the primary's daemons over the transfer's, in percent
    /// of one processor; zero where none runs.
    CpuPrimary,
    /// The same of the helper that is busiest.
    CpuHelper,
}

impl Quantity {
    /// All of them.
    pub const ALL: [Self; 31] = [
        Self::Seconds,
        Self::Ratio,
        Self::Mbps,
        Self::MbpsP5,
        Self::MbpsMedian,
        Self::Joules,
        Self::JoulesWithoutLastTail,
        Self::FirstByteS,
        Self::StallS,
        Self::RedundantShare,
        Self::FinishSpreadS,
        Self::BitrateMbps,
        Self::Switches,
        Self::Stalls,
        Self::StalledS,
        Self::StallRatio,
        Self::StartupS,
        Self::PageS,
        Self::ChunkS,
        Self::ChunkP95S,
        Self::SecondChunkS,
        Self::SecondChunkP95S,
        Self::DelayS,
        Self::DelayP95S,
        Self::DelayMaxS,
        Self::MessageS,
        Self::MessageP95S,
        Self::MessageMaxS,
        Self::BulkMbps,
        Self::CpuPrimary,
        Self::CpuHelper,
    ];

    /// In words.
    pub fn label(self) -> &'static str {
        match self {
            Self::Seconds => "time",
            Self::Ratio => "time over ideal",
            Self::Mbps => "throughput",
            Self::MbpsP5 => "5th percentile of throughput",
            Self::MbpsMedian => "median throughput",
            Self::Joules => "energy",
            Self::JoulesWithoutLastTail => "energy without last tail",
            Self::FirstByteS => "time to first byte",
            Self::StallS => "longest stall",
            Self::RedundantShare => "redundant bytes",
            Self::FinishSpreadS => "finish spread",
            Self::BitrateMbps => "video bitrate",
            Self::Switches => "switches of rate",
            Self::Stalls => "stalls",
            Self::StalledS => "time stalled",
            Self::StallRatio => "time stalled over length",
            Self::StartupS => "time to first picture",
            Self::PageS => "page load time",
            Self::ChunkS => "chunk time",
            Self::ChunkP95S => "chunk time, 95th percentile",
            Self::SecondChunkS => "second user's chunk time",
            Self::SecondChunkP95S => "second user's chunk time, 95th percentile",
            Self::DelayS => "one-way delay",
            Self::DelayP95S => "one-way delay, 95th percentile",
            Self::DelayMaxS => "one-way delay, longest",
            Self::MessageS => "message time, median",
            Self::MessageP95S => "message time, 95th percentile",
            Self::MessageMaxS => "message time, longest",
            Self::BulkMbps => "throughput beside messages",
            Self::CpuPrimary => "processor time on the primary",
            Self::CpuHelper => "processor time on a helper",
        }
    }

    /// Its unit; empty for a ratio.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Seconds
            | Self::FirstByteS
            | Self::StallS
            | Self::FinishSpreadS
            | Self::StalledS
            | Self::StartupS
            | Self::PageS
            | Self::ChunkS
            | Self::ChunkP95S
            | Self::SecondChunkS
            | Self::SecondChunkP95S
            | Self::DelayS
            | Self::DelayP95S
            | Self::DelayMaxS
            | Self::MessageS
            | Self::MessageP95S
            | Self::MessageMaxS => "s",
            Self::CpuPrimary | Self::CpuHelper => "%",
            Self::Mbps | Self::MbpsP5 | Self::MbpsMedian | Self::BitrateMbps | Self::BulkMbps => {
                "Mbit/s"
            }
            Self::Joules | Self::JoulesWithoutLastTail => "J",
            Self::Ratio
            | Self::RedundantShare
            | Self::Switches
            | Self::Stalls
            | Self::StallRatio => "",
        }
    }

    /// Label and unit, for the axis of a picture.
    pub fn axis(self) -> String {
        match self.unit() {
            "" => self.label().to_owned(),
            unit => format!("{} ({unit})", self.label()),
        }
    }

    /// Whether less of it is better.
    pub fn less_is_better(self) -> bool {
        !matches!(
            self,
            Self::Mbps | Self::MbpsP5 | Self::MbpsMedian | Self::BitrateMbps | Self::BulkMbps
        )
    }

    /// Whether it depends on a model of radios.
    pub fn is_energy(self) -> bool {
        matches!(self, Self::Joules | Self::JoulesWithoutLastTail)
    }

    /// Of one transfer; none where it was not measured. Energy by the model
    /// of that name, or by the first.
    pub fn of(self, d: &Download, model: Option<&str>) -> Option<f64> {
        let energy = || {
            let mut accounts = d.energy.iter();
            accounts.find(|e| model.is_none_or(|name| e.model == name))
        };
        match self {
            Self::Seconds => Some(d.seconds),
            Self::Ratio => Some(d.ratio),
            Self::Mbps => (d.seconds > 0.0).then(|| d.bytes as f64 * 8e-6 / d.seconds),
            Self::MbpsP5 => bins::percentile(bins::throughput_mbps(&d.progress, d.seconds), 0.05),
            Self::MbpsMedian => {
                bins::percentile(bins::throughput_mbps(&d.progress, d.seconds), 0.5)
            }
            Self::Joules => Some(energy()?.joules),
            Self::JoulesWithoutLastTail => Some(energy()?.joules_without_last_tail),
            Self::FirstByteS => d.first_byte_s,
            Self::StallS => Some(d.longest_stall_s),
            Self::RedundantShare => Some(d.redundant_bytes? as f64 / d.bytes as f64),
            Self::FinishSpreadS => d.finish_spread_s(),
            Self::CpuPrimary => d.cpu_percent.get(&Role::Primary).copied(),
            Self::CpuHelper => d.cpu_percent.get(&Role::Helper).copied(),
            Self::BitrateMbps
            | Self::Switches
            | Self::Stalls
            | Self::StalledS
            | Self::StallRatio
            | Self::StartupS
            | Self::PageS
            | Self::ChunkS
            | Self::ChunkP95S
            | Self::SecondChunkS
            | Self::SecondChunkP95S
            | Self::DelayS
            | Self::DelayP95S
            | Self::DelayMaxS
            | Self::MessageS
            | Self::MessageP95S
            | Self::MessageMaxS
            | Self::BulkMbps => d.noticed.get(&self).copied(),
        }
    }
}
