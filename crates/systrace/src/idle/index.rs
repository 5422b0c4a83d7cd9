//! Indexes into a trace, for the evidence of its idle episodes.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::episode::Episode;
use super::ipc::Request;
use super::rules::IdleRules;
use super::spans::Spans;
use crate::trace::{BinderKind, Trace};
use crate::usage::Run;

/// Maximum time between `sched_waking` and `sched_wakeup` of the same wake-up, ns.
const SAME_WAKE_NS: u64 = 100_000;

/// Indexes into a trace for fast access to the evidence of an episode.
pub(super) struct Index<'t> {
    pub trace: &'t Trace,
    pub runs: &'t [Run],
    pub episodes: &'t [Episode],
    /// Runs of each task, by start time.
    by_task: FxHashMap<u32, Vec<usize>>,
    /// Wake-ups of each task, by time, with the waker.
    pub wakes: FxHashMap<u32, Vec<(u64, u32)>>,
    /// Idle time before each episode, ns.
    idle_before: Vec<u64>,
    /// Sending threads of binder transactions, by number.
    senders: FxHashMap<u64, u32>,
    pub spans: Spans<'t>,
    pub requests: Vec<Request>,
    /// Client and server threads whose requests are a polling loop, not a stall.
    pub polling: FxHashSet<(u32, Option<u32>)>,
    rules: &'t IdleRules,
    /// Longest request, ns: limits the search for requests across an episode.
    pub longest_request: u64,
    pub block: Vec<(u64, u64)>,
    pub power: Vec<(u64, u64)>,
}

impl<'t> Index<'t> {
    pub(super) fn new(
        trace: &'t Trace,
        runs: &'t [Run],
        episodes: &'t [Episode],
        requests: Vec<Request>,
        rules: &'t IdleRules,
    ) -> Self {
        let mut by_task: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for (i, r) in runs.iter().enumerate().filter(|(_, r)| r.task != 0) {
            by_task.entry(r.task).or_default().push(i);
        }
        let mut wakes: FxHashMap<u32, Vec<(u64, u32)>> = FxHashMap::default();
        for w in &trace.wakes {
            let list = wakes.entry(w.task).or_default();
            // sched_waking and sched_wakeup are events of the same wake-up.
            if list.last().is_none_or(|last| w.ns - last.0 > SAME_WAKE_NS) {
                list.push((w.ns, w.waker));
            }
        }
        let mut sum = 0;
        let idle_before = (episodes.iter())
            .map(|e| {
                let before = sum;
                sum += e.end - e.start;
                before
            })
            .collect();
        let longest = requests.iter().map(|r| r.end - r.start).max();
        Self {
            trace,
            runs,
            episodes,
            by_task,
            wakes,
            idle_before,
            senders: (trace.binder.iter())
                .filter(|b| b.kind != BinderKind::Received)
                .map(|b| (b.id, b.tid))
                .collect(),
            spans: Spans::new(trace, rules),
            longest_request: longest.unwrap_or(0),
            polling: polling(&requests, trace.window()),
            requests,
            rules,
            block: block_requests(trace),
            power: power_steps(trace),
        }
    }

    pub(super) fn run_before(&self, task: u32, ns: u64) -> Option<&Run> {
        let list = self.by_task.get(&task)?;
        let at = list.partition_point(|i| self.runs.get(*i).is_some_and(|r| r.end <= ns));
        self.runs.get(*list.get(at.checked_sub(1)?)?)
    }

    /// Whether a task ran in a time interval.
    pub(super) fn ran_within(&self, task: u32, start: u64, end: u64) -> bool {
        let Some(list) = self.by_task.get(&task) else {
            return false;
        };
        let at = list.partition_point(|i| self.runs.get(*i).is_some_and(|r| r.end <= start));
        list.get(at)
            .and_then(|i| self.runs.get(*i))
            .is_some_and(|r| r.start < end)
    }

    /// The reason of a task's sleep. `sched_blocked_reason` is emitted when the task is woken.
    pub(super) fn blocked(&self, task: u32, from: u64, to: u64) -> Option<(bool, String)> {
        let list = &self.trace.blocked;
        let at = list.partition_point(|b| b.ns < from);
        list.get(at..)?
            .iter()
            .take_while(|b| b.ns <= to)
            .find(|b| b.task == task)
            .map(|b| (b.io_wait, self.trace.strings.get(b.caller).to_owned()))
    }

    /// First run of a task that starts at a time or later.
    pub(super) fn run_after(&self, task: u32, ns: u64) -> Option<&Run> {
        let list = self.by_task.get(&task)?;
        let at = list.partition_point(|i| self.runs.get(*i).is_some_and(|r| r.start < ns));
        self.runs.get(*list.get(at)?)
    }

    /// Runs of a task that overlap an interval.
    pub(super) fn runs_within(&self, task: u32, from: u64, to: u64) -> impl Iterator<Item = &Run> {
        let list = self.by_task.get(&task).map_or(&[][..], |l| l);
        let at = list.partition_point(|i| self.runs.get(*i).is_some_and(|r| r.end <= from));
        let later = list.get(at..).unwrap_or_default().iter();
        let runs = later.filter_map(|i| self.runs.get(*i));
        runs.take_while(move |r| r.start < to)
    }

