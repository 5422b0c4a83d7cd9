//! Processor time of the whole machine over a run, and what of it is not the run's.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::processes;
use super::soaker::Soaker;

/// Counters at one instant; all of them only grow.
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
        let share =
            |of: fn(&Counters) -> Duration| of(to).saturating_sub(of(from)).as_secs_f64() / seconds;
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

    /// Use that is not the run's.
    pub(crate) fn foreign(&self) -> f64 {
        self.steal + self.others
    }
}

/// Two runs in one repetition.
#[cfg(feature = "measurements")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) of: Use,
    pub(crate) with: Use,
}

#[cfg(feature = "measurements")]
impl Pair {
    /// The share that `of` saves, 1 − CPU₁/CPU₂. At one clock frequency it is also the share of
    /// the processor's energy ("Trimming the Smartphone Network Stack", section 4.1). `idle` is the
    /// use of the machine without traffic.
    pub(crate) fn saving(&self, idle: f64) -> Option<f64> {
        let (of, with) = (self.of.own() - idle, self.with.own() - idle);
        (with > 0.0).then(|| 1.0 - of / with)
    }

    /// Use that `of` saves, in processors.
    pub(crate) fn saved(&self) -> f64 {
        self.with.own() - self.of.own()
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
    fn savings_are_shares_of_the_second_run() {
        let run = |all: f64, steal: f64, others: f64| Use {
            seconds: 20.0,
            all,
            steal,
            others,
        };
        let [of, with] = [run(0.40, 0.05, 0.05), run(0.60, 0.06, 0.04)];
        let even = Pair { of, with };
        assert!(near(even.saved(), 0.2));
        assert!(near(even.saving(0.0).unwrap(), 0.4));
        // An idle machine uses 0.1 for its ticks.
        assert!(near(even.saving(0.1).unwrap(), 0.5));
        assert!(even.saving(0.5).is_none());
    }
}
