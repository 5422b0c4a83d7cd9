//! Statistics of userspace slices, by process and name.

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::trace::{AsyncSlice, Trace};

/// Statistics of the userspace slices of one name (atrace sections, `Trace.beginSection`) over all
/// threads of a process; asynchronous slices (`Trace.beginAsyncSection`) have rows of their own.
///
/// All times are wall-clock times: a slice includes the time in which its thread is blocked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpanTime {
    /// Process id.
    pub process: u32,
    /// Name of the process.
    pub process_name: String,
    /// Name of the slices; stand-alone numbers in it, such as a frame number, are replaced by `*`.
    pub name: String,
    /// Number of slices.
    pub count: u64,
    /// Time in the slices without their child slices, ms; `None` for asynchronous slices, whose
    /// children are unknown.
    pub self_ms: Option<f64>,
    /// Time in the slices, ms. Nested slices of the same name count once; asynchronous slices are
    /// summed up.
    pub total_ms: f64,
    /// Duration of the longest slice, ms.
    pub longest_ms: f64,
    /// Start of the longest slice, ns on the trace clock.
    pub longest_at_ns: u64,
}

#[derive(Default)]
struct Sum {
    count: u64,
    own_ns: u64,
    total_ns: u64,
    longest_ns: u64,
    longest_at: u64,
}

/// Process, name, and whether the slice is asynchronous.
type Key = (u32, String, bool);

/// A slice whose end has not been passed yet.
struct Open {
    end: u64,
    key: Key,
    inside_ns: u64,
    start: u64,
}

/// Open slices of one thread.
#[derive(Default)]
struct Thread {
    /// Innermost last.
    stack: Vec<Open>,
    /// Number of open slices by name.
    names: FxHashMap<String, usize>,
}

impl SpanTime {
    /// Statistics of all slices of a trace, by self time, largest first.
    pub fn of(trace: &Trace) -> Vec<Self> {
        let mut sums: FxHashMap<Key, Sum> = FxHashMap::default();
        let mut threads: FxHashMap<u32, Thread> = FxHashMap::default();
        for slice in &trace.slices {
            let thread = threads.entry(slice.tid).or_default();
            // The depth of a slice is the number of open slices around it.
            while thread.stack.len() > slice.depth as usize {
                thread.close(&mut sums);
            }
            let name = without_numbers(trace.strings.get(slice.name));
            match thread.names.get_mut(&name) {
                Some(open) => *open += 1,
                None => {
                    thread.names.insert(name.clone(), 1);
                }
            }
            thread.stack.push(Open {
                end: slice.end,
                key: (trace.tasks.process(slice.tid), name, false),
                inside_ns: 0,
                start: slice.start,
            });
        }
        for thread in threads.values_mut() {
            while !thread.stack.is_empty() {
                thread.close(&mut sums);
            }
        }
        for slice in &trace.async_slices {
            add_async(trace, slice, &mut sums);
        }
        let ms = |ns: u64| ns as f64 / 1e6;
        let mut list: Vec<_> = sums
            .into_iter()
            .map(|((process, name, crosses_threads), sum)| Self {
                process,
                process_name: trace.tasks.process_name(process),
                name,
                count: sum.count,
                self_ms: (!crosses_threads).then(|| ms(sum.own_ns)),
                total_ms: ms(sum.total_ns),
                longest_ms: ms(sum.longest_ns),
                longest_at_ns: sum.longest_at,
            })
            .collect();
        list.sort_by(|a, b| {
            let weight = |s: &Self| s.self_ms.unwrap_or(s.total_ms);
            (weight(b).total_cmp(&weight(a)))
                .then_with(|| (a.process, &a.name).cmp(&(b.process, &b.name)))
        });
        list
    }
}

impl Thread {
    /// Closes the innermost slice.
    fn close(&mut self, sums: &mut FxHashMap<Key, Sum>) {
        let Some(span) = self.stack.pop() else { return };
        let ns = span.end.saturating_sub(span.start);
        if let Some(around) = self.stack.last_mut() {
            around.inside_ns += ns;
        }
        // A count instead of a search through the stack: a file may open a million slices.
        let around = self.names.get_mut(&span.key.1).map_or(0, |open| {
            *open = open.saturating_sub(1);
            *open
        });
        let sum = sums.entry(span.key).or_default();
        sum.own_ns += ns.saturating_sub(span.inside_ns);
        if around == 0 {
            sum.total_ns += ns;
        }
        sum.note(span.start, ns);
    }
}

fn add_async(trace: &Trace, slice: &AsyncSlice, sums: &mut FxHashMap<Key, Sum>) {
    let name = without_numbers(trace.strings.get(slice.name));
    let ns = slice.end.saturating_sub(slice.start);
    let sum = sums.entry((slice.process, name, true)).or_default();
    sum.total_ns += ns;
    sum.note(slice.start, ns);
}

impl Sum {
    fn note(&mut self, start: u64, ns: u64) {
        self.count += 1;
        if ns > self.longest_ns || self.count == 1 {
            (self.longest_ns, self.longest_at) = (ns, start);
        }
    }
}

