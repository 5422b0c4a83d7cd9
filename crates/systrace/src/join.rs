//! Method traces joined with a system trace of the same recording.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::clocks::ClockMap;
use crate::event::{Clock, MethodAction, MethodRecord};
use crate::sink::Sink;
use crate::trace::{Slice, Trace};
use crate::usage::Run;

/// Maximum time between a record and the run of its thread, ns: the two are stamped by different
/// clock reads, and a method trace has microseconds.
const TOLERANCE_NS: i64 = 100_000;

/// Minimum share of the records that lie in a run of their thread. A thread that records a call
/// runs; a few records are lost where switches are.
const LEAST_AGREEMENT: f64 = 0.9;

/// Maximum number of pairs of a record and a run in the search for the offset.
const MAX_PAIRS: usize = 4_000_000;

/// Maximum number of records in that search.
const MAX_RECORDS: usize = 512;

/// Offsets closer together than this are the same one, ns.
const SAME_OFFSET_NS: i64 = 5_000_000;

/// Start times above this count from 1970, not from the start of the machine, µs.
const EPOCH_US: u64 = 1 << 49;

/// Greatest amount by which the trace clock may lie behind CLOCK_MONOTONIC, ns: both count from the
/// start of the machine, one of them later by a part of the start-up. (It may lie ahead by any
/// amount, if it counts while the machine is suspended.)
const BEHIND_NS: i64 = 10_000_000_000;

/// Calls of a method trace by the wall clock. A [`Sink`]; [`Trace::join`] adds them to a trace.
#[derive(Debug, Default)]
pub struct MethodCalls {
    names: FxHashMap<u32, String>,
    threads: BTreeMap<u32, Thread>,
    start_us: Option<u64>,
    without_wall: u64,
}

#[derive(Debug, Default)]
struct Thread {
    calls: Vec<Call>,
    /// Places of the open calls, innermost last.
    stack: Vec<usize>,
    /// Times of all records, µs from the start.
    records: Vec<u64>,
}

#[derive(Debug)]
struct Call {
    method: u32,
    depth: u32,
    start_us: u64,
    /// `None` if the trace ends before the call.
    end_us: Option<u64>,
}

/// Relation between a method trace and a system trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Joined {
    /// Start of the method trace on the trace clock, ns.
    pub start_ns: i64,
    /// Whether clock readings of both traces relate them; otherwise the runs of the threads do.
    pub by_clock: bool,
    /// Share of the records that lie in a run of their thread, percent.
    pub agreement_percent: f64,
    /// Number of calls added.
    pub calls: u64,
}

impl Sink for MethodCalls {
    fn header(&mut self, key: &str, value: &str) {
        if key == "start-time-usec" {
            self.start_us = value.parse().ok().filter(|us| *us > 0);
        }
    }

    fn method_name(&mut self, method: u32, name: &str) {
        self.names.insert(method, name.to_owned());
    }

    fn method(&mut self, record: MethodRecord) {
        let Some(low) = record.wall_us else {
            self.without_wall += 1;
            return;
        };
        let t = self.threads.entry(record.thread).or_default();
        // The 32-bit clock wraps after 71 minutes.
        let last = t.records.last().copied().unwrap_or(0);
        let step = low.wrapping_sub(last as u32) as i32;
        let now = last.saturating_add_signed(i64::from(step)).max(last);
        t.records.push(now);
        match record.action {
            MethodAction::Enter => {
                t.stack.push(t.calls.len());
                t.calls.push(Call {
                    method: record.method,
                    depth: t.stack.len() as u32 - 1,
                    start_us: now,
                    end_us: None,
                });
            }
            MethodAction::Exit | MethodAction::Unroll => {
                let of = |i: &usize| t.calls.get(*i).is_some_and(|c| c.method == record.method);
                // A return without its call: the call began before the trace.
                let Some(at) = t.stack.iter().rposition(of) else {
                    return;
                };
                for i in t.stack.drain(at..) {
                    if let Some(call) = t.calls.get_mut(i) {
                        call.end_us = Some(now);
                    }
                }
            }
        }
    }
}

