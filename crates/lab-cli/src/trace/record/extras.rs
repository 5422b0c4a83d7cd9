//! What an Android device records besides its system trace: method traces, hardware counters; and
//! its processor cores, which watches keep offline.

use std::path::{Path, PathBuf};
use std::process::Child;

use clap::{Args, ValueEnum};
use mpbond_command::Failure;

use super::adb::{Device, contents};
use super::output::{create, lacks};

/// Files on the device, in a folder that its shell may write.
const METHODS: &str = "/data/local/tmp/mpbond-methods.trace";
const PERF: &str = "/data/local/tmp/mpbond-perf.data";
const SAMPLES: &str = "/data/local/tmp/mpbond-perf.samples";

/// Groups of hardware events. A group is counted at the same time, so that its ratios hold; an
/// event is in one group only. A Cortex-A7 has four counters and one for cycles.
const GROUPS: [&str; 2] = [
    "cpu-cycles,instructions,raw-l1-icache-refill,raw-l1-dcache-refill,raw-itlb-refill",
    "raw-br-pred,raw-br-mis-pred,raw-l2-dcache,raw-l2-dcache-refill",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Cores {
    /// All cores of the device, as the paper does for thread-level parallelism; needs root.
    All,
}

#[derive(Debug, Args)]
pub(crate) struct ExtraArgs {
    /// Record the method calls of this process at the same time (am profile): slows it down.
    #[arg(long, value_name = "PROCESS", requires = "repeat")]
    methods: Option<String>,
    /// Sample hardware counters of all processes at the same time (simpleperf).
    #[arg(long, requires = "repeat")]
    simpleperf: bool,
    /// Cores that are online during the recording.
    #[arg(long, value_enum, requires = "adb")]
    cores: Option<Cores>,
}

/// Recorders that run beside that of the system trace.
pub(super) struct Running<'a> {
    methods: Option<&'a str>,
    simpleperf: Option<Child>,
}

/// Cores that were offline before the recording.
pub(super) struct OfflineCores(Vec<String>);

impl ExtraArgs {
    /// Brings the wanted cores online.
    pub(super) fn bring_up(&self, device: &Device) -> Result<OfflineCores, Failure> {
        if self.cores.is_none() {
            return Ok(OfflineCores(Vec::new()));
        }
        let list = "cd /sys/devices/system/cpu; grep -H . cpu[0-9]*/online";
        let offline = |text: &str| -> Vec<String> {
            let lines = text
                .lines()
                .filter_map(|l| l.trim().strip_suffix("/online:0"));
            lines.map(str::to_owned).collect()
        };
        let before = offline(&device.shell(list)?);
        set(device, &before, '1')?;
        let still = offline(&device.shell(list)?);
        if still.is_empty() {
            return Ok(OfflineCores(before));
        }
        Err(lacks(format!(
            "the device keeps {} offline: --cores all needs root on it, and no service that takes \
             cores offline",
            still.join(", ")
        )))
    }

    /// Starts the other recorders.
    pub(super) fn start(&self, device: &Device, seconds: u64) -> Result<Running<'_>, Failure> {
        let simpleperf = if self.simpleperf {
            let groups = GROUPS.map(|g| format!("--group {g}")).join(" ");
            let line = format!("simpleperf record -a {groups} --duration {seconds} -o {PERF}");
            Some(device.spawn(&line)?)
        } else {
            None
        };
        let methods = self.methods.as_deref();
        if let Some(process) = methods {
            device.shell(&format!("am profile start {process} {METHODS}"))?;
        }
        Ok(Running {
            methods,
            simpleperf,
        })
    }
}

impl Running<'_> {
    /// Ends the recorders and copies their files beside the system trace; returns lines about their
    /// contents.
    pub(super) fn finish(self, device: &Device, trace: &Path) -> Result<String, Failure> {
        let mut text = String::new();
        if let Some(process) = self.methods {
            device.shell(&format!("am profile stop {process}"))?;
            // The process writes the file after it has answered.
            let file = beside(trace, "trace");
            let whole = format!("sleep 2; cat {METHODS}; rm -f {METHODS}");
            device.save(&whole, create(&file)?)?;
            text += &contents(&file)?;
        }
        if let Some(mut child) = self.simpleperf {
            let status = child
                .wait()
                .map_err(|e| Failure::run(format_args!("adb: {e}")))?;
            if !status.success() {
                return Err(lacks(format!(
                    "the device's simpleperf ended with {status}; its processor may lack counters"
                )));
            }
            let file = beside(trace, "simpleperf");
            let whole = format!(
                "simpleperf report-sample --protobuf -i {PERF} -o {SAMPLES} >/dev/null; cat \
                 {SAMPLES}; rm -f {PERF} {SAMPLES}"
            );
            device.save(&whole, create(&file)?)?;
            text += &contents(&file)?;
        }
        Ok(text)
    }
}

impl OfflineCores {
    /// Takes the cores offline again.
    pub(super) fn restore(self, device: &Device) -> Result<(), Failure> {
        set(device, &self.0, '0')
    }
}

fn set(device: &Device, cores: &[String], online: char) -> Result<(), Failure> {
    if cores.is_empty() {
        return Ok(());
    }
    let root = "/sys/devices/system/cpu";
    let lines = cores
        .iter()
        .map(|c| format!("echo {online} > {root}/{c}/online"));
    let lines: Vec<String> = lines.collect();
    device
        .shell(&format!("su 0 sh -c '{}'", lines.join("; ")))
        .map(|_| ())
}

/// The file of the same repetition with another suffix.
fn beside(trace: &Path, suffix: &str) -> PathBuf {
    let name = trace.file_name().map(|n| n.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let stem = name
        .rsplit_once('.')
        .map_or(name.as_str(), |(stem, _)| stem);
    trace.with_file_name(format!("{stem}.{suffix}"))
}
