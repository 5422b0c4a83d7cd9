//! Functions of each thread: the slices that it marks, and the calls of a joined method trace.

use rustc_hash::{FxHashMap, FxHashSet};

use super::rules::IdleRules;
use crate::strings::StringId;
use crate::trace::{Slice, Trace};

/// Maximum number of enclosing slices followed: deeper ones repeat the same recursion.
const MAX_DEPTH: usize = 512;

/// Slices of one thread in one layer, by start time, each with its enclosing slice.
#[derive(Debug, Default)]
struct Nest {
    slices: Vec<(usize, Option<u32>)>,
    /// Place in `slices` of the last slice at each depth, while the nest is built.
    last: Vec<u32>,
}

/// Slices of all threads, with their nesting.
pub(super) struct Spans<'t> {
    trace: &'t Trace,
    marks: FxHashMap<u32, Nest>,
    calls: FxHashMap<u32, Nest>,
    /// Start times of the slices that end within the trace and do not wait by design, each with the
    /// latest end of all that started until then.
    cover: Vec<(u64, u64)>,
    by_design: FxHashSet<StringId>,
    wait_calls: FxHashSet<StringId>,
}

impl<'t> Spans<'t> {
    pub(super) fn new(trace: &'t Trace, rules: &IdleRules) -> Self {
        let (mut by_design, mut wait_calls) = (FxHashSet::default(), FxHashSet::default());
        for (id, name) in trace.strings.iter() {
            if rules.waits_by_design.iter().any(|w| name.contains(w)) {
                by_design.insert(id);
            }
            if rules.wait_calls.iter().any(|w| name.starts_with(w)) {
                wait_calls.insert(id);
            }
        }
        // A slice without an end marker ends with the trace.
        let last = trace.span.map_or(u64::MAX, |s| s.1);
        let mut cover: Vec<(u64, u64)> = (trace.slices.iter())
            .filter(|s| s.end < last && !by_design.contains(&s.name))
            .map(|s| (s.start, s.end))
            .collect();
        let mut latest = 0;
        for span in &mut cover {
            latest = latest.max(span.1);
            span.1 = latest;
        }
        Self {
            trace,
            marks: nests(&trace.slices),
            calls: nests(&trace.calls),
            cover,
            by_design,
            wait_calls,
        }
    }

    pub(super) fn is_by_design(&self, name: StringId) -> bool {
        self.by_design.contains(&name)
    }

    /// Whether a call only waits, for the function that calls it.
    pub(super) fn is_wait_call(&self, name: StringId) -> bool {
        self.wait_calls.contains(&name)
    }

    /// Whether any thread is inside a slice throughout an interval, those that wait by design left
    /// out.
    pub(super) fn any_across(&self, start: u64, end: u64) -> bool {
        let to = self.cover.partition_point(|s| s.0 <= start);
        let last = to.checked_sub(1).and_then(|i| self.cover.get(i));
        last.is_some_and(|(_, latest)| *latest >= end)
    }

    /// Whether a thread has any slice or call.
    pub(super) fn has(&self, tid: u32) -> bool {
        self.marks.contains_key(&tid) || self.calls.contains_key(&tid)
    }

    /// Calls, then slices of a thread that span an interval, innermost first.
    pub(super) fn across(&self, tid: u32, start: u64, end: u64) -> impl Iterator<Item = &'t Slice> {
        let of = |nests: &FxHashMap<u32, Nest>, slices: &'t [Slice]| {
            enclosing(nests.get(&tid), slices, start)
                .into_iter()
                .filter(move |s| s.end >= end)
        };
        of(&self.calls, &self.trace.calls).chain(of(&self.marks, &self.trace.slices))
    }

    /// Slices of a thread that start in an interval.
    pub(super) fn starting(&self, tid: u32, from: u64, to: u64) -> impl Iterator<Item = &'t Slice> {
        let nest = self.marks.get(&tid).map_or(&[][..], |n| &n.slices);
        let slice = |i: usize| self.trace.slices.get(i);
        let at = nest.partition_point(|(i, _)| slice(*i).is_some_and(|s| s.start < from));
        let later: Vec<&Slice> = (nest.get(at..).unwrap_or_default().iter())
            .filter_map(|(i, _)| slice(*i))
            .take_while(|s| s.start <= to)
            .take(8)
            .collect();
        later.into_iter()
    }
}

fn nests(slices: &[Slice]) -> FxHashMap<u32, Nest> {
    let mut map: FxHashMap<u32, Nest> = FxHashMap::default();
    for (i, s) in slices.iter().enumerate() {
        let nest = map.entry(s.tid).or_default();
        let depth = s.depth as usize;
        nest.last.truncate(depth);
        let parent = nest.last.last().copied();
        nest.last.push(nest.slices.len() as u32);
        nest.slices.push((i, parent));
    }
    map
}

/// The slices that are open at an instant, innermost first.
fn enclosing<'t>(nest: Option<&Nest>, slices: &'t [Slice], at: u64) -> Vec<&'t Slice> {
    let mut open = Vec::new();
    let Some(nest) = nest else { return open };
    let slice = |i: usize| slices.get(i);
    let until = (nest.slices).partition_point(|(i, _)| slice(*i).is_some_and(|s| s.start <= at));
    let mut next = until.checked_sub(1);
    for _ in 0..MAX_DEPTH {
        let Some((i, parent)) = next.and_then(|n| nest.slices.get(n)) else {
            break;
        };
        open.extend(slice(*i).filter(|s| s.end > at));
        next = parent.map(|p| p as usize);
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::read;
    use crate::trace::TraceBuilder;

    #[test]
    fn a_slice_without_its_end_marker_covers_nothing() {
        let text = "\
 a-7 (    7) [000] ...1 10.000000: tracing_mark_write: B|7|load
 a-7 (    7) [000] ...1 10.004000: tracing_mark_write: E
 b-8 (    7) [001] ...1 10.002000: tracing_mark_write: B|7|draw
 a-7 (    7) [000] ...1 10.090000: sched_wakeup: comm=b pid=8 prio=120 target_cpu=000
";
        let mut builder = TraceBuilder::default();
        read(text.as_bytes(), &mut builder).unwrap();
        let trace = builder.finish();
        let spans = Spans::new(&trace, &IdleRules::parse("").unwrap());
        assert!(spans.any_across(10_001_000_000, 10_003_000_000));
        assert!(!spans.any_across(10_010_000_000, 10_020_000_000));
    }
}
