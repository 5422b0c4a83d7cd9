//! Suspending actions of the kernel (Android Wear characterization, section 5.2.1, *Legacy support
//! for device suspending*).

use crate::trace::Trace;
use crate::usage::Run;

/// Step with which the kernel begins to suspend: it precedes the freezing of all tasks.
const BEGINS: &str = "suspend_enter";
/// Step in which the machine sleeps: the trace has no time of it.
const SLEEPS: &str = "machine_suspend";

/// One suspending action, from the request to the sleep of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Suspension {
    /// Duration, ns.
    pub ns: u64,
    /// Part of it in which no CPU ran a task, ns.
    pub idle_ns: u64,
}

/// Suspending actions that reached the machine's sleep; aborted ones are left out. `runs` are
/// sorted by start.
pub(super) fn suspensions(trace: &Trace, runs: &[Run]) -> Vec<Suspension> {
    let mut list = Vec::new();
    let mut from = None;
    for p in trace.power.iter().filter(|p| p.begins) {
        let step = trace.strings.get(p.action);
        if step.starts_with(BEGINS) {
            from = Some(p.ns);
        } else if step.starts_with(SLEEPS)
            && let Some(from) = from.take()
        {
            list.push(Suspension {
                ns: p.ns - from,
                idle_ns: idle(runs, from, p.ns),
            });
        }
    }
    list
}

/// Time between two instants in which no CPU ran a task, ns.
fn idle(runs: &[Run], from: u64, to: u64) -> u64 {
    let (mut idle, mut until) = (0, from);
    for r in runs.iter().filter(|r| r.task != 0) {
        idle += r.start.min(to).saturating_sub(until);
        until = until.max(r.end);
    }
    idle + to.saturating_sub(until)
}
