//! Idle episodes, and the tasks and requests that wait across them.

use serde::Serialize;

use crate::usage::Run;

/// An interval in which no CPU ran a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Episode {
    pub start: u64,
    pub end: u64,
}

/// A task that was blocked throughout an episode and ran right after it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Suspect {
    /// Task id.
    pub task: u32,
    /// Name of the task.
    pub name: String,
    /// Last run before the episode: start and end, ns.
    pub before: Option<(u64, u64)>,
    /// First run after the episode: start and end, ns.
    pub after: (u64, u64),
    /// Whether the task waited for I/O.
    pub io_wait: bool,
    /// Kernel function in which it slept, if the trace has it.
    pub blocked_in: Option<String>,
}

/// A request (IPC transaction) that waited for its reply across an episode.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IpcWait {
    /// Thread that waits for the reply.
    pub client: u32,
    /// Thread that serves the request.
    pub server: Option<u32>,
    /// Process that serves the request.
    pub server_process: Option<u32>,
    /// Names of the serving thread and its process.
    pub server_names: Vec<String>,
    /// Name of the request in the trace.
    pub name: String,
    /// Innermost function that spans the episode: the server's, or else the client's.
    pub function: Option<String>,
    /// Time at which the request is sent, ns.
    pub start_ns: u64,
    /// Time at which the reply arrives, ns.
    pub end_ns: u64,
    /// Idle time during the wait, ms.
    pub idle_ms: f64,
    /// Idle share of the wait, 0 to 1.
    pub idle_share: f64,
    /// Whether the serving thread slept throughout the episode.
    pub server_slept: bool,
}

/// Intervals in which no CPU runs a task.
pub(super) fn episodes(runs: &[Run], start: u64, end: u64) -> Vec<Episode> {
    let mut list = Vec::new();
    let mut until = start;
    for r in runs.iter().filter(|r| r.task != 0) {
        if r.start > until {
            list.push(Episode {
                start: until,
                end: r.start,
            });
        }
        until = until.max(r.end);
    }
    if end > until {
        list.push(Episode { start: until, end });
    }
    list
}
