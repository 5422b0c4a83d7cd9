//! Values of quantities, from the record of a transfer.

use super::transfer::Transfer;
use crate::experiment::Role;
use crate::figures::bins;
use crate::figures::quantity::Quantity;
use crate::machine_use::are_undisturbed;

impl Quantity {
    /// The value of one transfer; `None` where it was not measured. Energy is by the model of that
    /// name, by default by the first.
    pub fn of(self, d: &Transfer, model: Option<&str>) -> Option<f64> {
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
            Self::HelperJoules => {
                // The first one is the primary.
                let helpers = energy()?.devices.iter().skip(1);
                let joules = helpers.map(|device| device.joules_without_last_tail);
                joules.reduce(|all, joules| all + joules)
            }
            Self::BatteryPercent => {
                let devices = energy()?.devices.iter();
                let used = devices.filter_map(|device| device.battery_percent);
                used.reduce(f64::max)
            }
            Self::FirstByteS => d.first_byte_s,
            Self::StallS => Some(d.longest_stall_s),
            Self::RedundantShare => Some(d.redundant_bytes? as f64 / d.bytes as f64),
            Self::FinishSpreadS => d.finish_spread_s(),
            Self::CpuPrimary => d.cpu_percent.get(&Role::Primary).copied(),
            Self::CpuHelper => d.cpu_percent.get(&Role::Helper).copied(),
            Self::CpuMachine => {
                let fit = d.machine.filter(|used| are_undisturbed(&[*used]))?;
                Some(fit.own() * 100.0)
            }
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
            | Self::CostOverOracle
            | Self::Fairness
            | Self::FirstFileS
            | Self::MeteredMb
            | Self::DelayS
            | Self::DelayMedianS
            | Self::DelaySdS
            | Self::DelayP95S
            | Self::DelayMaxS
            | Self::MessageS
            | Self::MessageP95S
            | Self::MessageMaxS
            | Self::BulkMbps => d.noticed.get(&self).copied(),
        }
    }
}
