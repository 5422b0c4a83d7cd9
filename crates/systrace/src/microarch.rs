//! Hardware event counts and the ratios derived from them.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::event::{Sample, ThreadInfo};
use crate::sink::Sink;

/// Hardware event counts by process and by thread, from profiler samples (Android Wear
/// characterization, section 4, *Microarchitectural behaviors*).
///
/// Each sample stands for `period` events. Samples without a period (some `perf script` output)
/// cannot be weighted: they are counted as unweighted and the ratios stay empty.
#[derive(Debug, Default)]
pub struct Microarch {
    tasks: FxHashMap<u32, Task>,
    unweighted: u64,
}

#[derive(Debug, Default)]
struct Task {
    comm: String,
    process: Option<u32>,
    counts: BTreeMap<String, u64>,
}

/// Counts and ratios of one process or thread (Android Wear characterization, Figure 6).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MicroarchRow {
    /// Process or thread id.
    pub id: u32,
    /// Name of the process or thread.
    pub name: String,
    /// Event counts by event name.
    pub counts: BTreeMap<String, u64>,
    /// Cycles per instruction.
    pub cpi: Option<f64>,
    /// L1 instruction cache misses per thousand instructions.
    pub l1i_mpki: Option<f64>,
    /// L1 data cache misses per thousand instructions.
    pub l1d_mpki: Option<f64>,
    /// L2 (or last-level) cache misses per thousand instructions.
    pub l2_mpki: Option<f64>,
    /// L2 (or last-level) cache misses by references, percent.
    pub l2_miss_percent: Option<f64>,
    /// Instruction TLB misses per thousand instructions.
    pub itlb_mpki: Option<f64>,
    /// Data TLB misses per thousand instructions.
    pub dtlb_mpki: Option<f64>,
    /// Mispredicted branches by all branches, percent.
    pub branch_miss_percent: Option<f64>,
}

/// Names of the same event in different profilers: perf's generic names, simpleperf's names, and
/// raw event numbers of the Arm architecture (ARMv7 and ARMv8 PMU common events), which older
/// devices need.
///
/// The two events of a ratio are those of one cache level and of one sampling: the quotient of
/// other counts means nothing. On Arm, `instructions` and `raw-inst-retired` are the same event.
type Pairs = &'static [(&'static str, &'static str)];
const CPI: Pairs = &[
    ("cycles", "instructions"),
    ("cpu-cycles", "instructions"),
    ("raw-cpu-cycles", "raw-inst-retired"),
    ("r11", "r8"),
];
const L1I: Pairs = &[
    ("L1-icache-load-misses", "instructions"),
    ("raw-l1-icache-refill", "raw-inst-retired"),
    ("raw-l1-icache-refill", "instructions"),
    ("r1", "r8"),
];
const L1D: Pairs = &[
    ("L1-dcache-load-misses", "instructions"),
    ("raw-l1-dcache-refill", "raw-inst-retired"),
    ("raw-l1-dcache-refill", "instructions"),
    ("r3", "r8"),
];
const L2: Pairs = &[
    ("LLC-load-misses", "instructions"),
    ("cache-misses", "instructions"),
    ("raw-l2-dcache-refill", "raw-inst-retired"),
    ("raw-l2-dcache-refill", "instructions"),
    ("r17", "r8"),
];
const L2_SHARE: Pairs = &[
    ("LLC-load-misses", "LLC-loads"),
    ("cache-misses", "cache-references"),
    ("raw-l2-dcache-refill", "raw-l2-dcache"),
    ("r17", "r16"),
];
const ITLB: Pairs = &[
    ("iTLB-load-misses", "instructions"),
    ("raw-itlb-refill", "raw-inst-retired"),
    ("raw-itlb-refill", "instructions"),
    ("r2", "r8"),
];
const DTLB: Pairs = &[
    ("dTLB-load-misses", "instructions"),
    ("raw-dtlb-refill", "raw-inst-retired"),
    ("raw-dtlb-refill", "instructions"),
    ("r5", "r8"),
];
const BRANCH: Pairs = &[
    ("branch-misses", "branches"),
    ("branch-misses", "branch-instructions"),
    ("raw-br-mis-pred", "raw-br-pred"),
    ("r10", "r12"),
];

impl Microarch {
    /// Number of samples without a period.
    pub fn unweighted(&self) -> u64 {
        self.unweighted
    }

    /// Rows by thread, most cycles first.
    pub fn by_task(&self) -> Vec<MicroarchRow> {
        let rows = self.tasks.iter().filter(|(_, t)| !t.counts.is_empty());
        sorted(rows.map(|(tid, t)| row(*tid, &t.comm, t.counts.clone())))
    }

    /// Rows by process, most cycles first. A thread whose process is unknown has a row of its own.
    pub fn by_process(&self) -> Vec<MicroarchRow> {
        let mut sums: BTreeMap<u32, BTreeMap<String, u64>> = BTreeMap::new();
        for (tid, task) in &self.tasks {
            let sum = sums.entry(task.process.unwrap_or(*tid)).or_default();
            for (event, n) in &task.counts {
                let all = sum.entry(event.clone()).or_default();
                *all = all.saturating_add(*n);
            }
        }
        sorted(
            sums.into_iter()
                .filter(|(_, counts)| !counts.is_empty())
                .map(|(id, counts)| {
                    let name = self.tasks.get(&id).map_or("", |t| &t.comm);
                    row(id, name, counts)
                }),
        )
    }