/// Replaces stand-alone numbers, so that `Choreographer#doFrame 1187` of every frame has one name.
fn without_numbers(name: &str) -> String {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    if !name.split(' ').any(is_number) {
        return name.to_owned();
    }
    let words: Vec<_> = name
        .split(' ')
        .map(|word| if is_number(word) { "*" } else { word })
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::read;
    use crate::trace::TraceBuilder;

    fn spans(text: &str) -> Vec<SpanTime> {
        let mut builder = TraceBuilder::default();
        read(text.as_bytes(), &mut builder).unwrap();
        SpanTime::of(&builder.finish())
    }

    #[test]
    fn self_total_and_longest_time() {
        let list = spans(
            "\
 a-7 (    7) [000] ...1 10.000000: tracing_mark_write: B|7|doFrame 1
 a-7 (    7) [000] ...1 10.001000: tracing_mark_write: B|7|layout
 a-7 (    7) [000] ...1 10.004000: tracing_mark_write: E
 a-7 (    7) [000] ...1 10.005000: tracing_mark_write: E
 a-7 (    7) [000] ...1 10.010000: tracing_mark_write: B|7|doFrame 2
 a-7 (    7) [000] ...1 10.020000: tracing_mark_write: E
 a-7 (    7) [000] ...1 10.030000: tracing_mark_write: B|7|layout
 a-7 (    7) [000] ...1 10.031000: tracing_mark_write: B|7|layout
 a-7 (    7) [000] ...1 10.032000: tracing_mark_write: E
 a-7 (    7) [000] ...1 10.033000: tracing_mark_write: E
",
        );
        assert_eq!(list.len(), 2);
        let frame = &list[0];
        assert_eq!((frame.name.as_str(), frame.count), ("doFrame *", 2));
        assert_eq!((frame.self_ms, frame.total_ms), (Some(12.0), 15.0));
        assert_eq!(frame.longest_ms, 10.0);
        assert_eq!(frame.longest_at_ns, 10_010_000_000);
        let layout = &list[1];
        assert_eq!((layout.count, layout.self_ms), (3, Some(6.0)));
        assert_eq!(layout.total_ms, 6.0);
    }

    #[test]
    fn asynchronous_slices() {
        let list = spans(
            "\
 a-7 (    7) [000] ...1 10.000000: tracing_mark_write: S|7|load|1
 a-7 (    7) [000] ...1 10.001000: tracing_mark_write: S|7|load|2
 b-8 (    7) [001] ...1 10.004000: tracing_mark_write: F|7|load|1
 b-8 (    7) [001] ...1 10.007000: tracing_mark_write: F|7|load|2
 b-8 (    7) [001] ...1 10.008000: tracing_mark_write: F|7|load|2
 b-8 (    7) [001] ...1 10.009000: tracing_mark_write: B|7|load
 b-8 (    7) [001] ...1 10.010000: tracing_mark_write: E
",
        );
        assert_eq!(list.len(), 2);
        assert_eq!((list[0].count, list[0].self_ms), (2, None));
        assert_eq!((list[0].total_ms, list[0].longest_ms), (10.0, 6.0));
        assert_eq!((list[1].count, list[1].self_ms), (1, Some(1.0)));
    }

    /// `H` names the track alone, or, as older versions of Android do, track and name.
    #[test]
    fn asynchronous_slices_on_a_track() {
        let list = spans(
            "\
 a-7 (    7) [000] ...1 10.000000: tracing_mark_write: G|7|jobs|load|1
 b-8 (    7) [001] ...1 10.004000: tracing_mark_write: H|7|jobs|1
 a-7 (    7) [000] ...1 10.005000: tracing_mark_write: G|7|jobs|load|1
 a-7 (    7) [000] ...1 10.006000: tracing_mark_write: S|7|jobs|1
 b-8 (    7) [001] ...1 10.007000: tracing_mark_write: F|7|jobs|1
 b-8 (    7) [001] ...1 10.008000: tracing_mark_write: H|7|jobs|load|1
 a-7 (    7) [000] ...1 10.010000: tracing_mark_write: G|7|jobs|first|2
 a-7 (    7) [000] ...1 10.011000: tracing_mark_write: G|7|jobs|second|2
 a-7 (    7) [000] ...1 10.021000: tracing_mark_write: H|7|jobs|second|2
 a-7 (    7) [000] ...1 10.022000: tracing_mark_write: H|7|jobs|2
 a-7 (    7) [000] ...1 10.090000: tracing_mark_write: E
",
        );
        let found: Vec<_> = (list.iter())
            .map(|s| (s.name.as_str(), s.count, s.total_ms))
            .collect();
        let expected = [
            ("jobs|first", 1, 12.0),
            ("jobs|second", 1, 10.0),
            ("jobs|load", 2, 7.0),
            ("jobs", 1, 1.0),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn stand_alone_numbers() {
        assert_eq!(without_numbers("doFrame 12"), "doFrame *");
        assert_eq!(without_numbers("HW_VSYNC_0"), "HW_VSYNC_0");
        assert_eq!(without_numbers("12 of 40"), "* of *");
    }
}
