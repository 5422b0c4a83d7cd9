//! Energy report as JSON, table and CSV. The chart is in `svg`.

use std::fmt::Write as _;

use mpbond_units::Timestamp;
use serde::Serialize;

use crate::account::Summary;
use crate::power_trace::PowerTrace;
use crate::timeline::State;

/// Energy of all devices that take part.
#[derive(Debug, Clone, Serialize)]
pub struct EnergyReport {
    /// Time from the first packet to the last, in seconds.
    pub seconds: f64,
    /// Total energy, with the whole tails.
    pub joules: f64,
    /// Total energy without the tails after the last packets.
    pub joules_without_last_tail: f64,
    /// `joules` if every access point drew its low figure.
    pub joules_low: f64,
    /// `joules` if every access point drew its high figure.
    pub joules_high: f64,
    /// `joules` per 10^6 bytes on all interfaces together.
    pub joules_per_mb: Option<f64>,
    /// Bytes on all interfaces together.
    pub bytes: u64,
    /// Devices.
    pub devices: Vec<DeviceReport>,
    /// Reasons why the input is incomplete; empty if it is complete.
    pub incomplete: Vec<String>,
    /// Assumptions made, such as which address is the device's.
    pub notes: Vec<String>,
    /// Time of the first packet.
    #[serde(skip)]
    pub start: Option<Timestamp>,
}

/// Energy of one device.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// Profile, if it has one.
    pub profile: Option<String>,
    /// Sum of interfaces, processor, base and access point.
    pub joules: f64,
    /// Energy without the tails after the interfaces' last packets.
    pub joules_without_last_tail: f64,
    /// Energy with the access point's low figure.
    pub joules_low: f64,
    /// Energy with the access point's high figure.
    pub joules_high: f64,
    /// Interfaces.
    pub interfaces: Vec<InterfaceReport>,
    /// Processor, if it was logged.
    pub cpu: Option<InterfaceReport>,
    /// The processor's share of the energy of networking, if it was logged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<CpuShare>,
    /// Constant energy of the device.
    pub base_joules: f64,
    /// Energy of acting as an access point, if it does.
    pub access_point: Option<AccessPointReport>,
}

/// Energy of one interface, or of the processor.
#[derive(Debug, Clone, Serialize)]
pub struct InterfaceReport {
    /// Its name.
    pub name: String,
    /// Name of the profile that was used.
    pub profile: String,
    /// Energy.
    #[serde(flatten)]
    pub energy: Summary,
    /// Power over time.
    #[serde(skip)]
    pub trace: PowerTrace,
}

/// The processor's share of the energy of a transfer ("Trimming the Smartphone Network Stack",
/// section 2.2), with the last tails of the interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CpuShare {
    /// Processor, for networking: without the background.
    pub cpu_net_j: f64,
    /// Network interfaces.
    pub nic_j: f64,
    /// The idle phone, over the time of the processor log.
    pub background_j: f64,
    /// `cpu_net_j` over the sum of all three; absent when they are zero.
    pub cpu_share: Option<f64>,
}

impl CpuShare {
    /// The share of `cpu_net_j`.
    pub fn new(cpu_net_j: f64, nic_j: f64, background_j: f64) -> Self {
        let sum = cpu_net_j + nic_j + background_j;
        Self {
            cpu_net_j,
            nic_j,
            background_j,
            cpu_share: (sum > 0.0).then(|| cpu_net_j / sum),
        }
    }
}

/// Energy of acting as an access point, with its range.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct AccessPointReport {
    /// Energy with the profile's figure.
    pub joules: f64,
    /// Energy with the profile's low figure.
    pub joules_low: f64,
    /// Energy with the profile's high figure.
    pub joules_high: f64,
}

impl DeviceReport {
    /// Interfaces and processor.
    pub fn parts(&self) -> impl Iterator<Item = &InterfaceReport> {
        self.interfaces.iter().chain(&self.cpu)
    }
}

const COLUMNS: [&str; 10] = [
    "device",
    "part",
    "profile",
    "promotion J",
    "transfer J",
    "tail J",
    "idle J",
    "total J",
    "no last tail",
    "J/MB",
];

