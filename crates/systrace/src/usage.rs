//! CPU time by task, process, class and frequency; TLP of processes.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::activity::{Concurrency, CpuActivity, ratio};
use crate::event::TaskState;
use crate::tasks::{ClassRules, TaskClass};
use crate::trace::Trace;

/// An uninterrupted execution of one task on one CPU (Perfetto: sched slice).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Start, ns.
    pub start: u64,
    /// End, ns.
    pub end: u64,
    /// CPU.
    pub cpu: u32,
    /// Task id; 0 is the idle task.
    pub task: u32,
    /// State of the task at the end.
    pub state: TaskState,
}

/// CPU time by class, process, task and frequency (Android Wear characterization, section 4,
/// *Task-level breakdown*; Figure 3).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuUsage {
    /// Window, s: first to last switch.
    pub span_s: f64,
    /// CPU time capacity, s: window times number of CPUs.
    pub capacity_s: f64,
    /// Busy share of the capacity, percent.
    pub busy_percent: f64,
    /// CPU time by class, largest first.
    pub classes: Vec<Usage>,
    /// CPU time by process, largest first.
    pub processes: Vec<Usage>,
    /// CPU time by task, largest first.
    pub tasks: Vec<Usage>,
    /// Time by CPU and frequency; empty if the trace has no frequencies.
    pub frequencies: Vec<FrequencyUsage>,
}

/// CPU time of a task, process or class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Usage {
    /// Task or process id; 0 for a class.
    pub id: u32,
    /// Name of the task, process or class.
    pub name: String,
    /// Class of the task or process.
    pub class: TaskClass,
    /// CPU time, s.
    pub busy_s: f64,
    /// Share of all busy time, percent.
    pub percent_of_busy: f64,
    /// Number of runs.
    pub runs: u64,
}

/// Time of one CPU at one frequency.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrequencyUsage {
    /// CPU number.
    pub cpu: u32,
    /// Frequency, kHz; 0 before the first frequency change in the trace.
    pub khz: u32,
    /// Busy time at this frequency, s.
    pub busy_s: f64,
    /// Idle time at this frequency, s.
    pub idle_s: f64,
}

/// Thread-level parallelism of one process (Android Wear characterization, Figure 5(b) and (c)).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessParallelism {
    /// Process id.
    pub process: u32,
    /// Name of the process.
    pub name: String,
    /// Mean number of its running threads while any of them runs.
    pub tlp: f64,
    /// Time in which any of its threads ran, s.
    pub active_s: f64,
    /// c_1, c_2, …: share of that time with exactly 1, 2, … of its threads running, percent.
    pub share_percent: Vec<f64>,
}

impl Trace {
    /// Time of the first and the last switch, ns.
    pub fn window(&self) -> Option<(u64, u64)> {
        Some((self.switches.first()?.ns, self.switches.last()?.ns))
    }

    /// Runs of all CPUs by start time, the idle task's and those before each CPU's first switch
    /// included.
    pub fn runs(&self) -> Vec<Run> {
        let Some((start, end)) = self.window() else {
            return Vec::new();
        };
        let mut current: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
        let mut runs = Vec::with_capacity(self.switches.len() + 64);
        for s in &self.switches {
            let (from, task) = match current.insert(s.cpu, (s.ns, s.next)) {
                Some(open) => open,
                None => (start, s.prev_task()),
            };
            if s.ns > from {
                runs.push(Run {
                    start: from,
                    end: s.ns,
                    cpu: s.cpu,
                    task,
                    state: s.state,
                });
            }
        }
        for (cpu, (from, task)) in current {
            if end > from {
                runs.push(Run {
                    start: from,
                    end,
                    cpu,
                    task,
                    state: TaskState::UNKNOWN,
                });
            }
        }
        runs.sort_by_key(|r| (r.start, r.cpu));
        runs
    }

    /// Busy times and concurrency of the whole window.
    pub fn concurrency(&self) -> Option<Concurrency> {
        self.activity().concurrency()
    }