    fn add(&mut self, s: &Sample<'_>) {
        let task = self.tasks.entry(s.tid).or_default();
        if !s.comm.is_empty() {
            task.comm = String::from_utf8_lossy(s.comm).into_owned();
        }
        task.process = s.process.or(task.process);
        let Some(period) = s.period else {
            self.unweighted += 1;
            return;
        };
        let event = without_modifiers(s.event);
        match task.counts.get_mut(event) {
            Some(n) => *n = n.saturating_add(period),
            None => {
                task.counts.insert(event.to_owned(), period);
            }
        }
    }
}

/// Strips event modifiers: `cycles:ppp` is `cycles`, `instructions:u` is `instructions`.
fn without_modifiers(event: &str) -> &str {
    match event.rsplit_once(':') {
        Some((name, m)) if !m.is_empty() && m.bytes().all(|b| b"ukhGHpPSDIWe".contains(&b)) => name,
        _ => event,
    }
}

fn sorted(rows: impl Iterator<Item = MicroarchRow>) -> Vec<MicroarchRow> {
    let mut rows: Vec<_> = rows.collect();
    let weight = |r: &MicroarchRow| r.counts.values().max().copied().unwrap_or(0);
    rows.sort_by_key(|r| (std::cmp::Reverse(weight(r)), r.id));
    rows
}

fn row(id: u32, name: &str, counts: BTreeMap<String, u64>) -> MicroarchRow {
    let per = |pairs: Pairs, scale: f64| {
        pairs.iter().find_map(|(part, whole)| {
            let whole = counts.get(*whole).filter(|w| **w > 0)?;
            Some(scale * *counts.get(*part)? as f64 / *whole as f64)
        })
    };
    MicroarchRow {
        id,
        name: name.to_owned(),
        cpi: per(CPI, 1.0),
        l1i_mpki: per(L1I, 1e3),
        l1d_mpki: per(L1D, 1e3),
        l2_mpki: per(L2, 1e3),
        l2_miss_percent: per(L2_SHARE, 100.0),
        itlb_mpki: per(ITLB, 1e3),
        dtlb_mpki: per(DTLB, 1e3),
        branch_miss_percent: per(BRANCH, 100.0),
        counts,
    }
}

impl Sink for Microarch {
    fn sample(&mut self, sample: &Sample<'_>) {
        self.add(sample);
    }

    fn counter(&mut self, counter: &Sample<'_>) {
        self.add(counter);
    }

    fn thread(&mut self, info: ThreadInfo<'_>) {
        let task = self.tasks.entry(info.tid).or_default();
        task.process = info.process.or(task.process);
        if !info.name.is_empty() {
            task.comm = String::from_utf8_lossy(info.name).into_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios() {
        let mut m = Microarch::default();
        for (tid, event, period) in [
            (11, "cycles:ppp", 3_000),
            (11, "instructions:u", 1_000),
            (12, "cycles", 1_000),
            (12, "instructions", 1_000),
            (12, "L1-icache-load-misses", 30),
            (12, "branches", 200),
            (12, "branch-misses", 20),
        ] {
            m.sample(&Sample {
                time: None,
                cpu: None,
                process: Some(11),
                tid,
                comm: b"system_server",
                event,
                period: Some(period),
                frames: &[],
            });
        }
        let tasks = m.by_task();
        assert_eq!(tasks[0].cpi, Some(3.0));
        assert_eq!(tasks[1].branch_miss_percent, Some(10.0));
        let process = &m.by_process()[0];
        assert_eq!((process.id, process.cpi), (11, Some(2.0)));
        assert_eq!(process.l1i_mpki, Some(15.0));
        assert_eq!(process.dtlb_mpki, None);
    }

    #[test]
    fn excessive_periods_of_two_threads_of_a_process() {
        let mut m = Microarch::default();
        for tid in [11, 12] {
            m.sample(&Sample {
                time: None,
                cpu: None,
                process: Some(11),
                tid,
                comm: b"a",
                event: "cycles",
                period: Some(u64::MAX),
                frames: &[],
            });
        }
        assert_eq!(m.by_process()[0].counts["cycles"], u64::MAX);
    }

    /// A ratio of last-level load misses by all cache references is that of no cache.
    #[test]
    fn both_events_of_a_ratio_are_a_pair() {
        let ratios = |events: &[(&str, u64)]| {
            let counts = events.iter().map(|(e, n)| ((*e).to_owned(), *n)).collect();
            row(1, "x", counts)
        };
        let mixed = ratios(&[
            ("LLC-load-misses", 10),
            ("cache-references", 1_000),
            ("cycles", 500),
            ("raw-inst-retired", 100),
            ("branch-misses", 5),
            ("raw-br-pred", 50),
        ]);
        assert_eq!(mixed.l2_miss_percent, None);
        assert_eq!(mixed.cpi, None);
        assert_eq!(mixed.branch_miss_percent, None);
        let both = ratios(&[
            ("LLC-load-misses", 10),
            ("cache-misses", 200),
            ("cache-references", 1_000),
            ("branch-misses", 5),
            ("branch-instructions", 50),
        ]);
        assert_eq!(both.l2_miss_percent, Some(20.0));
        assert_eq!(both.branch_miss_percent, Some(10.0));
    }
}
