//! Stalls: threads that are blocked inside a function or a request while no CPU has work.
//!
//! All idle episodes of one wait form a *group* and are judged together: unrelated work in between
//! does not end the wait. Only runs of tasks that the waiting thread has woken, or that wake it,
//! separate groups (Android Wear characterization, section 4, *Idle Time Analysis*).

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::episode::{Episode, IpcWait};
use super::index::Index;
use crate::event::TaskState;
use crate::strings::StringId;
use crate::trace::{BinderKind, Slice};
use crate::usage::Run;

/// Maximum number of tasks whose work for a waiting thread is followed.
const MAX_RELATED: usize = 16;

/// Maximum length of a chain of threads that wait for each other.
const MAX_CHAIN: usize = 8;

/// Number of waits in one function that, together with half of the recording, make it the main
/// loop of its thread.
const LOOP_WAITS: usize = 3;

/// One group of idle episodes with the thread that waits across it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stall {
    /// Start of the first episode.
    pub start: u64,
    /// End of the last episode.
    pub end: u64,
    /// Idle time of the group, ns.
    pub idle: u64,
    /// Thread that waits.
    pub client: u32,
    /// Thread that it waits for, itself blocked across the group.
    pub server: Option<u32>,
    /// Whether the client has asked the server, by a wake-up or from another process.
    pub request: bool,
    /// Function across the group: the server's, or else the client's.
    pub function: StringId,
}

/// Wait of one thread between two of its runs.
struct Gap<'r> {
    task: u32,
    before: &'r Run,
    after: &'r Run,
}

impl Stall {
    /// The blocked thread that nothing blocked explains: the last one of the chain.
    fn culprit(&self) -> u32 {
        self.server.unwrap_or(self.client)
    }

    /// All its episodes as one.
    pub(super) fn episode(&self) -> Episode {
        Episode {
            start: self.start,
            end: self.end,
        }
    }

    /// The stall as evidence.
    pub(super) fn wait(&self, index: &Index<'_>) -> IpcWait {
        let tasks = &index.trace.tasks;
        let mut server_names: Vec<String> =
            self.server.map(|t| tasks.name(t)).into_iter().collect();
        server_names.extend(self.server.map(|t| tasks.process_name(tasks.process(t))));
        let function = index.trace.strings.get(self.function);
        IpcWait {
            client: self.client,
            server: self.server,
            server_process: self.server.map(|t| tasks.process(t)),
            server_names,
            name: function.to_owned(),
            function: Some(function.to_owned()),
            start_ns: self.start,
            end_ns: self.end,
            idle_ms: self.idle as f64 / 1e6,
            idle_share: crate::activity::ratio(self.idle, self.end - self.start),
            server_slept: true,
        }
    }
}

/// All stalls with at least `least_ns` of idle time, by start time.
pub(super) fn stalls(index: &Index<'_>, least_ns: u64) -> Vec<Stall> {
    let mut list = Vec::new();
    let between = !index.trace.async_slices.is_empty() || !index.trace.binder.is_empty();
    for (task, runs) in index.runs_by_task() {
        // A stall is inside a function.
        if !between && !index.spans.has(task) {
            continue;
        }
        let mut runs = runs.peekable();
        while let (Some(before), Some(after)) = (runs.next(), runs.peek()) {
            let gap = Gap {
                task,
                before,
                after,
            };
            // The length of the wait bounds its idle time, and is known without a search.
            let long = after.start.saturating_sub(before.end) >= least_ns;
            let blocked = !before.state.is_runnable() && before.state != TaskState::UNKNOWN;
            if long && blocked && index.idle_between(before.end, after.start) >= least_ns {
                gap.stalls(index, least_ns, &mut list);
            }
        }
    }
    without_loops(index, &mut list);
    without_repetitions(list)
}