    /// All tasks that ran, with their runs by start time.
    pub(super) fn runs_by_task(&self) -> impl Iterator<Item = (u32, impl Iterator<Item = &Run>)> {
        let tasks = self.by_task.iter();
        tasks.map(|(task, list)| (*task, list.iter().filter_map(|i| self.runs.get(*i))))
    }

    /// Wake-ups of a task in an interval, each with its waker.
    pub(super) fn wakes_of(&self, task: u32, from: u64, to: u64) -> &[(u64, u32)] {
        let list = self.wakes.get(&task).map_or(&[][..], |l| l);
        let at = list.partition_point(|w| w.0 < from);
        let until = list.partition_point(|w| w.0 <= to);
        list.get(at..until).unwrap_or_default()
    }

    /// Functions of a thread that span an episode, innermost first.
    pub(super) fn functions_across(&self, tid: u32, e: &Episode) -> Vec<String> {
        let across = self.spans.across(tid, e.start, e.end);
        across
            .map(|s| self.trace.strings.get(s.name).to_owned())
            .collect()
    }

    /// Whether a name is that of a wait by design.
    pub(super) fn is_by_design(&self, name: &str) -> bool {
        self.rules.waits_by_design.iter().any(|w| name.contains(w))
    }

    /// Idle time in an interval, ns.
    pub(super) fn idle_between(&self, start: u64, end: u64) -> u64 {
        self.idle_until(end).saturating_sub(self.idle_until(start))
    }

    /// From the start of the first to the end of the last episode in an interval.
    pub(super) fn idle_bounds(&self, from: u64, to: u64) -> Option<Episode> {
        let list = self.episodes_within(from, to);
        Some(Episode {
            start: list.first()?.start.max(from),
            end: list.last()?.end.min(to),
        })
    }

    /// Episodes in an interval.
    pub(super) fn episodes_within(&self, start: u64, end: u64) -> &[Episode] {
        let from = self.episodes.partition_point(|e| e.end <= start);
        let until = self.episodes.partition_point(|e| e.start < end);
        self.episodes.get(from..until).unwrap_or_default()
    }

    /// Thread that sent a binder transaction.
    pub(super) fn sender(&self, id: u64) -> Option<u32> {
        self.senders.get(&id).copied()
    }

    /// Idle time from the start of the trace to an instant, ns.
    fn idle_until(&self, ns: u64) -> u64 {
        let to = self.episodes.partition_point(|e| e.start < ns);
        let last = to.checked_sub(1);
        let Some((e, before)) =
            last.and_then(|i| self.episodes.get(i).zip(self.idle_before.get(i)))
        else {
            return 0;
        };
        before + e.end.min(ns) - e.start
    }
}

/// Client and server pairs whose requests wait repeatedly for most of the recording: threads that
/// poll a service by design.
fn polling(requests: &[Request], window: Option<(u64, u64)>) -> FxHashSet<(u32, Option<u32>)> {
    const ENOUGH: u64 = 3;
    let mut pairs: FxHashMap<(u32, Option<u32>), (u64, u64)> = FxHashMap::default();
    for r in requests {
        let pair = pairs.entry((r.client, r.server)).or_default();
        pair.0 += 1;
        pair.1 += r.end - r.start;
    }
    let span = window.map_or(0, |(start, end)| end - start);
    pairs
        .into_iter()
        .filter(|(_, (n, ns))| *n >= ENOUGH && ns * 2 >= span)
        .map(|(pair, _)| pair)
        .collect()
}

/// Whether one of the intervals covers at least half of the episode.
pub(super) fn covers_half(spans: &[(u64, u64)], e: &Episode) -> bool {
    let to = spans.partition_point(|s| s.0 < e.end);
    spans
        .get(..to)
        .unwrap_or_default()
        .iter()
        .rev()
        .take(512)
        .any(|s| {
            let overlap = s.1.min(e.end).saturating_sub(s.0.max(e.start));
            overlap * 2 >= e.end - e.start
        })
}

fn block_requests(trace: &Trace) -> Vec<(u64, u64)> {
    let mut open: FxHashMap<(u64, u64), u64> = FxHashMap::default();
    let mut list = Vec::new();
    for b in &trace.block {
        if b.issue {
            open.insert((b.device, b.sector), b.ns);
        } else if let Some(start) = open.remove(&(b.device, b.sector)) {
            list.push((start, b.ns));
        }
    }
    list.sort_unstable();
    list
}

fn power_steps(trace: &Trace) -> Vec<(u64, u64)> {
    let mut open: BTreeMap<crate::strings::StringId, u64> = BTreeMap::new();
    let mut list = Vec::new();
    for p in &trace.power {
        if p.begins {
            open.insert(p.action, p.ns);
        } else if let Some(start) = open.remove(&p.action) {
            list.push((start, p.ns));
        }
    }
    list.sort_unstable();
    list
}