impl Trace {
    /// Adds the calls of a method trace, aligned by the clocks of both, or else by the runs of
    /// their threads.
    ///
    /// # Errors
    /// One line with the reason, if the traces are not of the same time, machine and boot, or if
    /// their relation is ambiguous.
    pub fn join(&mut self, runs: &[Run], methods: &MethodCalls) -> Result<Joined, String> {
        if methods.threads.is_empty() {
            return Err(match methods.without_wall {
                0 => "no calls in it".into(),
                _ => "its calls have the CPU clock only; record it with both clocks (am profile \
                      start --clock-type dual)"
                    .into(),
            });
        }
        let threads = self.threads_of(methods);
        let mut by_task: FxHashMap<u32, Vec<(i64, i64)>> = FxHashMap::default();
        for r in runs {
            let run = (signed(r.start) - TOLERANCE_NS, signed(r.end) + TOLERANCE_NS);
            by_task.entry(r.task).or_default().push(run);
        }
        let known = threads.iter().filter_map(|(tid, t)| {
            let runs = by_task.get(tid)?;
            Some((*t, runs.as_slice()))
        });
        let known: Vec<Known<'_>> = known.collect();
        if known.is_empty() {
            return Err(
                "none of its threads runs in the system trace: the two are of different \
                        boots, devices or times"
                    .into(),
            );
        }
        let window = self.window().unwrap_or_default();
        let window = (signed(window.0), signed(window.1));
        let (start, by_clock) = match self.start_by_clock(methods) {
            Some((start, true)) => (start, true),
            Some((start, false)) if agreement(&known, start, window).is_some_and(good) => {
                (start, true)
            }
            _ => (start_by_runs(&known, window)?, false),
        };
        let Some(share) = agreement(&known, start, window) else {
            return Err(format!(
                "it begins {:.3} s {} the system trace, and none of its calls lies in it: the two \
                 are of different boots or times",
                (start - window.0).unsigned_abs() as f64 / 1e9,
                if start < window.0 {
                    "before"
                } else {
                    "after the start of"
                }
            ));
        };
        let behind = methods
            .start_us
            .filter(|us| *us < EPOCH_US)
            .is_some_and(|us| !by_clock && ns(us) - BEHIND_NS > start);
        if behind || !good(share) {
            return Err(format!(
                "its calls do not coincide with the runs of their threads ({:.0} % do): the two \
                 are of different boots or times",
                if behind { 0.0 } else { 100.0 * share }
            ));
        }
        self.add_calls(&threads, &methods.names, start);
        Ok(Joined {
            start_ns: start,
            by_clock,
            agreement_percent: 100.0 * share,
            calls: self.calls.len() as u64,
        })
    }

    /// Threads of a method trace by their task in this trace. A method trace has the lower 16 bits
    /// of a thread id.
    fn threads_of<'m>(&self, methods: &'m MethodCalls) -> Vec<(u32, &'m Thread)> {
        let mut by_low: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (tid, _) in self.tasks.iter() {
            by_low.entry(tid & 0xffff).or_default().push(tid);
        }
        let task = |tid: u32| match by_low.get(&(tid & 0xffff)).map(Vec::as_slice) {
            Some([only]) => Some(*only),
            Some(several) if several.contains(&tid) => Some(tid),
            _ => None,
        };
        (methods.threads.iter())
            .filter_map(|(tid, t)| Some((task(*tid)?, t)))
            .collect()
    }

    /// Start of a method trace on the trace clock by its header, and whether a clock reading of
    /// this trace relates the two clocks. Without one the trace clock may be CLOCK_MONOTONIC.
    fn start_by_clock(&self, methods: &MethodCalls) -> Option<(i64, bool)> {
        let us = methods.start_us?;
        let start = ns(us);
        let clock = if us < EPOCH_US {
            Clock::Monotonic
        } else {
            Clock::Realtime
        };
        let first = self.window()?.0;
        match ClockMap::new(&self.clocks).convert(first, Clock::Trace, clock) {
            Some(there) => Some((signed(first) + (start - signed(there)), true)),
            None if clock == Clock::Monotonic => Some((start, false)),
            None => None,
        }
    }

    fn add_calls(
        &mut self,
        threads: &[(u32, &Thread)],
        names: &FxHashMap<u32, String>,
        start: i64,
    ) {
        let end = self.span.map_or(0, |s| s.1);
        let at = |us: u64| u64::try_from(start + ns(us)).unwrap_or(0);
        let mut ids = FxHashMap::default();
        let (strings, calls) = (&mut self.strings, &mut self.calls);
        for (tid, thread) in threads {
            for c in &thread.calls {
                let name = *ids.entry(c.method).or_insert_with(|| {
                    let name = names.get(&c.method).map_or("(unknown method)", |n| n);
                    strings.intern(name.as_bytes())
                });
                calls.push(Slice {
                    start: at(c.start_us),
                    end: c.end_us.map_or(end, at),
                    tid: *tid,
                    depth: c.depth,
                    name,
                });
            }
        }
        // Stable: the calls of a thread keep their order.
        calls.sort_by_key(|c| c.start);
    }
}

/// A thread of the method trace, and its runs.
type Known<'a> = (&'a Thread, &'a [(i64, i64)]);

fn good(share: f64) -> bool {
    share >= LEAST_AGREEMENT
}

/// A time as a signed number, limited so that sums and differences of several have room: damaged
/// files have any times.
fn signed(ns: u64) -> i64 {
    const MOST: i64 = i64::MAX / 8;
    i64::try_from(ns).unwrap_or(MOST).min(MOST)
}

fn ns(us: u64) -> i64 {
    signed(us.saturating_mul(1_000))
}

