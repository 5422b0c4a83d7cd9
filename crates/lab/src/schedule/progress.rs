//! Live progress of a run, on the standard error stream.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::schedule::pace::{Pace, in_words};

/// Time into a transfer before anything is shown.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval of redraws on a terminal.
const REDRAW: Duration = Duration::from_millis(100);
/// Interval of lines in a log.
const LINES: Duration = Duration::from_secs(5);

/// Display of the running transfer and of the progress of the run.
pub(crate) struct Progress {
    quiet: bool,
    terminal: bool,
    /// End of the last transfer.
    last: Instant,
    pace: Pace,
}

/// Display of one transfer.
pub(crate) struct Line<'a> {
    progress: &'a Progress,
    label: String,
    bytes: u64,
    started: Instant,
    shown: Instant,
}

impl Progress {
    /// A display for a run whose transfers, idle times included, are expected to take `each`.
    pub fn new(quiet: bool, each: Vec<Duration>) -> Self {
        Self {
            quiet,
            terminal: std::io::stderr().is_terminal(),
            last: Instant::now(),
            pace: Pace::new(each),
        }
    }

    /// More transfers follow those that were planned, expected to take `each`.
    pub fn further(&mut self, each: Vec<Duration>) {
        self.pace.further(each);
    }

    /// Transfer `number` (from 0) has a result from an earlier run.
    pub fn skipped(&mut self, number: usize) {
        self.pace.skipped(number);
        self.last = Instant::now();
    }

    /// Transfer `number` (from 0) has ended.
    pub fn done(&mut self, number: usize) {
        self.pace.done(number, self.last.elapsed());
        self.last = Instant::now();
    }

    /// Shows an activity other than a transfer.
    pub fn note(&self, text: &str) {
        if !self.quiet && self.terminal {
            eprint!("\r\x1b[K{text}");
            let _ = std::io::stderr().flush();
        }
    }

    /// Prints a line that stays.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            let clear = if self.terminal { "\r\x1b[K" } else { "" };
            eprintln!("{clear}{text}");
        }
    }

    /// The display of transfer `number` (from 0) of `bytes`; 0 where unknown.
    pub fn transfer(&self, number: usize, label: &str, bytes: u64) -> Line<'_> {
        let left = in_words(self.pace.left());
        Line {
            progress: self,
            label: format!(
                "[{}/{}, {left} left] {label}",
                number + 1,
                self.pace.total()
            ),
            bytes,
            started: Instant::now(),
            shown: Instant::now(),
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
        let of_all = match self.bytes {
            0 => String::new(),
            bytes => format!(" of {:.1}", megabytes(bytes)),
        };
        let text = format!(
            "{}: {:.1}{of_all} MB, {mbps:.1} Mbit/s, {:.1} s",
            self.label,
            megabytes(done),
            elapsed.as_secs_f64()
        );
        if self.progress.terminal {
            self.progress.note(&text);
        } else {
            self.progress.say(&text);
        }
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
