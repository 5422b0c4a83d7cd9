//! Reading of trace files, with progress.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use mpbond_command::{Failure, note};
use mpbond_systrace::{Report, ReportOptions, TraceError};

use mpbond_units::human;

/// Time before the first progress line.
const PATIENCE: Duration = Duration::from_secs(1);

/// Interval between progress lines.
const STEP: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(crate) struct InputArgs {
    /// The trace; "-" is standard input.
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// Print no progress.
    #[arg(long, short)]
    pub(super) quiet: bool,
}

impl InputArgs {
    /// The full report of the trace.
    pub(crate) fn report(&self, options: &ReportOptions) -> Result<Report, Failure> {
        let input = open(&self.file, self.quiet)?;
        let report = Report::of(input, options).map_err(|e| bad(&self.file, &e))?;
        self.warn(report.summary.incomplete.as_deref());
        Ok(report)
    }

    /// Warns that a trace is incomplete.
    pub(crate) fn warn(&self, incomplete: Option<&str>) {
        warn(&self.file, incomplete);
    }

    /// Error: the trace lacks the requested data.
    pub(crate) fn lacks(&self, what: &str) -> Failure {
        Failure::input(format_args!("{}: {what}", self.file.display()))
    }
}

/// Warns that a trace is incomplete.
pub(crate) fn warn(file: &Path, incomplete: Option<&str>) {
    if let Some(why) = incomplete {
        note!("mpbond trace: {}: not whole: {why}", file.display());
    }
}

/// Error with file, place and reason in one line.
pub(crate) fn bad(file: &Path, e: &TraceError) -> Failure {
    Failure::input(format_args!("{}: {e}", file.display()))
}

/// Opens a trace; on a terminal, slow reading shows progress.
pub(crate) fn open(file: &Path, quiet: bool) -> Result<Box<dyn Read>, Failure> {
    let (inner, length): (Box<dyn Read>, _) = if file == Path::new("-") {
        (Box::new(io::stdin().lock()), None)
    } else {
        let cannot = |e: io::Error| Failure::input(format_args!("{}: {e}", file.display()));
        let opened = File::open(file).map_err(cannot)?;
        let facts = opened.metadata().map_err(cannot)?;
        if facts.is_dir() {
            return Err(Failure::input(format_args!(
                "{}: a folder, not a trace",
                file.display()
            )));
        }
        let length = facts.is_file().then_some(facts.len());
        (Box::new(opened), length)
    };
    if quiet || !io::stderr().is_terminal() {
        return Ok(inner);
    }
    Ok(Box::new(Progress {
        inner,
        name: file.display().to_string(),
        length,
        done: 0,
        began: Instant::now(),
        next: PATIENCE,
        shown: false,
    }))
}

struct Progress {
    inner: Box<dyn Read>,
    name: String,
    length: Option<u64>,
    done: u64,
    began: Instant,
    /// Time of the next progress line, since the start.
    next: Duration,
    shown: bool,
}

impl Read for Progress {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        self.done += n as u64;
        let since = self.began.elapsed();
        if since >= self.next {
            self.next = since + STEP;
            self.shown = true;
            let text = progress_text(&self.name, self.done, self.length);
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
        }
        if n == 0 {
            self.wipe();
        }
        Ok(n)
    }
}

impl Progress {
    fn wipe(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.wipe();
    }
}

fn progress_text(name: &str, done: u64, length: Option<u64>) -> String {
    let read = human::bytes(done);
    match length {
        Some(all) if all > 0 => {
            let percent = (100 * u128::from(done) / u128::from(all)).min(100);
            format!("{name}: {percent} % of {} read", human::bytes(all))
        }
        _ => format!("{name}: {read} read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_printed_and_erased() {
        assert_eq!(
            progress_text("a.dat", 1_000_000, Some(4_000_000)),
            "a.dat: 25 % of 4.00 MB read"
        );
        assert_eq!(progress_text("-", 1_000_000, None), "-: 1.00 MB read");
        // A file that grows while it is read.
        assert_eq!(
            progress_text("a", 5_000_000, Some(4_000_000)),
            "a: 100 % of 4.00 MB read"
        );
        let mut p = Progress {
            inner: Box::new(&b"abc"[..]),
            name: "x".into(),
            length: Some(3),
            done: 0,
            began: Instant::now(),
            next: Duration::ZERO,
            shown: false,
        };
        let mut out = [0; 2];
        assert_eq!(p.read(&mut out).unwrap(), 2);
        assert!(p.shown && p.done == 2 && p.next >= STEP);
        p.wipe();
        assert!(!p.shown);
    }
}
