//! Evidence for the cause of an idle episode.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::episode::{Episode, IpcWait, Suspect};
use super::ipc::Request;
use crate::trace::Trace;
use crate::usage::Run;

/// Maximum time from the end of an episode to a run that counts as its consequence, ns.
const AFTER_NS: u64 = 10_000_000;

/// Maximum time from the end of an episode to a slice that counts as evidence, ns.
const NEXT_NS: u64 = 3_000_000;

/// Maximum time between `sched_waking` and `sched_wakeup` of the same wake-up, ns.
const SAME_WAKE_NS: u64 = 100_000;

/// Maximum number of suspects of an episode: later tasks are woken by earlier ones.
const MAX_SUSPECTS: usize = 8;

/// Maximum number of tasks followed from the end of an episode: more are a wake-up storm without a
/// single cause.
const MAX_WOKEN: usize = 32;

/// Facts about one episode, which rule conditions refer to.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    pub length_ms: f64,
    pub io_wait: bool,
    pub block_request: bool,
    pub power_step: bool,
    pub from_interrupt: bool,
    pub periodic: bool,
    pub blocked_in: Vec<String>,
    pub wakes: Vec<String>,
    pub irq: Vec<String>,
    /// Function of the timer that ended the episode.
    pub timer: Vec<String>,
    /// Tasks woken by the first task, directly or through others.
    pub leads_to: Vec<String>,
    /// All tasks that run because the episode ended, the first one included.
    pub all_woken: Vec<String>,
    pub functions: Vec<String>,
    pub ipc: Vec<IpcWait>,
    pub suspects: Vec<Suspect>,
}

/// Indexes into a trace for fast access to the evidence of an episode.
pub(super) struct Index<'t> {
    pub trace: &'t Trace,
    pub runs: &'t [Run],
    pub episodes: &'t [Episode],
    /// Runs of each task, by start time.
    by_task: FxHashMap<u32, Vec<usize>>,
    /// Wake-ups of each task, by time.
    wakes: FxHashMap<u32, Vec<u64>>,
    /// Slices of each thread, by start time.
    slices: FxHashMap<u32, Vec<usize>>,
    requests: Vec<Request>,
    /// Client and server threads whose requests are a polling loop, not a stall.
    polling: FxHashSet<(u32, Option<u32>)>,
    waits_by_design: &'t [String],
    /// Longest request, ns: limits the search for requests across an episode.
    longest_request: u64,
    block: Vec<(u64, u64)>,
    power: Vec<(u64, u64)>,
}

impl<'t> Index<'t> {
    pub(super) fn new(
        trace: &'t Trace,
        runs: &'t [Run],
        episodes: &'t [Episode],
        requests: Vec<Request>,
        waits_by_design: &'t [String],
    ) -> Self {
        let mut by_task: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for (i, r) in runs.iter().enumerate().filter(|(_, r)| r.task != 0) {
            by_task.entry(r.task).or_default().push(i);
        }
        let mut slices: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for (i, s) in trace.slices.iter().enumerate() {
            slices.entry(s.tid).or_default().push(i);
        }
        let mut wakes: FxHashMap<u32, Vec<u64>> = FxHashMap::default();
        for w in &trace.wakes {
            let list = wakes.entry(w.task).or_default();
            // sched_waking and sched_wakeup are events of the same wake-up.
            if list.last().is_none_or(|last| w.ns - last > SAME_WAKE_NS) {
                list.push(w.ns);
            }
        }
        let longest = requests.iter().map(|r| r.end - r.start).max();
        Self {
            trace,
            runs,
            episodes,
            by_task,
            wakes,
            slices,
            longest_request: longest.unwrap_or(0),
            polling: polling(&requests, trace.window()),
            requests,
            waits_by_design,
            block: block_requests(trace),
            power: power_steps(trace),
        }
    }

    pub(super) fn evidence(&self, e: &Episode) -> Evidence {
        let suspects = self.suspects(e);
        let mut found = Evidence {
            length_ms: (e.end - e.start) as f64 / 1e6,
            block_request: covers_half(&self.block, e),
            power_step: covers_half(&self.power, e),
            ..Evidence::default()
        };
        for s in &suspects {
            found.io_wait |= s.io_wait;
            found.blocked_in.extend(s.blocked_in.clone());
        }
        let first = suspects.iter().take(2);
        found.wakes = first.map(|s| s.name.clone()).collect();
        if let Some(first) = suspects.first() {
            self.wakeup_source(e, first, &mut found);
            self.wakeup_chain(e, &suspects, first, &mut found);
        }
        for s in &suspects {
            found.functions.extend(self.functions_across(s.task, e));
            found.functions.extend(self.functions_next(s.task, e));
        }
        found.ipc = self.pending_requests(e);
        found.suspects = suspects;
        found
    }