impl EnergyReport {
    /// The report as JSON, on one line.
    ///
    /// # Errors
    /// Never in practice: every part is plain data.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// Report as an aligned table, ending with a line break.
    pub fn to_table(&self) -> String {
        let number = |j: f64| format!("{j:.3}");
        let mut rows: Vec<[String; 10]> = vec![COLUMNS.map(str::to_owned)];
        for device in &self.devices {
            let constant = |part: &str, profile: String, joules: f64| {
                let mut row: [String; 10] = Default::default();
                row[0].clone_from(&device.name);
                row[1] = part.to_owned();
                row[2] = profile;
                row[7] = number(joules);
                row[8] = number(joules);
                row
            };
            for part in device.parts() {
                let energy = &part.energy;
                let mut row = constant(&part.name, part.profile.clone(), energy.joules);
                for (cell, phase) in row[3..7].iter_mut().zip(&energy.phases) {
                    *cell = number(phase.joules);
                }
                row[8] = number(energy.joules_without_last_tail);
                row[9] = energy.joules_per_mb.map(number).unwrap_or_default();
                rows.push(row);
            }
            let profile = device.profile.clone().unwrap_or_default();
            if device.base_joules > 0.0 {
                rows.push(constant("base", profile.clone(), device.base_joules));
            }
            if let Some(ap) = device.access_point {
                rows.push(constant("access point", profile, ap.joules));
            }
        }
        let mut total: [String; 10] = Default::default();
        "all".clone_into(&mut total[0]);
        total[7] = number(self.joules);
        total[8] = number(self.joules_without_last_tail);
        total[9] = self.joules_per_mb.map(number).unwrap_or_default();
        rows.push(total);
        let mut text = aligned(&rows);
        let _ = writeln!(text, "{} bytes in {:.3} s", self.bytes, self.seconds);
        for device in &self.devices {
            let Some(share) = &device.cpu_share else {
                continue;
            };
            let of_all = share.cpu_share.unwrap_or_default() * 100.0;
            let _ = writeln!(
                text,
                "{}: processor for networking {:.3} J, interfaces {:.3} J, background {:.3} J: \
                 the processor's share is {of_all:.1} %",
                device.name, share.cpu_net_j, share.nic_j, share.background_j
            );
        }
        if self.joules_low < self.joules_high {
            let _ = writeln!(
                text,
                "access point power is assumed: between {:.3} and {:.3} J in all",
                self.joules_low, self.joules_high
            );
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        for reason in &self.incomplete {
            let _ = writeln!(text, "INCOMPLETE: {reason}");
        }
        text
    }

    /// Power over time: one line for each bin and state with power above zero, in seconds from the
    /// first packet.
    pub fn to_csv(&self) -> String {
        let mut text = String::from("start_s,end_s,device,interface,state,power_mw\n");
        let start = self.start.unwrap_or_default();
        for device in &self.devices {
            for part in device.parts() {
                let Some(origin) = part.trace.origin() else {
                    continue;
                };
                // The promotion precedes the first packet.
                let from = origin.as_secs_f64() - start.as_secs_f64();
                let width = part.trace.width_s();
                for (i, bin) in part.trace.power_mw().enumerate() {
                    for (state, power) in State::ALL.into_iter().zip(bin) {
                        if power > 0.0 {
                            let begin = from + i as f64 * width;
                            let _ = writeln!(
                                text,
                                "{begin:.6},{:.6},{},{},{},{power:.3}",
                                begin + width,
                                quoted(&device.name),
                                quoted(&part.name),
                                state.name()
                            );
                        }
                    }
                }
            }
        }
        text
    }
}

/// A CSV field, quoted if necessary (RFC 4180, section 2).
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// An aligned table: names to the left, numbers to the right.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|i| {
        rows.iter()
            .map(|row| row[i].chars().count())
            .max()
            .unwrap_or(0)
    });
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(widths).enumerate() {
            let gap = if i == 0 { "" } else { "  " };
            let _ = if i < 3 {
                write!(line, "{gap}{cell:<width$}")
            } else {
                write!(line, "{gap}{cell:>width$}")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
