//! CPU busy times and thread-level parallelism.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::clusters::TimeClusters;
use crate::error::Incomplete;
use crate::event::{Payload, Switch, TaskState};
use crate::sink::Sink;

/// Busy state of every CPU over time, in eight bytes per task switch: the input of thread-level
/// parallelism (TLP).
///
/// A CPU is busy while its running pid is not 0. Before its first switch it has the state of the
/// previous pid of that switch.
#[derive(Debug, Clone, Default)]
pub struct CpuActivity {
    cpus: BTreeMap<u32, Cpu>,
    spans: TimeClusters,
}

#[derive(Debug, Clone)]
struct Cpu {
    /// `time << 1 | busy` after each switch.
    states: Vec<u64>,
    /// Time of the earliest switch, and the state before it.
    before: (u64, bool),
    latest: u64,
    last: (u64, u32),
    out_of_order: u64,
    repeats: u64,
    broken: u64,
}

/// Time by number of busy CPUs (Android Wear characterization, section 4, *Thread-level
/// Parallelism*).
#[derive(Debug, Clone, PartialEq)]
pub struct Concurrency {
    /// First switch over all CPUs, ns on the trace clock.
    pub start_ns: u64,
    /// Last switch over all CPUs, ns on the trace clock.
    pub end_ns: u64,
    /// Busy time of each CPU that has switches, ns.
    pub busy_ns: Vec<(u32, u64)>,
    /// `level_ns[i]`: time with exactly `i` CPUs busy, ns.
    pub level_ns: Vec<u64>,
}

impl Concurrency {
    /// Length of the window, ns.
    pub fn span_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// c_i: share of the window with exactly `i` CPUs busy, 0 to 1.
    pub fn share(&self, i: usize) -> f64 {
        ratio(self.level_ns.get(i).copied().unwrap_or(0), self.span_ns())
    }

    /// TLP = Σ i·c_i / (1 − c_0); `None` if no CPU was ever busy.
    pub fn tlp(&self) -> Option<f64> {
        let busy: u64 = self.level_ns.iter().skip(1).sum();
        let weighted: f64 = self
            .level_ns
            .iter()
            .enumerate()
            .map(|(i, ns)| i as f64 * *ns as f64)
            .sum();
        (busy > 0).then(|| weighted / busy as f64)
    }
}

pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

impl CpuActivity {
    /// Adds one `sched_switch` event.
    pub fn switch(&mut self, cpu: u32, t_ns: u64, s: &Switch<'_>) {
        let busy_before = match s.prev_pid {
            Some(pid) => pid != 0,
            // Perfetto's compact form has no previous pid. The idle task never sleeps, and a task
            // that yields to idle was not idle. The remaining case is taken as idle, as most first
            // switches leave idle.
            None => s.prev_state != TaskState::RUNNABLE || s.next_pid == 0,
        };
        self.note(cpu, t_ns, busy_before, s.prev_pid, s.next_pid);
    }

    pub(crate) fn note(
        &mut self,
        cpu: u32,
        t_ns: u64,
        busy_before: bool,
        prev_pid: Option<u32>,
        next_pid: u32,
    ) {
        self.spans.add(t_ns);
        let c = self.cpus.entry(cpu).or_insert_with(|| Cpu {
            states: Vec::new(),
            before: (t_ns, busy_before),
            latest: t_ns,
            last: (u64::MAX, prev_pid.unwrap_or(0)),
            out_of_order: 0,
            repeats: 0,
            broken: 0,
        });
        if t_ns < c.latest {
            c.out_of_order += 1;
            if t_ns < c.before.0 {
                c.before = (t_ns, busy_before);
            }
        } else {
            c.latest = t_ns;
            if c.last == (t_ns, next_pid) && prev_pid != Some(next_pid) {
                c.repeats += 1;
            } else if prev_pid.is_some_and(|p| p != c.last.1) {
                c.broken += 1;
            }
        }
        c.last = (t_ns, next_pid);
        c.states.push(t_ns << 1 | u64::from(next_pid != 0));
    }

    /// Whether there was no switch at all.
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// Number of switches whose previous task differs from the one that was switched in last on
    /// that CPU: events between the two are missing.
    pub fn prev_mismatches(&self) -> u64 {
        self.cpus.values().map(|c| c.broken).sum()
    }

    /// Defects of the switches, for the summary.
    pub fn faults(&self) -> Vec<Incomplete> {
        let mut faults = Vec::new();
        let out_of_order = self.cpus.values().map(|c| c.out_of_order).sum();
        if out_of_order > 0 {
            faults.push(Incomplete::OutOfOrder(out_of_order));
        }
        let repeats = self.cpus.values().map(|c| c.repeats).sum();
        if repeats > 0 {
            faults.push(Incomplete::Duplicate(repeats));
        }
        if let Some(main) = self.spans.main()
            && main.strays > 0
        {
            faults.push(Incomplete::Stray(main.strays));
        }
        faults
    }

    /// Busy times and concurrency of the whole recording; `None` without switches.
    pub fn concurrency(&mut self) -> Option<Concurrency> {
        let window = self.spans.main()?;
        self.concurrency_between(window.first, window.last)
    }

