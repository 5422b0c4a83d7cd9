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
const CYCLES: &[&str] = &["cycles", "cpu-cycles", "raw-cpu-cycles", "r11"];
const INSTRUCTIONS: &[&str] = &["instructions", "raw-inst-retired", "r8"];
const L1I_MISSES: &[&str] = &["L1-icache-load-misses", "raw-l1-icache-refill", "r1"];
const L1D_MISSES: &[&str] = &["L1-dcache-load-misses", "raw-l1-dcache-refill", "r3"];
const L2_MISSES: &[&str] = &[
    "LLC-load-misses",
    "cache-misses",
    "raw-l2-dcache-refill",
    "r17",
];
const L2_REFERENCES: &[&str] = &["LLC-loads", "cache-references", "raw-l2-dcache", "r16"];
const ITLB_MISSES: &[&str] = &["iTLB-load-misses", "raw-itlb-refill", "r2"];
const DTLB_MISSES: &[&str] = &["dTLB-load-misses", "raw-dtlb-refill", "r5"];
const BRANCHES: &[&str] = &["branches", "branch-instructions", "raw-br-pred", "r12"];
const BRANCH_MISSES: &[&str] = &["branch-misses", "raw-br-mis-pred", "r10"];

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
                *sum.entry(event.clone()).or_default() += n;
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
    let get = |names: &[&str]| names.iter().find_map(|n| counts.get(*n)).copied();
    let per = |part: &[&str], whole: &[&str], scale: f64| {
        let whole = get(whole).filter(|w| *w > 0)?;
        Some(scale * get(part)? as f64 / whole as f64)
    };
    MicroarchRow {
        id,
        name: name.to_owned(),
        cpi: per(CYCLES, INSTRUCTIONS, 1.0),
        l1i_mpki: per(L1I_MISSES, INSTRUCTIONS, 1e3),
        l1d_mpki: per(L1D_MISSES, INSTRUCTIONS, 1e3),
        l2_mpki: per(L2_MISSES, INSTRUCTIONS, 1e3),
        l2_miss_percent: per(L2_MISSES, L2_REFERENCES, 100.0),
        itlb_mpki: per(ITLB_MISSES, INSTRUCTIONS, 1e3),
        dtlb_mpki: per(DTLB_MISSES, INSTRUCTIONS, 1e3),
        branch_miss_percent: per(BRANCH_MISSES, BRANCHES, 100.0),
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
}
