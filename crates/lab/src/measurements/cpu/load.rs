//! Loads whose use of the machine is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use serde::Deserialize;

/// Period of a duty cycle.
const PERIOD: Duration = Duration::from_millis(20);

/// One scheme of a file: a load.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scheme {
    pub(super) name: String,
    /// Computes for this share of one processor's time: a load of known use.
    duty: f64,
}

impl Scheme {
    /// The error in it, if there is one.
    pub(super) fn complaint(&self) -> Option<String> {
        let fits = (0.01..=1.0).contains(&self.duty);
        (!fits).then(|| format!("duty {} is not a share from 0.01 to 1", self.duty))
    }

    /// Starts the load.
    pub(super) fn start(&self) -> Result<Duty, String> {
        Duty::start(self.duty).map_err(|e| e.to_string())
    }
}

/// A thread that uses a share of one processor until it is dropped.
#[derive(Debug)]
pub(super) struct Duty {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Duty {
    fn start(share: f64) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let end = stop.clone();
        let thread = std::thread::Builder::new()
            .name("duty".to_owned())
            .spawn(move || compute(share, &end))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Uses `share` of one processor until `stop`, by this thread's own processor time: a period in
/// which other programs delay it is made up for in the next ones.
fn compute(share: f64, stop: &AtomicBool) {
    let used = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from);
    let start = Instant::now();
    let mut ends = PERIOD;
    while !stop.load(Ordering::Relaxed) {
        let due = ends.mul_f64(share);
        while used().is_ok_and(|used| used < due) && !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        std::thread::sleep(ends.saturating_sub(start.elapsed()));
        ends += PERIOD;
    }
}
