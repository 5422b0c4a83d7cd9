//! An Android device, through adb: atrace or Perfetto while a scenario is played.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use clap::{Args, ValueEnum};
use mpbond_command::{Failure, note, print};
use mpbond_systrace::{Scenario, Step, Summary};

use super::extras::ExtraArgs;
use super::output::{create, lacks};
use crate::trace::form::make_folder;
use crate::trace::input::bad;

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

/// A running adb with a command of the device; ended when dropped.
pub(super) struct Recorder(Child);

impl Recorder {
    fn of(command: &mut Command) -> Result<Self, Failure> {
        let child = command.spawn();
        child
            .map(Self)
            .map_err(|e| Failure::run(format_args!("adb: {e}")))
    }

    pub(super) fn wait(&mut self) -> Result<ExitStatus, Failure> {
        let status = self.0.wait();
        status.map_err(|e| Failure::run(format_args!("adb: {e}")))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Without effect on one that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A connected device.
pub(super) struct Device {
    serial: Option<String>,
}

impl Device {
    fn find(serial: Option<String>) -> Result<Self, Failure> {
        let device = Self { serial };
        let output = device
            .adb(&["get-state"])
            .output()
            .map_err(|e| lacks(format!("adb cannot be run ({e}); Debian has it in adb")))?;
        let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if state == "device" {
            return Ok(device);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or("").trim();
        Err(lacks(format!("adb reaches no device: {said}{state}")))
    }

    fn adb(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("adb");
        if let Some(serial) = &self.serial {
            command.args(["-s", serial]);
        }
        command.args(arguments).stdin(Stdio::null());
        command
    }

    pub(super) fn shell(&self, line: &str) -> Result<String, Failure> {
        let output = self
            .adb(&["shell", line])
            .output()
            .map_err(|e| Failure::run(format_args!("adb: {e}")))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or("").to_owned();
        Err(Failure::run(format_args!(
            "adb shell {line}: {} {said}",
            output.status
        )))
    }

    /// Width and height in pixels; `wm size` may print an override last.
    fn screen(&self) -> Result<(u32, u32), Failure> {
        let text = self.shell("wm size")?;
        let size = text.lines().rev().find_map(|line| {
            let (width, height) = line.rsplit_once(": ")?.1.split_once('x')?;
            Some((width.trim().parse().ok()?, height.trim().parse().ok()?))
        });
        size.ok_or_else(|| {
            Failure::run(format_args!(
                "adb shell wm size: no size in {}",
                text.trim()
            ))
        })
    }

    /// Starts the recorder, with its output unchanged into a file.
    fn start(&self, line: &str, out: File) -> Result<Recorder, Failure> {
        Recorder::of(self.adb(&["exec-out", line]).stdout(out))
    }

    /// Starts a command in the device's shell.
    pub(super) fn spawn(&self, line: &str) -> Result<Recorder, Failure> {
        Recorder::of(self.adb(&["shell", line]).stdout(Stdio::null()))
    }

    /// Writes the output of a command, unchanged, into a file.
    pub(super) fn save(&self, line: &str, out: File) -> Result<(), Failure> {
        let status = self.start(line, out)?.wait()?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::run(format_args!("adb exec-out {line}: {status}")))
    }

    fn play(&self, steps: &[Step], width: u32, height: u32, wait: bool) -> Result<(), Failure> {
        for step in steps {
            match step {
                Step::WaitMs(ms) => std::thread::sleep(Duration::from_millis(*ms)),
                Step::Ask(what) if wait && io::stdin().is_terminal() => {
                    note!("mpbond trace: please {what}, then press Enter");
                    let mut line = String::new();
                    let _ = io::stdin().read_line(&mut line);
                }
                Step::Ask(what) => note!("mpbond trace: now please {what}"),
                other => {
                    if let Some(line) = other.command(width, height) {
                        self.shell(&line)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Reads a recording; returns a line about its contents.
pub(super) fn contents(file: &Path) -> Result<String, Failure> {
    let input =
        File::open(file).map_err(|e| Failure::run(format_args!("{}: {e}", file.display())))?;
    let summary = Summary::of(input).map_err(|e| bad(file, &e))?;
    let events: u64 = summary.events.values().sum();
    let whole = match &summary.incomplete {
        Some(why) => format!("; not whole: {why}"),
        None => String::new(),
    };
    let what = match summary.samples {
        Some(n) => format!("{n} samples"),
        None => format!("{events} events in {:.3} s", summary.span_s),
    };
    Ok(format!("{}: {what}{whole}\n", file.display()))
}
