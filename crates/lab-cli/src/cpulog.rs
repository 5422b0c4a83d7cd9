//! `mpbond cpulog`: per-core frequency and utilisation, by kind of process.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;
use mpbond_capture::cpu_sampling::{CpuSampler, Parts, Process, parse_process, parse_stat};
use mpbond_capture::{CPU_LOG_HEADER, CpuSummary, cpu_summary};
use mpbond_command::{Failure, note, print};

/// Log the processor's frequency and utilisation, and the shares of network
/// stack, softirqs, driver, logger and others; or show the means of a log.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    mpbond cpulog --output cpu.csv --seconds 60 --transfer curl\n  \
    mpbond cpulog --output cpu.csv --transfer curl -- curl -o /dev/null http://192.0.2.1/\n  \
    mpbond cpulog --summary cpu.csv")]
pub(crate) struct CpulogArgs {
    /// Output file; standard output when not given.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Sampling interval in ms.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    interval_ms: u64,
    /// Duration in s; until interrupted when not given.
    #[arg(long, value_parser = parse_seconds)]
    seconds: Option<Duration>,
    /// Name of a transferring process, whose system time counts as network stack.
    #[arg(long, value_name = "NAME")]
    transfer: Vec<String>,
    /// Prefix of the names of the network driver's kernel threads, besides common ones.
    #[arg(long, value_name = "NAME")]
    driver: Vec<String>,
    /// Name of a logging process, besides tcpdump and this one.
    #[arg(long, value_name = "NAME")]
    logger: Vec<String>,
    /// Show the means of a log instead of writing one. A log that is cut or out of order is
    /// refused.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "output", "interval_ms", "seconds", "transfer", "driver", "logger", "command",
    ])]
    summary: Option<PathBuf>,
    /// With --summary: print JSON.
    #[arg(long, requires = "summary")]
    json: bool,
    /// Log while this command runs. It is killed where it takes longer than --seconds.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Parses a duration in seconds.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|s| (0.0..=1e9).contains(s));
    let seconds = seconds.ok_or_else(|| "a number from 0 to 1e9 is needed".to_owned())?;
    Ok(Duration::from_secs_f64(seconds))
}

/// Runs the command.
///
/// # Errors
/// When `/proc` cannot be read, or a log cannot be written or read.
pub(crate) fn cpulog(arguments: &CpulogArgs) -> Result<ExitCode, Failure> {
    match &arguments.summary {
        Some(path) => summary(path, arguments.json),
        None => record(arguments).map_err(Into::into),
    }
}

/// Prints the means of a log.
fn summary(path: &Path, json: bool) -> Result<ExitCode, Failure> {
    let name = path.display().to_string();
    let from = File::open(path).map_err(|e| Failure::input(format_args!("{name}: {e}")))?;
    let means = cpu_summary(&name, BufReader::new(from)).map_err(Failure::input)?;
    let text = match json {
        true => serde_json::to_string(&means).map_err(Failure::run)? + "\n",
        false => table(&means),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn table(means: &CpuSummary) -> String {
    let mut text = format!("{} samples in {:.3} s\n", means.samples, means.seconds);
    let percent = |share: f64| share * 100.0;
    for core in &means.cores {
        let used = percent(core.utilisation);
        let mhz = core
            .mhz
            .map_or(String::new(), |mhz| format!("  at {mhz:.0} MHz"));
        text += &format!("core {:<10} {used:6.2} %{mhz}\n", core.core);
    }
    text += &format!("{:<15} {:6.2} %\n", "all cores", percent(means.utilisation));
    for share in &means.shares {
        text += &format!(
            "  {:<13} {:6.2} %\n",
            share.name,
            percent(share.utilisation)
        );
    }
    text +=
        "utilisation is of one core; softirq is stack including driver; twice is in two shares\n";
    text
}

fn record(arguments: &CpulogArgs) -> Result<ExitCode> {
    if megahertz(0).is_none() {
        note!(
            "mpbond cpulog: no core frequencies on this system (no cpufreq): the column \
             mhz stays empty, and energy accounts take the highest frequency"
        );
    }
    let name = match &arguments.output {
        Some(path) => path.display().to_string(),
        None => "standard output".to_owned(),
    };
    let to = arguments.output.as_deref().map(open).transpose();
    let to = to.with_context(|| name.clone())?;
    let child = spawn(&arguments.command)?;
    let to: Box<dyn Write> = match to {
        Some(file) => {
            empty(&file).with_context(|| name.clone())?;
            Box::new(file)
        }
        None => Box::new(io::stdout()),
    };
    let written = log(arguments, child, &name, BufWriter::new(to));
    match written {
        // The reader closed the pipe.
        Err(e) if is_broken_pipe(&e) => Ok(ExitCode::SUCCESS),
        other => other,
    }
}

/// Opens a log for writing. What is in it stays until it is known that the command can start.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false).open(path)
}

/// Removes what is in a file; devices and pipes have nothing to remove.
fn empty(file: &File) -> io::Result<()> {
    match file.metadata()?.is_file() {
        true => file.set_len(0),
        false => Ok(()),
    }
}

/// A command that is logged; it ends with its log.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(command: &[String]) -> Result<Option<Running>> {
    let [program, arguments @ ..] = command else {
        return Ok(None);
    };
    let child = Command::new(program)
        .args(arguments)
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    Ok(Some(Running(child)))
}

