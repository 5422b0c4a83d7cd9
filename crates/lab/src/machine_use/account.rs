//! Processor time of the whole machine over a run, and what of it is not the run's.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::processes;
use super::soaker::Soaker;

/// Counters at one instant. Those of steal and of other processes may go back ([`Use::went_back`]).
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// Since any instant that is the same for both ends of a run.
    at: Duration,
    /// Of all processors together, as the next two.
    idle: Duration,
    steal: Duration,
    others: Duration,
}

impl Counters {
    /// The counters of this machine now. A kernel without counters of steal reports none.
    pub(crate) fn read(soaker: &Soaker, since: Instant) -> Self {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let all = processes::all();
        Self {
            steal: processes::steal(&stat).unwrap_or_default(),
            others: processes::others(&all, std::process::id()),
            // Last and at once, since these two are compared with each other.
            idle: soaker.idle(),
            at: since.elapsed(),
        }
    }
}

/// Use of the machine over a run, in processors: 0.5 is half of one processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// Duration of the run.
    pub seconds: f64,
    /// Everything but idle time: softirqs, interrupts and steal included.
    pub all: f64,
    /// Time that the hypervisor gave to others.
    pub steal: f64,
    /// Processes that have no part in the run.
    pub others: f64,
}

impl Use {
    /// Use of `processors` between two readings; `None` when no time has passed between them.
    pub(crate) fn between(processors: usize, from: &Counters, to: &Counters) -> Option<Self> {
        let seconds = to.at.checked_sub(from.at)?.as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        let share = |of: fn(&Counters) -> Duration| grown(of(from), of(to)) / seconds;
        Some(Self {
            seconds,
            all: processors as f64 - share(|c| c.idle),
            steal: share(|c| c.steal),
            others: share(|c| c.others),
        })
    }

    /// Use by the run: all but steal and other processes.
    pub(crate) fn own(&self) -> f64 {
        self.all - self.steal - self.others
    }

    /// Whether a counter went back, so that the use that is not the run's is not known: that of a
    /// process that ended between two readings and was not waited for, or while one was taken.
    pub(crate) fn went_back(&self) -> bool {
        self.steal < 0.0 || self.others < 0.0
    }

    /// Use that is not the run's.
    pub(crate) fn foreign(&self) -> f64 {
        self.steal + self.others
    }
}

/// Growth of a counter in seconds, negative where it went back.
fn grown(from: Duration, to: Duration) -> f64 {
    match to.checked_sub(from) {
        Some(grown) => grown.as_secs_f64(),
        None => -from.saturating_sub(to).as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(at_ms: u64, idle_ms: u64, steal_ms: u64, others_ms: u64) -> Counters {
        let [at, idle, steal, others] =
            [at_ms, idle_ms, steal_ms, others_ms].map(Duration::from_millis);
        Counters {
            at,
            idle,
            steal,
            others,
        }
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn a_quarter_of_one_of_two_processors() {
        // 20 s on two processors: 5 s of a program, 0.4 s stolen, 0.6 s of other processes.
        let from = counters(1_000, 500, 70, 9_000);
        let to = counters(21_000, 500 + 34_000, 70 + 400, 9_600);
        let used = Use::between(2, &from, &to).unwrap();
        assert!(near(used.all, 0.3) && near(used.steal, 0.02) && near(used.others, 0.03));
        assert!(near(used.own(), 0.25) && near(used.foreign(), 0.05));
        assert!(Use::between(2, &to, &from).is_none());
        assert!(Use::between(2, &to, &to).is_none());
    }

    #[test]
    fn a_counter_that_went_back_is_told() {
        let from = counters(1_000, 500, 70, 9_000);
        let used = |steal_ms, others_ms| {
            Use::between(2, &from, &counters(21_000, 34_500, steal_ms, others_ms)).unwrap()
        };
        // A process with 1 s is gone.
        let gone = used(70, 8_000);
        assert!(gone.went_back() && near(gone.others, -0.05), "{gone:?}");
        assert!(used(60, 9_000).went_back());
        assert!(!used(70, 9_000).went_back());
    }
}