    /// Tasks that were blocked throughout the episode and run right after it, with their CPU time
    /// quanta before and after (steps 1 and 2 of IdleChecker, Android Wear characterization,
    /// section 4).
    fn suspects(&self, e: &Episode) -> Vec<Suspect> {
        let from = self.runs.partition_point(|r| r.start < e.end);
        let mut list: Vec<Suspect> = Vec::new();
        for r in self.runs.get(from..).unwrap_or_default() {
            if r.start > e.end + AFTER_NS || list.len() >= MAX_SUSPECTS {
                break;
            }
            if r.task == 0 || list.iter().any(|s| s.task == r.task) {
                continue;
            }
            let before = self.run_before(r.task, e.start);
            // A task that was left runnable was not blocked.
            if before.is_some_and(|b| b.state.is_runnable()) {
                continue;
            }
            let blocked = self.blocked(r.task, e.start, r.start);
            list.push(Suspect {
                task: r.task,
                name: self.trace.tasks.name(r.task),
                before: before.map(|b| (b.start, b.end)),
                after: (r.start, r.end),
                io_wait: blocked.as_ref().is_some_and(|b| b.0),
                blocked_in: blocked.map(|b| b.1).filter(|c| !c.is_empty()),
            });
        }
        list
    }

    fn run_before(&self, task: u32, ns: u64) -> Option<&Run> {
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
    fn blocked(&self, task: u32, from: u64, to: u64) -> Option<(bool, String)> {
        let list = &self.trace.blocked;
        let at = list.partition_point(|b| b.ns < from);
        list.get(at..)?
            .iter()
            .take_while(|b| b.ns <= to)
            .find(|b| b.task == task)
            .map(|b| (b.io_wait, self.trace.strings.get(b.caller).to_owned()))
    }

    /// Finds the wake-up of the first task, and the interrupt or timer behind it.
    fn wakeup_source(&self, e: &Episode, first: &Suspect, found: &mut Evidence) {
        let wakes = &self.trace.wakes;
        let at = wakes.partition_point(|w| w.ns < e.start);
        let wake = wakes
            .get(at..)
            .unwrap_or_default()
            .iter()
            .take_while(|w| w.ns <= first.after.0)
            .find(|w| w.task == first.task);
        let Some(wake) = wake else {
            return;
        };
        found.from_interrupt = wake.waker == 0;
        found.periodic = self.is_periodic(first.task, wake.ns);
        // An interrupt handler takes microseconds; 1 ms is ample.
        let near = |ns: u64| ns + 1_000_000 >= wake.ns;
        let irqs = &self.trace.irqs;
        let to = irqs.partition_point(|i| i.ns <= wake.ns);
        let before = irqs.get(..to).unwrap_or_default().iter().rev();
        let irq = before
            .take_while(|i| near(i.ns))
            .find(|i| i.cpu == wake.cpu && i.enter);
        let timers = &self.trace.timers;
        let to = timers.partition_point(|t| t.ns <= wake.ns);
        let before = timers.get(..to).unwrap_or_default().iter().rev();
        let timer = before
            .take_while(|t| near(t.ns))
            .find(|t| t.cpu == wake.cpu);
        // Timers expire inside an interrupt, so the later of the two is the cause.
        match (irq, timer) {
            (irq, Some(t)) if irq.is_none_or(|i| i.ns <= t.ns) => {
                found
                    .timer
                    .push(self.trace.strings.get(t.function).to_owned());
            }
            (Some(i), _) => found.irq.push(self.trace.strings.get(i.handler).to_owned()),
            _ => {}
        }
    }

    /// Follows the wake-ups after the end of an episode: the tasks woken by the first task, by
    /// those in turn, and so on. This looks through kernel threads that only pass work on.
    fn wakeup_chain(
        &self,
        e: &Episode,
        suspects: &[Suspect],
        first: &Suspect,
        found: &mut Evidence,
    ) {
        // The thread of a threaded interrupt is named after it: `irq/409-inv_irq`.
        if first.name.starts_with("irq/") {
            found.irq.push(first.name.clone());
        }
        let (mut chain, mut woken) = (vec![first.task], vec![first.task]);
        let wakes = &self.trace.wakes;
        let at = wakes.partition_point(|w| w.ns < e.start);
        let until = first.after.0.saturating_add(NEXT_NS);
        for w in wakes.get(at..).unwrap_or_default() {
            if w.ns > until || woken.len() >= MAX_WOKEN {
                break;
            }
            if chain.contains(&w.waker) && !chain.contains(&w.task) {
                chain.push(w.task);
                found.leads_to.push(self.trace.tasks.name(w.task));
            }
            // Woken by an interrupt at the same time, or by a task that runs because of the
            // episode's end.
            let because = w.waker == 0 || woken.contains(&w.waker);
            if because && !woken.contains(&w.task) {
                woken.push(w.task);
            }
        }
        // Without wake-ups in the trace, consequences cannot be told apart.
        if wakes.is_empty() {
            woken.extend(suspects.iter().map(|s| s.task));
        }
        let names = woken.iter().map(|t| self.trace.tasks.name(*t));
        found.all_woken = names.collect();
    }

    /// Whether a task's last wake-ups, this one included, have regular intervals, like those of a
    /// periodic timer.
    fn is_periodic(&self, task: u32, ns: u64) -> bool {
        const WAKES: usize = 5;
        // Shorter intervals are responses to other tasks rather than a period.
        const SHORTEST_NS: u64 = 2_000_000;
        let Some(list) = self.wakes.get(&task) else {
            return false;
        };
        let to = list.partition_point(|t| *t <= ns);
        let Some(last) = to.checked_sub(WAKES).and_then(|from| list.get(from..to)) else {
            return false;
        };
        let pairs = last.iter().zip(last.iter().skip(1));
        let steps: Vec<u64> = pairs.map(|(a, b)| b - a).collect();
        let least = steps.iter().min().copied().unwrap_or(0);
        let most = steps.iter().max().copied().unwrap_or(0);
        // Timers are late by up to a tick or by the CPU's idle exit latency.
        least >= SHORTEST_NS && most - least <= least / 10 + 1_000_000
    }

    /// Slices of a thread that span the episode, innermost first.
    pub(super) fn functions_across(&self, tid: u32, e: &Episode) -> Vec<String> {
        let Some(list) = self.slices.get(&tid) else {
            return Vec::new();
        };
        let slice = |i: &usize| self.trace.slices.get(*i);
        let to = list.partition_point(|i| slice(i).is_some_and(|s| s.start <= e.start));
        // Slices are nested only a few levels deep; earlier ones have ended.
        list.get(..to)
            .unwrap_or_default()
            .iter()
            .rev()
            .take(256)
            .filter_map(slice)
            .filter(|s| s.end >= e.end)
            .map(|s| self.trace.strings.get(s.name).to_owned())
            .collect()
    }

    fn functions_next(&self, tid: u32, e: &Episode) -> Vec<String> {
        let Some(list) = self.slices.get(&tid) else {
            return Vec::new();
        };
        let slice = |i: &usize| self.trace.slices.get(*i);
        let from = list.partition_point(|i| slice(i).is_some_and(|s| s.start < e.end));
        list.get(from..)
            .unwrap_or_default()
            .iter()
            .filter_map(slice)
            .take_while(|s| s.start <= e.end + NEXT_NS)
            .take(8)
            .map(|s| self.trace.strings.get(s.name).to_owned())
            .collect()
    }

    /// Requests that wait across the episode, except those whose server waits for another request
    /// itself: only the last one in such a chain is a suspect.
    fn pending_requests(&self, e: &Episode) -> Vec<IpcWait> {
        let from = e.start.saturating_sub(self.longest_request);
        let at = self.requests.partition_point(|r| r.start < from);
        let across: Vec<&Request> = self
            .requests
            .get(at..)
            .unwrap_or_default()
            .iter()
            .take_while(|r| r.start <= e.start)
            .filter(|r| r.end >= e.end)
            .collect();
        let mut list: Vec<IpcWait> = across
            .iter()
            .filter(|r| {
                let server = r.server;
                !across.iter().any(|o| Some(o.client) == server)
                    && !self.polling.contains(&(r.client, r.server))
                    && !self.waits_by_design(r, e)
            })
            .map(|r| self.ipc_wait(r, e))
            .collect();
        list.sort_by(|a, b| b.idle_ms.total_cmp(&a.idle_ms));
        list
    }

    /// Whether the request, or a function that spans the episode in its client or server, waits by
    /// design.
    fn waits_by_design(&self, r: &Request, e: &Episode) -> bool {
        let meant = |name: &String| self.waits_by_design.iter().any(|w| name.contains(w));
        meant(&r.name)
            || self.functions_across(r.client, e).iter().any(meant)
            || r.server
                .is_some_and(|t| self.functions_across(t, e).iter().any(meant))
    }

    fn ipc_wait(&self, r: &Request, e: &Episode) -> IpcWait {
        let tasks = &self.trace.tasks;
        let idle = self.idle_between(r.start, r.end);
        let mut server_names: Vec<String> = r.server.map(|t| tasks.name(t)).into_iter().collect();
        server_names.extend(r.server_process.map(|p| tasks.process_name(p)));
        let function = r
            .server
            .and_then(|t| self.functions_across(t, e).into_iter().next())
            .or_else(|| self.functions_across(r.client, e).into_iter().next());
        IpcWait {
            client: r.client,
            server: r.server,
            server_process: r.server_process,
            server_names,
            name: r.name.clone(),
            function,
            start_ns: r.start,
            end_ns: r.end,
            idle_ms: idle as f64 / 1e6,
            idle_share: crate::activity::ratio(idle, r.end - r.start),
            server_slept: r.server.is_none_or(|t| !self.ran_within(t, e.start, e.end)),
        }
    }

    /// Idle time in an interval, ns.
    fn idle_between(&self, start: u64, end: u64) -> u64 {
        let at = self.episodes.partition_point(|e| e.end <= start);
        self.episodes
            .get(at..)
            .unwrap_or_default()
            .iter()
            .take_while(|e| e.start < end)
            .map(|e| e.end.min(end) - e.start.max(start))
            .sum()
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
fn covers_half(spans: &[(u64, u64)], e: &Episode) -> bool {
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
