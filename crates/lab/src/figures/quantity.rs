//! Quantities of a transfer, with the names used in files, tables and pictures.

use serde::{Deserialize, Serialize};

/// A quantity of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// From the client's start to its end, in seconds.
    Seconds,
    /// Time over the ideal time.
    Ratio,
    /// Bytes of the file over the time, in Mbit/s.
    Mbps,
    /// The 5th percentile of throughput over bins of 100 ms, in Mbit/s.
    MbpsP5,
    /// The median of throughput over bins of 100 ms, in Mbit/s.
    MbpsMedian,
    /// Energy of all devices that take part, with last tails in full, in joules.
    Joules,
    /// The same without the tails after the last packets.
    JoulesWithoutLastTail,
    /// Energy of all helpers without the tails after the last packets, in joules.
    HelperJoules,
    /// Energy of the device that used most of its battery, in percent of that.
    BatteryPercent,
    /// Bytes that metered links carried both ways, headers included, in MB.
    MeteredMb,
    /// Of a scheme with a price of energy: joules with last tails and the price of its seconds,
    /// over those of the better scheme of mpbond without one in the same repetition.
    CostOverOracle,
    /// Time to the client's first byte, in seconds.
    FirstByteS,
    /// Longest time without a byte, in seconds.
    StallS,
    /// Redundant bytes over bytes of the file.
    RedundantShare,
    /// Time from the end of the first subflow to the end of the last, in seconds.
    FinishSpreadS,
    /// Video: mean bit rate of its segments, in Mbit/s.
    BitrateMbps,
    /// Video: number of changes of the bit rate.
    Switches,
    /// Video: number of stalls after the start.
    Stalls,
    /// Video: total time stalled, in seconds.
    StalledS,
    /// Video: time stalled over its length.
    StallRatio,
    /// Video: time from the first request to the first picture, in seconds.
    StartupS,
    /// Page: time from its request to its last byte, in seconds.
    PageS,
    /// Chunks: mean time of a chunk, in seconds.
    ChunkS,
    /// Chunks: 95th percentile of their times, in seconds.
    ChunkP95S,
    /// Chunks in dual mode: mean time of the second user's chunks, in seconds.
    SecondChunkS,
    /// Chunks in dual mode: 95th percentile of the second user's, in seconds.
    SecondChunkP95S,
    /// Chunks of several users: Jain's index of the users' throughputs, from one over their number
    /// to 1 where all are equal. A user's throughput is that of a chunk of mean time.
    Fairness,
    /// Files over one stream: time to the end of the first one, in seconds.
    FirstFileS,
    /// Stream: mean one-way delay of its messages, in seconds.
    DelayS,
    /// Stream: median of the delays, in seconds.
    DelayMedianS,
    /// Stream: standard deviation of the delays, in seconds.
    DelaySdS,
    /// Stream: 95th percentile of the delays, in seconds.
    DelayP95S,
    /// Stream: longest delay, in seconds.
    DelayMaxS,
    /// Messages: median of their times from request to last byte, in seconds.
    MessageS,
    /// Messages: 95th percentile of their times, in seconds.
    MessageP95S,
    /// Messages: longest time, in seconds.
    MessageMaxS,
    /// Messages, page: throughput of the download beside them, in Mbit/s.
    BulkMbps,
    /// Processor time of the primary's daemons over the time of the transfer, in percent of one
    /// processor; zero without daemons.
    CpuPrimary,
    /// The same for the busiest helper.
    CpuHelper,
    /// Use of all processors of this machine, interrupts and softirqs included, in percent of one
    /// processor; where the experiment measures it, and other programs leave the machine to it.
    CpuMachine,
}

impl Quantity {
    /// All quantities.
    pub const ALL: [Self; 40] = [
        Self::Seconds,
        Self::Ratio,
        Self::Mbps,
        Self::MbpsP5,
        Self::MbpsMedian,
        Self::Joules,
        Self::JoulesWithoutLastTail,
        Self::HelperJoules,
        Self::BatteryPercent,
        Self::MeteredMb,
        Self::CostOverOracle,
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
        Self::Fairness,
        Self::FirstFileS,
        Self::DelayS,
        Self::DelayMedianS,
        Self::DelaySdS,
        Self::DelayP95S,
        Self::DelayMaxS,
        Self::MessageS,
        Self::MessageP95S,
        Self::MessageMaxS,
        Self::BulkMbps,
        Self::CpuPrimary,
        Self::CpuHelper,
        Self::CpuMachine,
    ];

    /// Name for tables and pictures.
    pub fn label(self) -> &'static str {
        match self {
            Self::Seconds => "time",
            Self::Ratio => "time over ideal",
            Self::Mbps => "throughput",
            Self::MbpsP5 => "5th percentile of throughput",
            Self::MbpsMedian => "median throughput",
            Self::Joules => "energy",
            Self::JoulesWithoutLastTail => "energy without last tail",
            Self::HelperJoules => "energy of the helpers",
            Self::BatteryPercent => "use of a battery",
            Self::MeteredMb => "bytes over metered links",
            Self::CostOverOracle => "joules and price of seconds over the oracle's",
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
            Self::Fairness => "fairness among users",
            Self::FirstFileS => "time of the first file",
            Self::DelayS => "one-way delay",
            Self::DelayMedianS => "one-way delay, median",
            Self::DelaySdS => "one-way delay, standard deviation",
            Self::DelayP95S => "one-way delay, 95th percentile",
            Self::DelayMaxS => "one-way delay, longest",
            Self::MessageS => "message time, median",
            Self::MessageP95S => "message time, 95th percentile",
            Self::MessageMaxS => "message time, longest",
            Self::BulkMbps => "throughput of the download beside",
            Self::CpuPrimary => "processor time on the primary",
            Self::CpuHelper => "processor time on a helper",
            Self::CpuMachine => "processor time of the whole machine",
        }
    }

    /// Unit; empty for ratios and counts.
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
            | Self::FirstFileS
            | Self::DelayS
            | Self::DelayMedianS
            | Self::DelaySdS
            | Self::DelayP95S
            | Self::DelayMaxS
            | Self::MessageS
            | Self::MessageP95S
            | Self::MessageMaxS => "s",
            Self::CpuPrimary | Self::CpuHelper | Self::CpuMachine | Self::BatteryPercent => "%",
            Self::MeteredMb => "MB",
            Self::Mbps | Self::MbpsP5 | Self::MbpsMedian | Self::BitrateMbps | Self::BulkMbps => {
                "Mbit/s"
            }
            Self::Joules | Self::JoulesWithoutLastTail | Self::HelperJoules => "J",
            Self::Ratio
            | Self::RedundantShare
            | Self::CostOverOracle
            | Self::Fairness
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
            Self::Mbps
                | Self::MbpsP5
                | Self::MbpsMedian
                | Self::BitrateMbps
                | Self::BulkMbps
                | Self::Fairness
        )
    }

    /// Whether it is computed by a model of radios.
    pub fn is_energy(self) -> bool {
        matches!(
            self,
            Self::Joules | Self::JoulesWithoutLastTail | Self::HelperJoules | Self::BatteryPercent
        )
    }
}
