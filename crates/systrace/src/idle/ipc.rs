//! Synchronous requests between processes, from sending to reply.

use rustc_hash::FxHashMap;

use crate::trace::{BinderKind, Trace};

/// A request whose client waits for the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub client: u32,
    /// Thread that serves the request, once it has received it.
    pub server: Option<u32>,
    pub server_process: Option<u32>,
    pub start: u64,
    pub end: u64,
    /// Name of the request in the trace.
    pub name: String,
}

/// Requests by start time. Requests without a reply in the trace are left out: whether the client
/// still waits is unknown.
pub(super) fn requests(trace: &Trace) -> Vec<Request> {
    let mut list = from_binder(trace);
    from_marks(trace, &mut list);
    list.sort_by_key(|r| r.start);
    list
}

/// Requests from `binder_transaction` and `binder_transaction_received` events.
fn from_binder(trace: &Trace) -> Vec<Request> {
    let mut list: Vec<Request> = Vec::new();
    // By transaction number: requests sent but not received. By serving thread: requests being
    // served, innermost last. By transaction number: replies sent but not received.
    let mut sent: FxHashMap<u64, usize> = FxHashMap::default();
    let mut served: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
    let mut replies: FxHashMap<u64, usize> = FxHashMap::default();
    let mut done = Vec::new();
    for b in &trace.binder {
        match b.kind {
            BinderKind::Request {
                process,
                one_way: false,
            } => {
                sent.insert(b.id, list.len());
                list.push(Request {
                    client: b.tid,
                    server: None,
                    server_process: Some(process),
                    start: b.ns,
                    end: b.ns,
                    name: "binder transaction".into(),
                });
                done.push(false);
            }
            BinderKind::Request { one_way: true, .. } => {}
            BinderKind::Reply { .. } => {
                if let Some(i) = served.get_mut(&b.tid).and_then(Vec::pop) {
                    replies.insert(b.id, i);
                    // The trace may lack the receipt of the reply.
                    if let (Some(r), Some(d)) = (list.get_mut(i), done.get_mut(i)) {
                        r.end = b.ns;
                        *d = true;
                    }
                }
            }
            BinderKind::Received => {
                if let Some(i) = sent.remove(&b.id) {
                    served.entry(b.tid).or_default().push(i);
                    if let Some(r) = list.get_mut(i) {
                        r.server = Some(b.tid);
                    }
                } else if let Some(r) = replies.remove(&b.id).and_then(|i| list.get_mut(i)) {
                    r.end = b.ns;
                }
            }
        }
    }
    let mut done = done.into_iter();
    list.retain(|_| done.next().unwrap_or(false));
    list
}

/// Requests from slices: `binder transaction`, `AIDL::…::client`, and `ipc:…` of self-instrumented
/// programs.
fn from_marks(trace: &Trace, list: &mut Vec<Request>) {
    let known: FxHashMap<u32, Vec<(u64, u64)>> =
        list.iter().fold(FxHashMap::default(), |mut map, r| {
            let spans: &mut Vec<_> = map.entry(r.client).or_default();
            spans.push((r.start, r.end));
            map
        });
    let last = trace.span.map_or(u64::MAX, |s| s.1);
    for s in &trace.slices {
        let name = trace.strings.get(s.name);
        let is_call =
            name == "binder transaction" || name.ends_with("::client") || name.starts_with("ipc:");
        // A slice without an end marker ends with the trace.
        if !is_call || s.end >= last {
            continue;
        }
        // Kernel events of the same call have more details.
        let twice = known.get(&s.tid).is_some_and(|spans| {
            let at = spans.partition_point(|x| x.0 < s.start);
            spans.get(at).is_some_and(|x| x.0 <= s.end)
        });
        if twice {
            continue;
        }
        // The task that wakes the client at the end has served the request.
        let server = last_waker(trace, s.tid, s.start, s.end);
        list.push(Request {
            client: s.tid,
            server,
            server_process: server.map(|t| trace.tasks.process(t)),
            start: s.start,
            end: s.end,
            name: name.to_owned(),
        });
    }
}

/// The task that woke `task` last in an interval.
fn last_waker(trace: &Trace, task: u32, start: u64, end: u64) -> Option<u32> {
    let to = trace.wakes.partition_point(|w| w.ns <= end);
    trace
        .wakes
        .get(..to)?
        .iter()
        .rev()
        .take_while(|w| w.ns >= start)
        .find(|w| w.task == task)
        .map(|w| w.waker)
        .filter(|by| *by != 0 && *by != task)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::read;
    use crate::trace::TraceBuilder;

    #[test]
    fn a_request_without_its_end_marker_is_left_out() {
        let text = "\
 a-7 (    7) [000] ...1 10.000000: tracing_mark_write: B|7|ipc:Audio.stop
 a-7 (    7) [000] ...1 10.001000: tracing_mark_write: E
 a-7 (    7) [000] ...1 10.002000: tracing_mark_write: B|7|ipc:Audio.start
 a-7 (    7) [000] ...1 10.090000: sched_wakeup: comm=b pid=8 prio=120 target_cpu=000
";
        let mut builder = TraceBuilder::default();
        read(text.as_bytes(), &mut builder).unwrap();
        let list = requests(&builder.finish());
        let names: Vec<&str> = list.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["ipc:Audio.stop"]);
    }
}