    /// Busy state of every CPU over time.
    pub fn activity(&self) -> CpuActivity {
        let mut a = CpuActivity::default();
        for s in &self.switches {
            a.note(s.cpu, s.ns, s.prev_task() != 0, s.prev, s.next);
        }
        a
    }

    /// Thread-level parallelism in windows of `width_ns`: start time (ns) and TLP of each window in
    /// which any CPU was busy.
    pub fn sliding_tlp(&self, width_ns: u64) -> Vec<(u64, f64)> {
        let Some((start, end)) = self.window() else {
            return Vec::new();
        };
        // Limits the number of windows: more points than this do not fit a chart, and windows of a
        // few nanoseconds would take too long.
        let width = width_ns.max((end - start) / 20_000).max(1);
        let mut activity = self.activity();
        let mut list = Vec::new();
        let mut from = start;
        while from < end {
            let to = from.saturating_add(width).min(end);
            if let Some(tlp) = activity.concurrency_between(from, to).and_then(|c| c.tlp()) {
                list.push((from, tlp));
            }
            from = to;
        }
        list
    }
}

impl CpuUsage {
    /// Sums up CPU times; `None` without switches.
    pub fn of(trace: &Trace, runs: &[Run], rules: &ClassRules) -> Option<Self> {
        let (start, end) = trace.window()?;
        let mut tasks: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
        let mut cpus: Vec<u32> = trace.switches.iter().map(|s| s.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        // Times come from the file: sums over several CPUs may not fit.
        for r in runs.iter().filter(|r| r.task != 0) {
            let t = tasks.entry(r.task).or_default();
            t.0 = t.0.saturating_add(r.end - r.start);
            t.1 += 1;
        }
        let busy = tasks.values().fold(0u64, |sum, t| sum.saturating_add(t.0));
        let mut processes: FxHashMap<u32, (u64, u64, TaskClass)> = FxHashMap::default();
        let mut classes: BTreeMap<TaskClass, (u64, u64)> = BTreeMap::new();
        let row = |id, name, class, ns: u64, runs| Usage {
            id,
            name,
            class,
            busy_s: ns as f64 / 1e9,
            percent_of_busy: 100.0 * ratio(ns, busy),
            runs,
        };
        let mut task_rows = Vec::new();
        for (tid, (ns, n)) in &tasks {
            let class = trace.tasks.class(*tid, rules);
            task_rows.push(row(*tid, trace.tasks.name(*tid), class, *ns, *n));
            let pid = trace.tasks.process(*tid);
            let p = processes.entry(pid).or_insert((0, 0, class));
            p.0 = p.0.saturating_add(*ns);
            p.1 += n;
            let c = classes.entry(class).or_default();
            c.0 = c.0.saturating_add(*ns);
            c.1 += n;
        }
        let process_rows = processes
            .into_iter()
            .map(|(pid, (ns, n, class))| row(pid, trace.tasks.process_name(pid), class, ns, n));
        let class_rows = classes.into_iter().map(|(class, (ns, n))| {
            let name = match class {
                TaskClass::Kernel => "kernel",
                TaskClass::Daemon => "daemons",
                TaskClass::App => "apps",
                TaskClass::Unknown => "unknown",
            };
            row(0, name.into(), class, ns, n)
        });
        let capacity = (end - start).saturating_mul(cpus.len() as u64);
        Some(Self {
            span_s: (end - start) as f64 / 1e9,
            capacity_s: capacity as f64 / 1e9,
            busy_percent: 100.0 * ratio(busy, capacity),
            classes: sorted(class_rows.collect()),
            processes: sorted(process_rows.collect()),
            tasks: sorted(task_rows),
            frequencies: by_frequency(trace, runs),
        })
    }
}

fn sorted(mut rows: Vec<Usage>) -> Vec<Usage> {
    rows.sort_by(|a, b| b.busy_s.total_cmp(&a.busy_s).then(a.id.cmp(&b.id)));
    rows
}

fn by_frequency(trace: &Trace, runs: &[Run]) -> Vec<FrequencyUsage> {
    if trace.frequencies.is_empty() {
        return Vec::new();
    }
    let mut changes: BTreeMap<u32, Vec<(u64, u32)>> = BTreeMap::new();
    for f in &trace.frequencies {
        changes.entry(f.cpu).or_default().push((f.ns, f.khz));
    }
    let mut sums: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for r in runs {
        let Some(list) = changes.get(&r.cpu) else {
            continue;
        };
        let mut at = list.partition_point(|c| c.0 <= r.start);
        let mut from = r.start;
        while from < r.end {
            let khz = at
                .checked_sub(1)
                .and_then(|i| list.get(i))
                .map_or(0, |c| c.1);
            let to = list.get(at).map_or(r.end, |c| c.0.min(r.end));
            let sum = sums.entry((r.cpu, khz)).or_default();
            if r.task == 0 {
                sum.1 += to - from;
            } else {
                sum.0 += to - from;
            }
            from = to;
            at += 1;
        }
    }
    sums.into_iter()
        .map(|((cpu, khz), (busy, idle))| FrequencyUsage {
            cpu,
            khz,
            busy_s: busy as f64 / 1e9,
            idle_s: idle as f64 / 1e9,
        })
        .collect()
}

impl ProcessParallelism {
    /// Parallelism of every process that ran, most active time first.
    pub fn of(trace: &Trace, runs: &[Run]) -> Vec<Self> {
        let mut edges: FxHashMap<u32, Vec<(u64, i32)>> = FxHashMap::default();
        for r in runs.iter().filter(|r| r.task != 0) {
            let list = edges.entry(trace.tasks.process(r.task)).or_default();
            list.push((r.start, 1));
            list.push((r.end, -1));
        }
        let mut rows: Vec<Self> = edges
            .into_iter()
            .map(|(process, mut list)| {
                // Ends sort before starts, so that a direct hand-over does not count as overlap.
                list.sort_unstable();
                let mut levels: Vec<u64> = Vec::new();
                let (mut level, mut from) = (0i32, 0u64);
                for (t, step) in list {
                    let i = usize::try_from(level).unwrap_or(0);
                    if i > 0 {
                        levels.resize(levels.len().max(i), 0);
                        if let Some(l) = levels.get_mut(i - 1) {
                            *l += t - from;
                        }
                    }
                    level += step;
                    from = t;
                }
                let active: u64 = levels.iter().sum();
                let weighted: f64 = (1..)
                    .zip(&levels)
                    .map(|(i, ns)| f64::from(i) * *ns as f64)
                    .sum();
                Self {
                    process,
                    name: trace.tasks.process_name(process),
                    tlp: if active == 0 {
                        0.0
                    } else {
                        weighted / active as f64
                    },
                    active_s: active as f64 / 1e9,
                    share_percent: levels.iter().map(|l| 100.0 * ratio(*l, active)).collect(),
                }
            })
            .collect();
        rows.sort_by(|a, b| {
            b.active_s
                .total_cmp(&a.active_s)
                .then(a.process.cmp(&b.process))
        });
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::SwitchRecord;

    #[test]
    fn sums_of_excessive_times_are_bounded() {
        const LATEST: u64 = 1 << 62;
        let switch = |ns, cpu, prev, next| SwitchRecord {
            ns,
            cpu,
            prev: Some(prev),
            next,
            state: TaskState::SLEEPING,
        };
        let mut trace = Trace::default();
        // Tasks 1 to 8 run on CPUs 1 to 8 from first to last.
        let starts = (1..=8).map(|i| switch(0, i, 0, i));
        trace.switches.extend(starts);
        let ends = (1..=8).map(|i| switch(LATEST, i, i, 0));
        trace.switches.extend(ends);
        let usage = CpuUsage::of(&trace, &trace.runs(), &ClassRules::shipped()).unwrap();
        assert_eq!(usage.capacity_s, u64::MAX as f64 / 1e9);
        assert_eq!(usage.busy_percent, 100.0);
        assert_eq!(usage.tasks.len(), 8);
    }
}
