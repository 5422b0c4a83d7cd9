//! Requests between processes, from the sending to the reply.

use rustc_hash::FxHashMap;

use crate::trace::{BinderKind, Trace};

/// One request that somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub client: u32,
    /// Thread that serves it, once it took the request.
    pub server: Option<u32>,
    pub server_process: Option<u32>,
    pub start: u64,
    pub end: u64,
    /// What the trace calls it.
    pub name: String,
}

/// Requests by their beginning. Only those whose reply is in the trace: without
/// it, nothing says that the client still waits.
pub(super) fn requests(trace: &Trace) -> Vec<Request> {
    let mut list = from_binder(trace);
    from_marks(trace, &mut list);
    list.sort_by_key(|r| r.start);
    list
}

/// `binder_transaction` and `binder_transaction_received`.
fn from_binder(trace: &Trace) -> Vec<Request> {
    let mut list: Vec<Request> = Vec::new();
    // Requests on their way to a server, by number; requests being served, by
    // the thread that serves, innermost last; replies on their way, by number.
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
                    // The reply may arrive unseen.
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

/// Spans that user space or atrace marks as calls: `binder transaction`,
/// `AIDL::…::client`, and `ipc:…` for programs that instrument themselves.
fn from_marks(trace: &Trace, list: &mut Vec<Request>) {
    let known: FxHashMap<u32, Vec<(u64, u64)>> =
        list.iter().fold(FxHashMap::default(), |mut map, r| {
            let spans: &mut Vec<_> = map.entry(r.client).or_default();
            spans.push((r.start, r.end));
            map
        });
    for s in &trace.slices {
        let name = trace.names.get(s.name);
        let is_call =
            name == "binder transaction" || name.ends_with("::client") || name.starts_with("ipc:");
        if !is_call {
            continue;
        }
        // Kernel events tell more about the same call.
        let twice = known.get(&s.tid).is_some_and(|spans| {
            let at = spans.partition_point(|x| x.0 < s.start);
            spans.get(at).is_some_and(|x| x.0 <= s.end)
        });
        if twice {
            continue;
        }
        // Who wakes the client at the end has served it.
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

/// The task that woke `task` last within a span.
fn last_waker(trace: &Trace, task: u32, start: u64, end: u64) -> Option<u32> {
    let to = trace.wakes.partition_point(|w| w.ns <= end);
    trace
        .wakes
        .get(..to)?
        .iter()
        .rev()
        .take_while(|w| w.ns >= start)
        .find(|w| w.task == task)
        .map(|w| w.by)
        .filter(|by| *by != 0 && *by != task)
}
