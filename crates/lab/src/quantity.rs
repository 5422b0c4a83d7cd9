//! What is measured of a transfer, under one name in files, tables and
//! pictures.

use serde::{Deserialize, Serialize};

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
}

impl Quantity {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Seconds,
        Self::Ratio,
        Self::Mbps,
        Self::Joules,
        Self::JoulesWithoutLastTail,
        Self::FirstByteS,
        Self::StallS,
        Self::RedundantShare,
        Self::FinishSpreadS,
    ];

    /// In words.
    pub fn label(self) -> &'static str {
        match self {
            Self::Seconds => "time",
            Self::Ratio => "time over ideal",
            Self::Mbps => "throughput",
            Self::Joules => "energy",
            Self::JoulesWithoutLastTail => "energy without last tail",
            Self::FirstByteS => "time to first byte",
            Self::StallS => "longest stall",
            Self::RedundantShare => "redundant bytes",
            Self::FinishSpreadS => "finish spread",
        }
    }

    /// Its unit; empty for a ratio.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Seconds | Self::FirstByteS | Self::StallS | Self::FinishSpreadS => "s",
            Self::Mbps => "Mbit/s",
            Self::Joules | Self::JoulesWithoutLastTail => "J",
            Self::Ratio | Self::RedundantShare => "",
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
        self != Self::Mbps
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
            Self::Joules => Some(energy()?.joules),
            Self::JoulesWithoutLastTail => Some(energy()?.joules_without_last_tail),
            Self::FirstByteS => d.first_byte_s,
            Self::StallS => Some(d.longest_stall_s),
            Self::RedundantShare => Some(d.redundant_bytes? as f64 / d.bytes as f64),
            Self::FinishSpreadS => d.finish_spread_s(),
        }
    }
}
