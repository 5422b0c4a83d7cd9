//! `mpbond trace record`: traces of this machine, or of an Android device.

mod adb;
mod counters;
mod device;
mod events;
mod extras;
mod output;
mod tracefs;
mod wait;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use mpbond_command::{Failure, note, print};
use mpbond_units::duration_text;

use adb::AdbArgs;
use events::Group;
use mpbond_units::human;
use output::{create, lacks};
use tracefs::Instance;

/// Default buffer of each CPU, which writes some 50 MB a minute when it is busy.
const DEFAULT_BUFFER_MIB: u32 = 32;

/// Record a trace of this machine's kernel, or of an Android device.
///
/// This machine: the kernel's tracer (ftrace) in an instance of its own, which does not disturb
/// other tracing; needs root. Events: scheduling, interrupts, timers, power, storage, network and
/// TCP, on request system calls, and hardware counters through perf. Android (--adb): atrace or
/// Perfetto, alone or while one of the paper's fifteen scenarios is played.
///
/// Exit codes: 0 recorded, 1 something failed, 2 wrong usage, 3 the machine lacks something, which
/// the message names.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond trace record -o trace.txt --duration 5s
  mpbond trace record -o trace.txt -- curl -O http://example.com/file
  mpbond trace record -o trace.txt --events sched,net,tcp --perf perf.data --duration 10s
  mpbond trace record --list-events              groups of events of this kernel
  mpbond trace record --list-scenarios
  mpbond trace record --adb --scenario lch.set --repeat 3 -o settings
  mpbond trace record --adb --scenario lch.set --repeat 3 --methods system_server --simpleperf -o settings")]
pub(crate) struct RecordArgs {
    /// Output file, or folder with --repeat.
    #[arg(long, short, value_name = "FILE", required_unless_present_any = ["list_events", "list_scenarios"])]
    output: Option<PathBuf>,
    /// Duration; without it, until the program ends or until Ctrl-C.
    #[arg(long, short, value_name = "TIME", value_parser = span)]
    duration: Option<Duration>,
    /// Groups of events: sched, irq, timer, power, block, net, tcp, binder, syscalls; all for
    /// these; and kprobes, the events defined in tracefs' kprobe_events.
    #[arg(
        long,
        value_name = "GROUP",
        value_delimiter = ',',
        default_value = "sched,irq,timer,power,block,net,tcp,binder",
        value_parser = events::group
    )]
    events: Vec<Vec<Group>>,
    /// Buffer of each CPU, MiB; when it is full, the oldest events are lost.
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = DEFAULT_BUFFER_MIB,
        value_parser = clap::value_parser!(u32).range(1..=4096)
    )]
    buffer: u32,
    /// Sample hardware counters with perf at the same time, into this file.
    #[arg(long, value_name = "FILE")]
    perf: Option<PathBuf>,
    /// List the events to be recorded and those that this kernel lacks, and exit.
    #[arg(long)]
    list_events: bool,
    #[command(flatten)]
    adb: AdbArgs,
    /// Program to run during the recording, and its arguments.
    #[arg(last = true, value_name = "CMD", conflicts_with = "adb")]
    program: Vec<OsString>,
}

impl RecordArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.adb.list_scenarios {
            return self.adb.list();
        }
        let groups: Vec<Group> = self.events.concat();
        if self.list_events {
            return list_events(&groups);
        }
        let Some(output) = &self.output else {
            return Err(Failure::input("--output is required"));
        };
        if self.adb.wanted() {
            if self.perf.is_some() {
                return Err(Failure::input("--perf is for this machine, not for --adb"));
            }
            return self.adb.record(output, self.duration, self.buffer);
        }
        self.here(output, &groups)
    }

    fn here(&self, output: &Path, groups: &[Group]) -> Result<(), Failure> {
        let instance = Instance::new().map_err(lacks)?;
        let counters = match &self.perf {
            Some(file) => Some((file, counters::available().map_err(lacks)?)),
            None => None,
        };
        // Made before the recording, so that an error does not lose it.
        let mut file = create(output)?;
        instance.prepare(self.buffer).map_err(lacks)?;
        let (enabled, missing) = instance.enable(groups).map_err(lacks)?;
        if enabled.is_empty() {
            return Err(lacks(events::none_of(&missing)));
        }
        if !missing.is_empty() {
            note!(
                "mpbond trace: not in this kernel, and so not recorded: {}",
                missing.join(", ")
            );
        }
        let sampler = match counters {
            Some((file, names)) => Some(counters::Sampler::start(file, &names).map_err(lacks)?),
            None => None,
        };
        let failed = |e: std::io::Error| Failure::run(format_args!("the kernel's tracer: {e}"));
        instance.start(realtime_ms()).map_err(failed)?;
        let waited = wait::wait(self.duration, &self.program);
        instance.stop().map_err(failed)?;
        let sampled = sampler.map(counters::Sampler::stop).transpose();
        let bytes = instance
            .save(&mut file)
            .map_err(|e| Failure::run(format_args!("cannot write {}: {e}", output.display())))?;
        waited?;
        sampled.map_err(Failure::run)?;
        print(&format!(
            "{}: {} of {} kinds of events; mpbond trace report {0} reads it\n",
            output.display(),
            human::bytes(bytes),
            enabled.len()
        ))
    }
}

fn list_events(groups: &[Group]) -> Result<(), Failure> {
    let instance = Instance::new().map_err(lacks)?;
    let mut text = String::new();
    for group in groups {
        for event in group.events {
            let state = if instance.has(event) {
                ""
            } else {
                "  not in this kernel"
            };
            text += &format!("{:<9} {event}{state}\n", group.name);
        }
    }
    print(&text)
}

/// Calendar time for the mark that relates the trace's clock to it.
fn realtime_ms() -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |d| d.as_millis())
}

fn span(text: &str) -> Result<Duration, String> {
    match duration_text::parse(text).map_err(|e| e.to_string())? {
        Duration::ZERO => Err("the duration must not be zero".to_owned()),
        span => Ok(span),
    }
}
