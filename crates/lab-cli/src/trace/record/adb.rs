//! Recordings of an Android device: atrace or Perfetto while a scenario is played.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use mpbond_command::{Failure, print};
use mpbond_systrace::Scenario;

use super::device::Device;
use super::extras::ExtraArgs;
use super::output::{contents, create};
use crate::trace::form::make_folder;

/// Time of the recorder until its first event.
const LEAD: Duration = Duration::from_millis(1_500);

/// Categories of atrace; those that a device lacks are left out.
const ATRACE: [&str; 15] = [
    "sched",
    "freq",
    "idle",
    "irq",
    "disk",
    "binder_driver",
    "gfx",
    "input",
    "view",
    "wm",
    "am",
    "audio",
    "power",
    "dalvik",
    "res",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tool {
    /// On every Android since 4.3.
    Atrace,
    /// Android 9 and later.
    Perfetto,
}

#[derive(Debug, Args)]
pub(crate) struct AdbArgs {
    /// Record an Android device through adb.
    #[arg(long)]
    adb: bool,
    /// Serial number of the device, where there are several.
    #[arg(long, value_name = "SERIAL", requires = "adb")]
    serial: Option<String>,
    /// Recorder on the device.
    #[arg(long, value_enum, default_value = "atrace", requires = "adb")]
    tool: Tool,
    /// Play this scenario while recording.
    #[arg(long, value_name = "NAME", requires = "adb")]
    scenario: Option<String>,
    /// Scenarios, instead of the paper's (TOML).
    #[arg(long, value_name = "FILE")]
    scenarios: Option<PathBuf>,
    /// Number of recordings; --output is a folder then.
    #[arg(
        long,
        value_name = "N",
        requires = "scenario",
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    repeat: Option<u32>,
    #[command(flatten)]
    extras: ExtraArgs,
    /// List the scenarios and exit.
    #[arg(long)]
    pub(super) list_scenarios: bool,
}

impl AdbArgs {
    pub(crate) fn wanted(&self) -> bool {
        self.adb
    }

    fn all(&self) -> Result<Vec<Scenario>, Failure> {
        let Some(file) = &self.scenarios else {
            return Ok(Scenario::shipped());
        };
        let wrong =
            |e: &dyn std::fmt::Display| Failure::input(format_args!("{}: {e}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|e| wrong(&e))?;
        Scenario::parse(&text).map_err(|e| wrong(&e))
    }

    pub(crate) fn list(&self) -> Result<(), Failure> {
        let mut text = String::new();
        for s in self.all()? {
            let paper: Vec<String> = s.published_ms.iter().map(u32::to_string).collect();
            text += &format!(
                "{:<9} {:<13} {:>3} s  {}{}\n",
                s.name,
                s.category,
                s.record_s,
                s.description,
                if paper.is_empty() {
                    String::new()
                } else {
                    format!(" (paper: {} ms)", paper.join(" + "))
                }
            );
        }
        print(&text)
    }

    pub(crate) fn record(
        &self,
        output: &Path,
        duration: Option<Duration>,
        buffer_mib: u32,
    ) -> Result<(), Failure> {
        let scenario = match &self.scenario {
            None => None,
            Some(name) => {
                let all = self.all()?;
                let names: Vec<String> = all.iter().map(|s| s.name.clone()).collect();
                let found = all.into_iter().find(|s| s.name == *name);
                Some(found.ok_or_else(|| {
                    let names = names.join(", ");
                    Failure::input(format_args!("no scenario \"{name}\"; there are {names}"))
                })?)
            }
        };
        let length = match (&scenario, duration) {
            (_, Some(d)) => d,
            (Some(s), None) => Duration::from_secs(u64::from(s.record_s)),
            (None, None) => {
                return Err(Failure::input(
                    "--adb needs --duration or --scenario: the device needs the length at the start",
                ));
            }
        };
        // The scenario is valid: now the device.
        let device = Device::find(self.serial.clone())?;
        let files: Vec<PathBuf> = match (self.repeat, &scenario) {
            (Some(n), Some(s)) => {
                make_folder(output)?;
                (1..=n)
                    .map(|i| output.join(format!("{}-{i}.{}", s.name, self.suffix())))
                    .collect()
            }
            _ => vec![output.to_owned()],
        };
        let cores = self.extras.bring_up(&device)?;
        let recorded = files
            .iter()
            .try_for_each(|file| self.one(&device, file, scenario.as_ref(), length, buffer_mib));
        let restored = cores.restore(&device);
        recorded.and(restored)
    }

    /// One recording into one file.
    fn one(
        &self,
        device: &Device,
        file: &Path,
        scenario: Option<&Scenario>,
        length: Duration,
        buffer_mib: u32,
    ) -> Result<(), Failure> {
        let (width, height) = match scenario {
            Some(_) => device.screen()?,
            None => (0, 0),
        };
        if let Some(s) = scenario {
            device.play(&s.prepare, width, height, true)?;
        }
        let out = create(file)?;
        let seconds = length.as_secs_f64().ceil() as u64;
        let mut recorder = device.start(&self.command(seconds, buffer_mib), out)?;
        std::thread::sleep(LEAD);
        let others = self.extras.start(device, seconds)?;
        let played = match scenario {
            Some(s) => device.play(&s.steps, width, height, false),
            None => Ok(()),
        };
        // All end, whichever failed; the first error is returned.
        let status = recorder.wait();
        let others = others.finish(file);
        played?;
        let status = status?;
        if !status.success() {
            let text = format!("the device's {} ended with {status}", self.suffix());
            return Err(Failure::run(text));
        }
        print(&(contents(file)? + &others?))
    }

    fn suffix(&self) -> &'static str {
        match self.tool {
            Tool::Atrace => "atrace",
            Tool::Perfetto => "perfetto-trace",
        }
    }

    /// The command for the device's shell.
    fn command(&self, seconds: u64, buffer_mib: u32) -> String {
        let kib = u64::from(buffer_mib) * 1024;
        // The recorder's duration includes the lead.
        let seconds = seconds + LEAD.as_secs_f64().ceil() as u64;
        match self.tool {
            Tool::Atrace => format!("atrace -z -b {kib} -t {seconds} {}", ATRACE.join(" ")),
            Tool::Perfetto => {
                // Through a pipe: before Android 12 the recorder cannot read files of other users.
                format!("echo '{}' | perfetto --txt -c - -o -", config(seconds, kib))
            }
        }
    }
}

fn config(seconds: u64, kib: u64) -> String {
    const FTRACE: [&str; 12] = [
        "sched/sched_switch",
        "sched/sched_waking",
        "sched/sched_wakeup",
        "sched/sched_blocked_reason",
        "power/cpu_frequency",
        "power/cpu_idle",
        "power/suspend_resume",
        "irq/irq_handler_entry",
        "block/block_rq_issue",
        "block/block_rq_complete",
        "binder/binder_transaction",
        "binder/binder_transaction_received",
    ];
    let mut text = format!(
        "buffers {{ size_kb: {kib} }} duration_ms: {} data_sources {{ config {{ name: \"linux.process_stats\" process_stats_config {{ scan_all_processes_on_start: true }} }} }} data_sources {{ config {{ name: \"linux.ftrace\" ftrace_config {{ ",
        seconds * 1_000
    );
    for event in FTRACE {
        text += &format!("ftrace_events: \"{event}\" ");
    }
    for category in ["am", "wm", "gfx", "view", "input", "audio", "power"] {
        text += &format!("atrace_categories: \"{category}\" ");
    }
    text + "atrace_apps: \"*\" } } }"
}
