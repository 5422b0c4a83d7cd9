//! Live progress on the standard error stream.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Nothing is shown before a transfer has taken this long.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between redraws on a terminal ...
const REDRAW: Duration = Duration::from_millis(100);
/// ... and between lines in a log.
const LINES: Duration = Duration::from_secs(5);

/// Shows what runs, and how far it is.
pub(crate) struct Progress {
    quiet: bool,
    terminal: bool,
    started: Instant,
    total: usize,
}

/// One transfer's line.
pub(crate) struct Line<'a> {
    progress: &'a Progress,
    label: String,
    bytes: u64,
    started: Instant,
    shown: Instant,
}

impl Progress {
    pub fn new(quiet: bool, total: usize) -> Self {
        Self {
            quiet,
            terminal: std::io::stderr().is_terminal(),
            started: Instant::now(),
            total,
        }
    }

    /// Something is going on that is no transfer.
    pub fn note(&self, text: &str) {
        if !self.quiet && self.terminal {
            eprint!("\r\x1b[K{text}");
            let _ = std::io::stderr().flush();
        }
    }

    /// Something that should stay to be read.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            let clear = if self.terminal { "\r\x1b[K" } else { "" };
            eprintln!("{clear}{text}");
        }
    }

    /// A line for transfer number `number` (from 0), of `bytes`.
    pub fn transfer(&self, number: usize, label: &str, bytes: u64) -> Line<'_> {
        let left = self.time_left(number);
        Line {
            progress: self,
            label: format!("[{}/{}{left}] {label}", number + 1, self.total),
            bytes,
            started: Instant::now(),
            shown: Instant::now(),
        }
    }

    /// From the mean of what is done; nothing before the first is.
    fn time_left(&self, done: usize) -> String {
        if done == 0 {
            return String::new();
        }
        let mean = self.started.elapsed() / u32::try_from(done).unwrap_or(u32::MAX);
        let left = mean * u32::try_from(self.total - done).unwrap_or(u32::MAX);
        match left.as_secs() {
            seconds @ ..120 => format!(", {seconds} s left"),
            seconds => format!(", {} min left", seconds / 60),
        }
    }
}

impl Line<'_> {
    /// `done` bytes have arrived.
    pub fn show(&mut self, done: u64) {
        let every = if self.progress.terminal {
            REDRAW
        } else {
            LINES
        };
        let elapsed = self.started.elapsed();
        if self.progress.quiet || elapsed < PATIENCE || self.shown.elapsed() < every {
            return;
        }
        self.shown = Instant::now();
        let mbps = done as f64 * 8e-6 / elapsed.as_secs_f64();
        let text = format!(
            "{}: {:.1} of {:.1} MiB, {mbps:.1} Mbit/s, {:.1} s",
            self.label,
            mebibytes(done),
            mebibytes(self.bytes),
            elapsed.as_secs_f64()
        );
        if self.progress.terminal {
            self.progress.note(&text);
        } else {
            self.progress.say(&text);
        }
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
