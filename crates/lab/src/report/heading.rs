//! Headings of pictures: what is drawn, in words that need no paper.

use crate::figures::quantity::Quantity;

/// A quantity in the words of a heading.
pub(super) const fn of(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Seconds => "Time that the transfers took",
        Quantity::Ratio => "Time of the transfers as a multiple of the shortest possible time",
        Quantity::Mbps => "Throughput of the transfers",
        Quantity::MbpsP5 => "Throughput that was exceeded 95 % of the time",
        Quantity::MbpsMedian => "Throughput that was exceeded half of the time",
        Quantity::Joules => "Energy of all devices, their radios' last tails included",
        Quantity::JoulesWithoutLastTail => "Energy of all devices until the last packet",
        Quantity::HelperJoules => "Energy of all helpers until the last packet",
        Quantity::BatteryPercent => "Energy of the device that used most of its battery",
        Quantity::MeteredMb => "Bytes over metered links",
        Quantity::CostOverOracle => {
            "Joules and price of the seconds, over the better scheme without a price"
        }
        Quantity::FirstByteS => "Time until the first byte arrived",
        Quantity::StallS => "Longest time in which no byte arrived",
        Quantity::RedundantShare => "Bytes sent twice, as a share of the file",
        Quantity::FinishSpreadS => "Time between the end of the first subflow and of the last",
        Quantity::BitrateMbps => "Mean bit rate of the video",
        Quantity::Switches => "Number of changes of the video's bit rate",
        Quantity::Stalls => "Number of times that the video stopped",
        Quantity::StalledS => "Time that the video stood still",
        Quantity::StallRatio => "Time that the video stood still, as a share of its length",
        Quantity::StartupS => "Time until the video's first picture",
        Quantity::PageS => "Time until the page had loaded",
        Quantity::ChunkS => "Time that a chunk took, mean",
        Quantity::ChunkP95S => "Time within which 95 % of the chunks arrived",
        Quantity::SecondChunkS => "Time that a chunk of the second user took, mean",
        Quantity::SecondChunkP95S => "Time within which 95 % of the second user's chunks arrived",
        Quantity::Fairness => "Fairness among users, by Jain's index",
        Quantity::FirstFileS => "Time until the first file had arrived",
        Quantity::DelayS => "One-way delay of the messages, mean",
        Quantity::DelayMedianS => "One-way delay of the messages, median",
        Quantity::DelaySdS => "Standard deviation of the messages' one-way delay",
        Quantity::DelayP95S => "One-way delay that 95 % of the messages did not exceed",
        Quantity::DelayMaxS => "Longest one-way delay of a message",
        Quantity::MessageS => "Time from a request to its answer, median",
        Quantity::MessageP95S => "Time within which 95 % of the requests were answered",
        Quantity::MessageMaxS => "Longest time from a request to its answer",
        Quantity::BulkMbps => "Throughput of the download beside messages or a page",
        Quantity::CpuPrimary => "Processor time of the primary's daemons",
        Quantity::CpuHelper => "Processor time of the busiest helper's daemon",
        Quantity::CpuMachine => "Processor time of the whole machine, the kernel's included",
    }
}

/// A heading for one of several pictures.
pub(super) fn with(what: &str, which: &str) -> String {
    match which {
        "" => what.to_owned(),
        which => format!("{what}: {which}"),
    }
}