impl Gap<'_> {
    /// Adds the stalls of this wait: one for each group of episodes that a function spans.
    fn stalls(&self, index: &Index<'_>, least_ns: u64, list: &mut Vec<Stall>) {
        for (from, to) in self.groups(index) {
            let idle = index.idle_between(from, to);
            let Some(whole) = index.idle_bounds(from, to).filter(|_| idle >= least_ns) else {
                continue;
            };
            let Some(own) = self.function(index, &whole) else {
                continue;
            };
            let chain = self.chain(index, &whole);
            let (client, server) = match chain.as_slice() {
                [.., client, server] => (*client, Some(*server)),
                _ => (self.task, None),
            };
            let waits = |t: u32| waits_by_design(index, t, &whole);
            if waits(client) || server.is_some_and(waits) {
                continue;
            }
            let of_server = server.and_then(|t| innermost(index, t, &whole));
            let tasks = &index.trace.tasks;
            let request = server.is_some_and(|s| {
                tasks.process(s) != tasks.process(client) || woke(index, client, s, whole.start)
            });
            list.push(Stall {
                start: whole.start,
                end: whole.end,
                idle,
                client,
                server,
                request,
                function: of_server.unwrap_or(own),
            });
        }
    }

    /// Parts of the wait between the runs of tasks that work for the waiting thread.
    fn groups(&self, index: &Index<'_>) -> Vec<(u64, u64)> {
        let (from, to) = (self.before.end, self.after.start);
        let mut related = woken_by(index, self.task, self.before);
        let wakers = index.wakes_of(self.task, from, self.after.start);
        related.extend(wakers.iter().map(|w| w.1));
        related.retain(|t| *t != 0 && *t != self.task);
        related.sort_unstable();
        related.dedup();
        related.truncate(MAX_RELATED);
        let mut cuts: Vec<(u64, u64)> = (related.iter())
            .flat_map(|t| index.runs_within(*t, from, to).map(|r| (r.start, r.end)))
            .collect();
        cuts.sort_unstable();
        let mut groups = Vec::new();
        let mut at = from;
        for (start, end) in cuts {
            if start > at {
                groups.push((at, start.min(to)));
            }
            at = at.max(end);
        }
        if to > at {
            groups.push((at, to));
        }
        groups
    }

    /// The function, or the call without a reply, that the thread is inside of throughout a group.
    fn function(&self, index: &Index<'_>, e: &Episode) -> Option<StringId> {
        innermost(index, self.task, e)
            .or_else(|| self.async_slice(index))
            .or_else(|| self.one_way_call(index))
    }

    /// An asynchronous slice of the thread's process that begins in its quantum before the wait
    /// and ends in the one after.
    fn async_slice(&self, index: &Index<'_>) -> Option<StringId> {
        let list = &index.trace.async_slices;
        let process = index.trace.tasks.process(self.task);
        let from = list.partition_point(|s| s.start < self.before.start);
        (list.get(from..)?.iter())
            .take_while(|s| s.start <= self.before.end)
            .find(|s| s.process == process && (self.after.start..=self.after.end).contains(&s.end))
            .map(|s| s.name)
    }

    /// The function around a one-way binder call that leaves in the thread's quantum before the
    /// wait, if a call from that process arrives in the quantum after.
    fn one_way_call(&self, index: &Index<'_>) -> Option<StringId> {
        let list = &index.trace.binder;
        let within = |run: &Run| {
            let from = list.partition_point(|b| b.ns < run.start);
            let to = list.partition_point(|b| b.ns <= run.end);
            let part = list.get(from..to).unwrap_or_default();
            part.iter().filter(|b| b.tid == self.task)
        };
        let (sent, process) = within(self.before).find_map(|b| match b.kind {
            BinderKind::Request {
                process,
                one_way: true,
            } => Some((b.ns, process)),
            _ => None,
        })?;
        let tasks = &index.trace.tasks;
        let answer = within(self.after).find(|b| {
            let sender = index.sender(b.id);
            b.kind == BinderKind::Received && sender.is_some_and(|t| tasks.process(t) == process)
        })?;
        let around = |tid: u32, ns: u64| index.spans.across(tid, ns, ns).next();
        let slice = around(self.task, sent)
            .or_else(|| around(self.task, answer.ns))
            .or_else(|| around(index.sender(answer.id)?, self.after.start))?;
        Some(slice.name)
    }

    /// The waiting thread, the thread that it waits for, and so on: each wakes the one before it
    /// and is blocked across the group as well.
    fn chain(&self, index: &Index<'_>, e: &Episode) -> Vec<u32> {
        let mut chain = vec![self.task];
        let mut client = self.task;
        while chain.len() < MAX_CHAIN {
            let Some(after) = index.run_after(client, e.end) else {
                break;
            };
            let wakes = index.wakes_of(client, e.start, after.start);
            let Some(server) = wakes.last().map(|w| w.1) else {
                break;
            };
            let blocked = !index.ran_within(server, e.start, e.end)
                && (index.run_before(server, e.start)).is_some_and(|r| !r.state.is_runnable());
            let asked =
                || innermost(index, server, e).is_some() || woke(index, client, server, e.start);
            if server == 0 || chain.contains(&server) || !blocked || !asked() {
                break;
            }
            chain.push(server);
            client = server;
        }
        chain
    }
}