/// Share of the records in the window that lie in a run of their thread; `None` without records.
fn agreement(known: &[Known<'_>], start: i64, window: (i64, i64)) -> Option<f64> {
    let (mut inside, mut all) = (0u64, 0u64);
    for (thread, runs) in known {
        for us in &thread.records {
            let at = start + ns(*us);
            if at < window.0 || at > window.1 {
                continue;
            }
            all += 1;
            let to = runs.partition_point(|r| r.0 <= at);
            let run = to.checked_sub(1).and_then(|i| runs.get(i));
            inside += u64::from(run.is_some_and(|r| r.1 >= at));
        }
    }
    (all > 0).then(|| inside as f64 / all as f64)
}

/// The start of the method trace for which most records lie in runs of their threads. Each pair of
/// a record and a run admits an interval of starts; the result lies in most of them.
fn start_by_runs(known: &[Known<'_>], window: (i64, i64)) -> Result<i64, String> {
    let mut edges = edges(known);
    edges.sort_unstable();
    let best = most_common(&edges, None);
    let second = most_common(&edges, Some(best.1));
    if best.0 < 2 || agreement(known, best.1, window).is_none_or(|share| !good(share)) {
        return Err(
            "its calls coincide with the runs of their threads at no time: the two are of \
                    different boots or times"
                .into(),
        );
    }
    if second.0 >= best.0 {
        return Err(format!(
            "its calls fit the runs of their threads both at {:.3} s and at {:.3} s; only traces \
             with a common clock (trace_event_clock_sync) can be joined here",
            best.1 as f64 / 1e9,
            second.1 as f64 / 1e9
        ));
    }
    Ok(best.1)
}

/// Begins (1) and ends (-1) of the intervals of starts that pairs of a record and a run admit, at
/// most [`MAX_PAIRS`] pairs. Threads with few runs are first, since their records constrain the
/// start most; each thread has an equal share of what is left.
fn edges(known: &[Known<'_>]) -> Vec<(i64, i32)> {
    let mut known = known.to_vec();
    known.sort_by_key(|k| k.1.len());
    let (mut left, mut edges) = (MAX_PAIRS, Vec::new());
    for (i, (thread, runs)) in known.iter().enumerate() {
        let most = left / (known.len() - i) / runs.len().max(1);
        for at in chosen(&thread.records, MAX_RECORDS / known.len(), most) {
            left = left.saturating_sub(runs.len());
            for (from, to) in *runs {
                edges.push((from - at, 1));
                edges.push((to - at + 1, -1));
            }
        }
    }
    edges
}

/// Times of at most `most` records of a thread: those around its longest waits, which constrain the
/// start most, then about `evenly` others, at equal distances.
fn chosen(records: &[u64], evenly: usize, most: usize) -> Vec<i64> {
    let mut pairs: Vec<_> = records.windows(2).collect();
    pairs.sort_by_key(|w| std::cmp::Reverse(w.last().zip(w.first()).map(|(b, a)| b - a)));
    let waits = pairs.into_iter().take(8).flatten();
    let mut list: Vec<i64> = waits.take(most).map(|us| ns(*us)).collect();
    let others = evenly.max(1).min(most - list.len());
    if others > 0 {
        let step = records.len().div_ceil(others).max(1);
        list.extend(records.iter().step_by(step).map(|us| ns(*us)));
    }
    list
}

/// The number of intervals that overlap most, and the middle of that overlap. `edges` are begins
/// (1) and ends (-1) of the intervals in order; overlaps near `except` do not count.
fn most_common(edges: &[(i64, i32)], except: Option<i64>) -> (i32, i64) {
    let (mut count, mut best) = (0, (0, 0));
    for pair in edges.windows(2) {
        let [(at, change), (until, _)] = pair else {
            continue;
        };
        count += change;
        let middle = at + (until - at) / 2;
        let near = except.is_some_and(|e| (middle - e).abs() <= SAME_OFFSET_NS);
        if count > best.0 && !near {
            best = (count, middle);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(records: impl Iterator<Item = u64>) -> Thread {
        Thread {
            records: records.collect(),
            ..Thread::default()
        }
    }

    #[test]
    fn threads_with_many_runs_keep_the_limit_of_pairs() {
        let runs: Vec<(i64, i64)> = (0..100_000).map(|i| (i * 1_000, i * 1_000 + 500)).collect();
        let many = thread((0..100).map(|i| i * i));
        // One run, and the last of the threads.
        let (one, few) = (thread(0..1), [(-5_000, -4_000)]);
        let mut known: Vec<Known<'_>> = vec![(&many, runs.as_slice()); 50];
        known.push((&one, &few));
        let edges = edges(&known);
        assert!(edges.len() <= 2 * MAX_PAIRS, "{}", edges.len());
        // Some of most of the others, and the one.
        assert!(edges.len() > MAX_PAIRS, "{}", edges.len());
        assert!(edges.contains(&(-5_000, 1)) && edges.contains(&(-3_999, -1)));
    }

    #[test]
    fn records_around_waits_are_chosen_first() {
        let records = [0, 1, 2, 900, 901, 902, 903];
        assert!(chosen(&records, 512, 0).is_empty());
        assert_eq!(chosen(&records, 512, 2), [2_000i64, 900_000]);
        assert_eq!(chosen(&records, 512, 100).len(), 12 + 7);
        assert_eq!(chosen(&[5], 0, 9), [5_000i64]);
        assert!(chosen(&[], 3, 9).is_empty());
    }
}