    /// Busy times and concurrency of a part of the recording.
    pub fn concurrency_between(&mut self, start_ns: u64, end_ns: u64) -> Option<Concurrency> {
        if self.cpus.is_empty() || end_ns < start_ns {
            return None;
        }
        for c in self.cpus.values_mut() {
            if c.out_of_order > 0 {
                // A stable sort: switches with the same time stamp keep their order.
                c.states.sort_by_key(|s| s >> 1);
            }
        }
        let mut result = Concurrency {
            start_ns,
            end_ns,
            busy_ns: self.cpus.keys().map(|k| (*k, 0)).collect(),
            level_ns: vec![0; self.cpus.len() + 1],
        };
        let states: Vec<&[u64]> = self.cpus.values().map(|c| c.states.as_slice()).collect();
        let mut busy = vec![false; states.len()];
        let mut next = vec![0usize; states.len()];
        let mut heap = BinaryHeap::with_capacity(states.len());
        let mut level = 0usize;
        for (i, (c, list)) in self.cpus.values().zip(&states).enumerate() {
            let from = list.partition_point(|s| s >> 1 < start_ns);
            let before = match from.checked_sub(1).and_then(|j| list.get(j)) {
                Some(s) => s & 1 == 1,
                None => c.before.1,
            };
            if let (Some(b), Some(n)) = (busy.get_mut(i), next.get_mut(i)) {
                *b = before;
                *n = from;
            }
            level += usize::from(before);
            if let Some(s) = list.get(from) {
                heap.push(Reverse((s >> 1, i)));
            }
        }
        let mut now = start_ns;
        let mut credit = |level: usize, ns: u64| {
            if let Some(l) = result.level_ns.get_mut(level) {
                *l += ns;
            }
        };
        // Time up to which each CPU's busy time is summed up.
        let mut since = vec![start_ns; states.len()];
        while let Some(Reverse((t, i))) = heap.pop() {
            if t > end_ns {
                break;
            }
            credit(level, t - now);
            now = t;
            let (Some(list), Some(n), Some(b)) = (states.get(i), next.get_mut(i), busy.get_mut(i))
            else {
                break;
            };
            let after = list.get(*n).is_some_and(|s| s & 1 == 1);
            if *b != after {
                level = if after { level + 1 } else { level - 1 };
                let sum = result.busy_ns.get_mut(i);
                if let (Some(from), Some((_, total))) = (since.get_mut(i), sum) {
                    *total += if *b { t - *from } else { 0 };
                    *from = t;
                }
                *b = after;
            }
            *n += 1;
            if let Some(s) = list.get(*n) {
                heap.push(Reverse((s >> 1, i)));
            }
        }
        credit(level, end_ns - now);
        for ((b, from), (_, total)) in busy.iter().zip(&since).zip(&mut result.busy_ns) {
            *total += if *b { end_ns - from } else { 0 };
        }
        Some(result)
    }
}

impl Sink for CpuActivity {
    fn event(&mut self, event: &crate::event::Event<'_>) {
        if let Payload::Switch(s) = &event.payload {
            self.switch(event.cpu, event.time.as_nanos(), s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(list: &[(u32, u64, u32, u32)]) -> CpuActivity {
        let mut a = CpuActivity::default();
        for (cpu, t, prev, next) in list {
            a.note(*cpu, *t, *prev != 0, Some(*prev), *next);
        }
        a
    }

    #[test]
    fn tlp_by_hand() {
        // CPU 0 busy 0–60 of 100, CPU 1 busy 40–100: both for 20, none never.
        let c = feed(&[(0, 0, 0, 5), (1, 40, 0, 6), (0, 60, 5, 0), (1, 100, 6, 0)])
            .concurrency()
            .unwrap();
        assert_eq!(c.level_ns, vec![0, 80, 20]);
        assert_eq!(c.busy_ns, vec![(0, 60), (1, 60)]);
        assert!((c.tlp().unwrap() - 1.2).abs() < 1e-12);
    }

    #[test]
    fn out_of_order_switches_are_sorted_and_reported() {
        let sorted = [(0, 0, 0, 5), (0, 10, 5, 0), (0, 30, 0, 7), (0, 50, 7, 0)];
        let mut shuffled = sorted;
        shuffled.swap(0, 2);
        let mut a = feed(&sorted);
        let mut b = feed(&shuffled);
        assert_eq!(a.concurrency(), b.concurrency());
        assert_eq!(a.faults(), vec![]);
        assert_eq!(b.faults(), vec![Incomplete::OutOfOrder(2)]);
        assert_eq!(a.prev_mismatches(), 0);
        assert_eq!(feed(&[(0, 0, 0, 5), (0, 9, 6, 0)]).prev_mismatches(), 1);
    }

    #[test]
    fn a_part_of_the_window_starts_in_the_right_state() {
        let mut a = feed(&[(0, 0, 0, 5), (0, 60, 5, 0), (0, 100, 0, 5)]);
        let c = a.concurrency_between(30, 80).unwrap();
        assert_eq!(c.level_ns, vec![20, 30]);
        assert_eq!(c.busy_ns, vec![(0, 30)]);
        let c = a.concurrency_between(70, 130).unwrap();
        assert_eq!(c.busy_ns, vec![(0, 30)]);
    }

    #[test]
    fn nothing_ran() {
        let c = feed(&[(0, 5, 0, 0)]).concurrency().unwrap();
        assert_eq!(c.tlp(), None);
        assert_eq!(c.span_ns(), 0);
        assert_eq!(CpuActivity::default().concurrency(), None);
    }
}