/// Tasks that a thread wakes in one of its runs.
fn woken_by(index: &Index<'_>, task: u32, run: &Run) -> Vec<u32> {
    let wakes = &index.trace.wakes;
    let from = wakes.partition_point(|w| w.ns < run.start);
    let list = wakes.get(from..).unwrap_or_default().iter();
    let list = list.take_while(|w| w.ns <= run.end);
    list.filter(|w| w.waker == task).map(|w| w.task).collect()
}

/// Whether a thread wakes another one in its last run before an instant.
fn woke(index: &Index<'_>, task: u32, other: u32, before: u64) -> bool {
    let Some(run) = index.run_before(task, before) else {
        return false;
    };
    let wakes = index.wakes_of(other, run.start, run.end);
    wakes.iter().any(|w| w.1 == task)
}

/// Innermost function of a thread that spans a group. A slice without an end marker does not
/// count: its end is unknown.
fn innermost(index: &Index<'_>, task: u32, e: &Episode) -> Option<StringId> {
    let end = index.trace.span.map_or(u64::MAX, |s| s.1);
    let across = index.spans.across(task, e.start, e.end);
    let mut closed = across.filter(|s: &&Slice| s.end < end).map(|s| s.name);
    let first = closed.next()?;
    let mut all = std::iter::once(first).chain(closed);
    Some(
        all.find(|name| !index.spans.is_wait_call(*name))
            .unwrap_or(first),
    )
}

/// Whether a thread is inside a function, or blocked in a kernel function, that waits by design.
fn waits_by_design(index: &Index<'_>, task: u32, e: &Episode) -> bool {
    let mut across = index.spans.across(task, e.start, e.end);
    let named = across.any(|s| index.spans.is_by_design(s.name));
    let after = index.run_after(task, e.end).map_or(e.end, |r| r.start);
    let blocked = index.blocked(task, e.start, after);
    named || blocked.is_some_and(|(_, caller)| index.is_by_design(&caller))
}

/// Removes the waits of main loops: functions in which a thread waits again and again, for most of
/// the recording.
fn without_loops(index: &Index<'_>, list: &mut Vec<Stall>) {
    let mut sums: FxHashMap<(u32, StringId), (usize, u64)> = FxHashMap::default();
    for s in list.iter() {
        let sum = sums.entry((s.culprit(), s.function)).or_default();
        sum.0 += 1;
        sum.1 += s.idle;
    }
    let span = index.trace.window().map_or(0, |(start, end)| end - start);
    list.retain(|s| {
        let (waits, ns) = sums
            .get(&(s.culprit(), s.function))
            .copied()
            .unwrap_or_default();
        waits < LOOP_WAITS || ns * 2 < span
    });
}

/// Of stalls of one culprit that overlap, keeps the one that names the waiting client.
fn without_repetitions(mut list: Vec<Stall>) -> Vec<Stall> {
    list.sort_by_key(|s| {
        let less = (s.server.is_none(), std::cmp::Reverse(s.idle), s.client);
        (s.culprit(), less, s.start)
    });
    // The waits of one culprit, by start time: they do not overlap.
    let mut waits: BTreeMap<u64, u64> = BTreeMap::new();
    let mut culprit = None;
    let mut kept: Vec<Stall> = Vec::with_capacity(list.len());
    for s in list {
        if culprit.replace(s.culprit()) != Some(s.culprit()) {
            waits.clear();
        }
        let last = waits.range(..s.end).next_back();
        if last.is_none_or(|(_, end)| *end <= s.start) {
            waits.insert(s.start, s.end);
            kept.push(s);
        }
    }
    kept.sort_by_key(|s| (s.start, s.client));
    kept
}
