//! Progress of a simulation, on the standard error stream.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::schedule::pace::in_words;

/// Time before anything is shown.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval of redraws on a terminal.
pub(super) const REDRAW: Duration = Duration::from_millis(250);
/// Interval of lines in a log.
const LINES: Duration = Duration::from_secs(5);

/// Progress of a simulation, on the standard error stream.
pub(crate) struct Progress {
    quiet: bool,
    terminal: bool,
    all: usize,
    done: usize,
    started: Instant,
    shown: Instant,
}

impl Progress {
    pub fn new(quiet: bool, all: usize) -> Self {
        let now = Instant::now();
        Self {
            quiet,
            terminal: std::io::stderr().is_terminal(),
            all,
            done: 0,
            started: now,
            shown: now,
        }
    }

    pub fn add(&mut self, transfers: usize) {
        self.done += transfers;
    }

    fn per_second(&self) -> f64 {
        self.done as f64 / self.started.elapsed().as_secs_f64().max(1e-9)
    }

    pub fn show(&mut self) {
        let every = if self.terminal { REDRAW } else { LINES };
        if self.quiet || self.started.elapsed() < PATIENCE || self.shown.elapsed() < every {
            return;
        }
        self.shown = Instant::now();
        let rate = self.per_second();
        let left = Duration::from_secs_f64((self.all - self.done) as f64 / rate.max(1e-3));
        let text = format!(
            "{} of {} transfers, {rate:.0} a second, {} left",
            self.done,
            self.all,
            in_words(left)
        );
        if self.terminal {
            eprint!("\r\x1b[K{text}");
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{text}");
        }
    }

    /// Prints a last line, where progress was shown.
    pub fn end(&self) {
        if self.quiet || self.started.elapsed() < PATIENCE {
            return;
        }
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        eprintln!(
            "{clear}{} transfers in {:.1} s: {:.0} a second",
            self.done,
            self.started.elapsed().as_secs_f64(),
            self.per_second()
        );
    }
}
