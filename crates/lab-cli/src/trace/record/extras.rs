//! Recordings of an Android device besides its system trace: method traces and hardware counters.
//! Processor cores that a watch keeps offline, for the time of a recording.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use mpbond_command::Failure;

use super::device::{Device, Recorder};
use super::output::{contents, create, lacks};

/// Files on the device, in a folder that its shell may write.
const METHODS: &str = "/data/local/tmp/mpbond-methods.trace";
const PERF: &str = "/data/local/tmp/mpbond-perf.data";
const SAMPLES: &str = "/data/local/tmp/mpbond-perf.samples";

/// Interval between looks at a file that a process of the device writes.
const LOOK: Duration = Duration::from_millis(250);

/// Maximum time until that file is whole.
const WRITTEN: Duration = Duration::from_secs(30);

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

/// Recorders that run beside that of the system trace; stopped when dropped.
pub(super) struct Running<'a> {
    device: &'a Device,
    methods: Option<&'a str>,
    simpleperf: Option<Recorder>,
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
        let still = set(device, &before, '1').and_then(|()| device.shell(list));
        let up = still.and_then(|text| match offline(&text) {
            still if still.is_empty() => Ok(()),
            still => Err(lacks(format!(
                "the device keeps {} offline: --cores all needs root on it, and no service that \
                 takes cores offline",
                still.join(", ")
            ))),
        });
        let cores = OfflineCores(before);
        if let Err(e) = up {
            // Some may be online; the first error is the one to report.
            let _ = cores.restore(device);
            return Err(e);
        }
        Ok(cores)
    }

    /// Starts the other recorders.
    pub(super) fn start<'a>(
        &'a self,
        device: &'a Device,
        seconds: u64,
    ) -> Result<Running<'a>, Failure> {
        let mut running = Running {
            device,
            methods: None,
            simpleperf: None,
        };
        if self.simpleperf {
            let groups = GROUPS.map(|g| format!("--group {g}")).join(" ");
            let line = format!("simpleperf record -a {groups} --duration {seconds} -o {PERF}");
            running.simpleperf = Some(device.spawn(&line)?);
        }
        if let Some(process) = self.methods.as_deref() {
            device.shell(&format!("am profile start {process} {METHODS}"))?;
            running.methods = Some(process);
        }
        Ok(running)
    }
}

impl Running<'_> {
    /// Ends the recorders and copies their files beside the system trace; returns lines about their
    /// contents, or the first error.
    pub(super) fn finish(mut self, trace: &Path) -> Result<String, Failure> {
        let methods = self.finish_methods(trace);
        let samples = self.finish_simpleperf(trace);
        Ok(methods? + &samples?)
    }

    fn finish_methods(&mut self, trace: &Path) -> Result<String, Failure> {
        let Some(process) = self.methods.take() else {
            return Ok(String::new());
        };
        self.device.shell(&format!("am profile stop {process}"))?;
        wait_until_written(self.device, METHODS)?;
        let copy = beside(trace, "trace");
        self.copy(&format!("cat {METHODS}"), METHODS, &copy)
    }

    fn finish_simpleperf(&mut self, trace: &Path) -> Result<String, Failure> {
        let Some(mut recorder) = self.simpleperf.take() else {
            return Ok(String::new());
        };
        let status = recorder.wait()?;
        if !status.success() {
            return Err(lacks(format!(
                "the device's simpleperf ended with {status}; its processor may lack counters"
            )));
        }
        let line = format!(
            "simpleperf report-sample --protobuf -i {PERF} -o {SAMPLES} >/dev/null && cat {SAMPLES}"
        );
        let copy = beside(trace, "simpleperf");
        self.copy(&line, &format!("{PERF} {SAMPLES}"), &copy)
    }

    /// Copies the output of a command, and removes files of the device once the copy is readable.
    fn copy(&self, line: &str, files: &str, copy: &Path) -> Result<String, Failure> {
        self.device.save(line, create(copy)?)?;
        let text = contents(copy)?;
        self.device.shell(&format!("rm -f {files}"))?;
        Ok(text)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(process) = self.methods.take() {
            let _ = self.device.shell(&format!("am profile stop {process}"));
        }
    }
}

/// Waits until a file has contents and does not change between three looks: a process writes its
/// method trace after `am` has ended. Old devices have neither stat nor wc.
fn wait_until_written(device: &Device, file: &str) -> Result<(), Failure> {
    let look = format!("[ -s {file} ] && ls -l {file} || true");
    let (began, mut last, mut same) = (Instant::now(), String::new(), 0);
    while same < 2 {
        if began.elapsed() > WRITTEN {
            return Err(Failure::run(format_args!(
                "the device has not written {file} within {} s",
                WRITTEN.as_secs()
            )));
        }
        std::thread::sleep(LOOK);
        let now = device.shell(&look)?;
        let unchanged = !now.trim().is_empty() && now == last;
        same = if unchanged { same + 1 } else { 0 };
        last = now;
    }
    Ok(())
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