fn is_broken_pipe(e: &anyhow::Error) -> bool {
    e.downcast_ref::<io::Error>()
        .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

fn log(
    arguments: &CpulogArgs,
    mut child: Option<Running>,
    name: &str,
    mut to: impl Write,
) -> Result<ExitCode> {
    let mut driver = Parts::common_drivers();
    driver.extend(arguments.driver.iter().cloned());
    let mut logger = vec!["tcpdump".to_owned()];
    logger.extend(arguments.logger.iter().cloned());
    let mut sampler = CpuSampler::new(Parts {
        transfer: arguments.transfer.clone(),
        driver,
        logger,
        own_pid: std::process::id(),
    });
    writeln!(to, "{CPU_LOG_HEADER}").with_context(|| name.to_owned())?;
    let (mut text, mut stat, mut lines) = (String::new(), String::new(), String::new());
    let mut processes = Vec::new();
    let interval = Duration::from_millis(arguments.interval_ms);
    let start = Instant::now();
    let mut due = start;
    loop {
        if !read("/proc/stat", &mut stat) {
            bail!("/proc/stat cannot be read");
        }
        read_processes(&mut text, &mut processes).context("/proc")?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        lines.clear();
        sampler.sample(
            now.as_secs_f64(),
            &parse_stat(&stat),
            megahertz,
            &processes,
            &mut lines,
        );
        let written = to.write_all(lines.as_bytes()).and_then(|()| to.flush());
        written.with_context(|| name.to_owned())?;
        if let Some(Running(child)) = &mut child
            && let Some(status) = child.try_wait()?
        {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(ExitCode::from(code.unwrap_or(1)));
        }
        if (arguments.seconds).is_some_and(|seconds| start.elapsed() >= seconds) {
            return Ok(ExitCode::SUCCESS);
        }
        due = next(due, interval, Instant::now());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// The next instant that is not past, of those at multiples of `interval` after `due`. Instants
/// that were missed, while the process was stopped or had no processor time, are left out: several
/// samples at one time say nothing.
fn next(due: Instant, interval: Duration, now: Instant) -> Instant {
    let missed = now.saturating_duration_since(due).as_nanos() / interval.as_nanos();
    let intervals = u32::try_from(missed).unwrap_or(u32::MAX).saturating_add(1);
    due + interval.saturating_mul(intervals)
}

fn read(path: &str, into: &mut String) -> bool {
    into.clear();
    File::open(path).is_ok_and(|mut file| file.read_to_string(into).is_ok())
}

/// Current processes; one that ends meanwhile is left out.
fn read_processes(text: &mut String, found: &mut Vec<Process>) -> io::Result<()> {
    found.clear();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().filter(|name| name.parse::<u32>().is_ok()) else {
            continue;
        };
        if read(&format!("/proc/{pid}/stat"), text) {
            found.extend(parse_process(text));
        }
    }
    Ok(())
}

fn megahertz(core: u16) -> Option<f64> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq");
    let khz: f64 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    Some(khz / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_that_were_missed_are_left_out() {
        let ms = Duration::from_millis;
        let due = Instant::now();
        for (late, after) in [(0, 500), (499, 500), (500, 1_000), (7_200_250, 7_200_500)] {
            assert_eq!(
                next(due, ms(500), due + ms(late)),
                due + ms(after),
                "{late}"
            );
        }
    }
}
