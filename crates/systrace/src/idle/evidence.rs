//! Evidence for the cause of an idle episode.

use super::episode::{Episode, IpcWait, Suspect};
use super::index::{Index, covers_half};
use super::ipc::Request;
use super::stall::Stall;
use crate::event::TaskState;

/// Maximum time from the end of an episode to a run that counts as its consequence, ns.
const AFTER_NS: u64 = 10_000_000;

/// Maximum time from the end of an episode to an event that counts as its consequence, ns.
const NEXT_NS: u64 = 3_000_000;

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
    /// Whether a thread is inside a slice throughout the episode.
    pub inside_span: bool,
    /// Requests that wait throughout the episode.
    pub ipc: Vec<IpcWait>,
    /// Waits of threads that are inside a function throughout the episode.
    pub stalls: Vec<IpcWait>,
    pub suspects: Vec<Suspect>,
}

impl Evidence {
    /// Whether a wait is one of the requests.
    pub(super) fn is_request(&self, wait: Option<&IpcWait>) -> bool {
        wait.is_some_and(|w| self.ipc.iter().any(|r| std::ptr::eq(r, w)))
    }
}

impl Index<'_> {
    pub(super) fn evidence(&self, e: &Episode) -> Evidence {
        let suspects = self.suspects(e);
        let mut found = Evidence {
            length_ms: (e.end - e.start) as f64 / 1e6,
            block_request: covers_half(&self.block, e),
            power_step: covers_half(&self.power, e),
            inside_span: self.spans.any_across(e.start, e.end),
            ..Evidence::default()
        };
        for s in &suspects {
            found.io_wait |= s.io_wait;
            found.blocked_in.extend(s.blocked_in.clone());
        }
        self.end_of(e, &suspects, &mut found);
        for s in &suspects {
            found.functions.extend(self.functions_across(s.task, e));
            found.functions.extend(self.functions_next(s.task, e));
        }
        found.ipc = self.pending_requests(e);
        found.suspects = suspects;
        found
    }

    /// Evidence for the cause of a stall, whose episodes are judged together: the waits and the
    /// functions are those of its own threads, and its last episode shows what ended it.
    pub(super) fn evidence_of_stall(&self, s: &Stall) -> Evidence {
        let whole = s.episode();
        let wait = s.wait(self);
        let threads = [Some(s.client), s.server].into_iter().flatten();
        let suspects: Vec<Suspect> = threads.filter_map(|t| self.suspect(t, &whole)).collect();
        let on_disk = |t: &Suspect| {
            let before = self.run_before(t.task, s.start);
            t.io_wait || before.is_some_and(|b| b.state == TaskState::BLOCKED)
        };
        let blocked_in = suspects.iter().filter_map(|s| s.blocked_in.clone());
        let across = suspects
            .iter()
            .map(|t| self.functions_across(t.task, &whole));
        let mut found = Evidence {
            length_ms: s.idle as f64 / 1e6,
            io_wait: suspects.iter().any(|s| s.io_wait),
            block_request: covers_half(&self.block, &whole) && suspects.iter().any(on_disk),
            power_step: covers_half(&self.power, &whole),
            blocked_in: blocked_in.collect(),
            functions: across.flatten().collect(),
            inside_span: true,
            ipc: s.request.then(|| wait.clone()).into_iter().collect(),
            stalls: vec![wait],
            ..Evidence::default()
        };
        let last = self.episodes_within(s.start, s.end).last();
        let last = last.copied().unwrap_or(whole);
        self.end_of(&last, &self.suspects(&last), &mut found);
        found.suspects = suspects;
        found
    }

    /// Recorded requests from or to the threads of a stall that wait across its last episode.
    pub(super) fn requested(&self, s: &Stall) -> Vec<IpcWait> {
        let Some(last) = self.episodes_within(s.start, s.end).last() else {
            return Vec::new();
        };
        let of = |thread: u32| thread == s.client || Some(thread) == s.server;
        let mut list = self.pending_requests(last);
        list.retain(|r| of(r.client) || r.server.is_some_and(of));
        list
    }

    /// Adds the threads of a stall, and its wait, to the evidence of one of its episodes.
    pub(super) fn add_threads(&self, s: &Stall, e: &Episode, found: &mut Evidence) {
        for task in [Some(s.client), s.server].into_iter().flatten() {
            if !found.suspects.iter().any(|s| s.task == task) {
                found.suspects.extend(self.suspect(task, e));
                found.functions.extend(self.functions_across(task, e));
            }
        }
        if s.request && found.ipc.is_empty() {
            found.ipc.push(s.wait(self));
        }
    }

    /// Finds what ended an episode.
    fn end_of(&self, e: &Episode, suspects: &[Suspect], found: &mut Evidence) {
        found.wakes = suspects.iter().take(2).map(|s| s.name.clone()).collect();
        if let Some(first) = suspects.first() {
            self.wakeup_source(e, first, found);
            self.wakeup_chain(e, suspects, first, found);
        }
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
            if r.task != 0 && !list.iter().any(|s| s.task == r.task) {
                list.extend(self.suspect(r.task, e));
            }
        }
        list
    }

    /// A task that was blocked throughout an interval and ran after it, with its quanta.
    pub(super) fn suspect(&self, task: u32, e: &Episode) -> Option<Suspect> {
        let before = self.run_before(task, e.start);
        // A task that was left runnable was not blocked.
        if before.is_some_and(|b| b.state.is_runnable()) {
            return None;
        }
        let after = self.run_after(task, e.end)?;
        let blocked = self.blocked(task, e.start, after.start);
        Some(Suspect {
            task,
            name: self.trace.tasks.name(task),
            before: before.map(|b| (b.start, b.end)),
            after: (after.start, after.end),
            io_wait: blocked.as_ref().is_some_and(|b| b.0),
            blocked_in: blocked.map(|b| b.1).filter(|c| !c.is_empty()),
        })
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
        let to = list.partition_point(|w| w.0 <= ns);
        let Some(last) = to.checked_sub(WAKES).and_then(|from| list.get(from..to)) else {
            return false;
        };
        let pairs = last.iter().zip(last.iter().skip(1));
        let steps: Vec<u64> = pairs.map(|(a, b)| b.0 - a.0).collect();
        let least = steps.iter().min().copied().unwrap_or(0);
        let most = steps.iter().max().copied().unwrap_or(0);
        // Timers are late by up to a tick or by the CPU's idle exit latency.
        least >= SHORTEST_NS && most - least <= least / 10 + 1_000_000
    }

    /// Slices of a thread that begin right after an episode.
    fn functions_next(&self, tid: u32, e: &Episode) -> Vec<String> {
        let next = self
            .spans
            .starting(tid, e.end, e.end.saturating_add(NEXT_NS));
        next.map(|s| self.trace.strings.get(s.name).to_owned())
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
        let named = |t: u32| {
            let mut across = self.spans.across(t, e.start, e.end);
            across.any(|s| self.spans.is_by_design(s.name))
        };
        self.is_by_design(&r.name) || named(r.client) || r.server.is_some_and(named)
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
}
