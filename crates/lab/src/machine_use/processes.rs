//! Processes of a measurement, and the processor time of those that have no part in it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Thread of the kernel that is the parent of all others (`kthreadd`): they may work for the
/// measurement, so that they are not others.
const KTHREADD: u32 = 2;

/// A process in `/proc/PID/stat` (proc(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pid: u32,
    parent: u32,
    /// In user and kernel mode, with the time of children that have ended and were waited for.
    ticks: u64,
}

impl Process {
    /// `None` when the text is malformed.
    fn parse(text: &str) -> Option<Self> {
        let (pid, rest) = text.split_once(" (")?;
        // A name may contain brackets and spaces.
        let (_, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // proc(5) counts from one; the first field here is the third there.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let ticks = [14, 15, 16, 17].map(number);
        Some(Self {
            pid: pid.parse().ok()?,
            parent: u32::try_from(number(4)?).ok()?,
            ticks: ticks.into_iter().sum::<Option<u64>>()?,
        })
    }
}

/// The processes of this machine; one that ends meanwhile is left out.
pub(super) fn all() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.ok()?.file_name();
        let pid: u32 = name.to_str()?.parse().ok()?;
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Process::parse(&text)
    };
    entries.filter_map(read).collect()
}

/// Those of `roots` and all of their descendants.
fn descendants(processes: &[Process], roots: &[u32]) -> HashSet<u32> {
    let parents: HashMap<u32, u32> = processes.iter().map(|p| (p.pid, p.parent)).collect();
    let mut ours: HashSet<u32> = roots.iter().copied().collect();
    for process in processes {
        let mut line = vec![process.pid];
        // As many steps as processes at most: the lines were not read at one instant, and may form
        // a circle.
        while let Some(pid) = line.last()
            && !ours.contains(pid)
            && line.len() <= processes.len()
            && let Some(parent) = parents.get(pid)
        {
            line.push(*parent);
        }
        if line.last().is_some_and(|pid| ours.contains(pid)) {
            ours.extend(line);
        }
    }
    ours
}

/// The process `own` and its descendants.
pub(super) fn with_descendants(processes: &[Process], own: u32) -> HashSet<u32> {
    descendants(processes, &[own])
}

/// Processor time of all processes but `own`, its descendants, and the kernel's. A process that
/// ends adds its time to its parent, so that the sum of all stays right.
pub(super) fn others(processes: &[Process], own: u32) -> Duration {
    let ours = descendants(processes, &[own, KTHREADD]);
    let others = processes.iter().filter(|p| !ours.contains(&p.pid));
    of_ticks(others.map(|p| p.ticks).sum())
}

/// The time that the hypervisor gave to others while a processor had something to do, of all
/// processors, from the text of `/proc/stat`.
pub(super) fn steal(stat: &str) -> Option<Duration> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks = line.split_ascii_whitespace().nth(7)?.parse().ok()?;
    Some(of_ticks(ticks))
}

/// `/proc` counts in ticks of 10 ms (`USER_HZ`) on all architectures of Linux but Alpha and IA-64.
fn of_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(10))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, ticks: u64) -> Process {
        Process { pid, parent, ticks }
    }

    #[test]
    fn a_process_is_parsed_with_its_ended_children() {
        let line = "42 (a (b) c) S 7 42 42 0 -1 4194304 0 0 0 0 1 2 30 40 20 0 1 0 1234 0 0";
        assert_eq!(Process::parse(line), Some(process(42, 7, 73)));
        assert_eq!(Process::parse("42 (a) S 7 42"), None);
        assert_eq!(Process::parse("x (a) S 7"), None);
    }

    #[test]
    fn descendants_and_kernel_threads_are_not_others() {
        let now = [
            process(1, 0, 5),
            process(2, 0, 100),
            process(3, 2, 100),
            process(10, 1, 1000),
            process(12, 11, 1000),
            process(11, 10, 1000),
            process(20, 1, 7),
            process(21, 20, 8),
        ];
        assert_eq!(others(&now, 10), Duration::from_millis(200));
        assert_eq!(with_descendants(&now, 10), HashSet::from([10, 11, 12]));
        // The child 21 has ended: its time is in its parent's.
        let mut later: Vec<Process> = now.to_vec();
        later.retain(|p| p.pid != 21);
        later[6].ticks = 7 + 9;
        assert_eq!(others(&later, 10), Duration::from_millis(210));
        let circle = [process(5, 6, 1), process(6, 5, 1)];
        assert_eq!(others(&circle, 10), Duration::from_millis(20));
    }

    #[test]
    fn stolen_time_is_the_eighth_number() {
        let stat = "cpu  10 1 5 100 20 2 2 3 7 7\ncpu0 1 2\n";
        assert_eq!(steal(stat), Some(Duration::from_millis(30)));
        assert_eq!(steal("cpu  1 2 3\n"), None);
        assert_eq!(steal("cpu0 1 2 3 4 5 6 7 8\n"), None);
    }

    #[test]
    fn this_machine_has_processes() {
        let all = all();
        let own = std::process::id();
        assert!(all.iter().any(|p| p.pid == own));
    }
}
