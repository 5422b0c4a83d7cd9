//! `IdleChecker` (section 4, *Idle Time Analysis*; section 5.2, Table 4): why
//! nothing ran.

mod evidence;
mod ipc;
mod rules;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::activity::ratio;
use crate::trace::Trace;
use crate::usage::Run;
use evidence::{Evidence, Index};
pub use rules::{Condition, IdleRule, IdleRules};

/// Episodes shorter than this are wake-up latency, not idleness: a CPU takes
/// tens of microseconds to leave its idle state.
const MIN_EPISODE_NS: u64 = 100_000;

/// Episodes that are kept with all their evidence, the longest ones.
const MAX_DETAILS: usize = 1_000;

/// A stretch in which no CPU ran a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Episode {
    pub start: u64,
    pub end: u64,
}

/// A task that was blocked throughout an episode and ran right after it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Suspect {
    /// The task.
    pub task: u32,
    /// Its name.
    pub name: String,
    /// Its last run before the episode, begin and end, ns.
    pub before: Option<(u64, u64)>,
    /// Its first run after the episode.
    pub after: (u64, u64),
    /// Whether it waited for storage.
    pub io_wait: bool,
    /// Kernel function it slept in, where the trace says.
    pub blocked_in: Option<String>,
}

/// A request that waited for its reply across an episode.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IpcWait {
    /// Thread that waits.
    pub client: u32,
    /// Thread that serves it.
    pub server: Option<u32>,
    /// Process that serves it.
    pub server_process: Option<u32>,
    /// Names of the serving thread and process.
    pub server_names: Vec<String>,
    /// What the trace calls the request.
    pub name: String,
    /// Innermost function across the episode: the server's, else the client's.
    pub function: Option<String>,
    /// Request leaves, ns.
    pub start_ns: u64,
    /// Reply arrives, ns.
    pub end_ns: u64,
    /// Idle in between, ms.
    pub idle_ms: f64,
    /// Share of the wait that was idle.
    pub idle_share: f64,
    /// Whether the serving thread slept throughout the episode.
    pub server_slept: bool,
}

/// An episode with what was found about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IdleEpisode {
    /// Begin, ns.
    pub start_ns: u64,
    /// End, ns.
    pub end_ns: u64,
    /// Its cause.
    pub cause: String,
    /// Tasks that were blocked throughout and ran right after.
    pub suspects: Vec<Suspect>,
    /// Requests that waited across it.
    pub ipc: Vec<IpcWait>,
    /// Functions across it, or right after it, on those tasks.
    pub functions: Vec<String>,
    /// Interrupt that ended it.
    pub interrupt: Option<String>,
}

/// One line of Table 4.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IdleCause {
    /// The cause.
    pub cause: String,
    /// Whether it is an anomaly.
    pub anomaly: bool,
    /// Whether it explains anything.
    pub explained: bool,
    /// Episodes.
    pub episodes: u64,
    /// Their time, s.
    pub idle_s: f64,
    /// Share of all idle time, percent.
    pub percent: f64,
}

/// An anomaly: one request or task, however many episodes it caused.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IdleFinding {
    /// The cause.
    pub cause: String,
    /// Process that waits.
    pub process: u32,
    /// Its name.
    pub process_name: String,
    /// Thread that waits.
    pub thread: u32,
    /// Its name.
    pub thread_name: String,
    /// Thread that keeps it waiting.
    pub server: Option<u32>,
    /// Names of that thread and its process.
    pub server_names: Vec<String>,
    /// Function in question.
    pub function: Option<String>,
    /// Begin of the wait, ns.
    pub start_ns: u64,
    /// End of the wait, ns.
    pub end_ns: u64,
    /// Idle time in it, ms.
    pub idle_ms: f64,
    /// Episodes in it.
    pub episodes: u64,
    /// All of that in a sentence.
    pub text: String,
}

/// What [`IdleReport::of`] found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IdleReport {
    /// Window, s.
    pub span_s: f64,
    /// Time in which no CPU ran a task, s.
    pub idle_s: f64,
    /// Its share of the window, percent.
    pub idle_percent: f64,
    /// Number of episodes.
    pub episodes: u64,
    /// Share of the idle time whose cause is known, percent.
    pub explained_percent: f64,
    /// Time by cause, the largest first.
    pub causes: Vec<IdleCause>,
    /// Anomalies, the longest idle first.
    pub findings: Vec<IdleFinding>,
    /// The longest episodes, by begin.
    pub details: Vec<IdleEpisode>,
}

const SHORT: &str = "shorter than 0.1 ms";
const UNKNOWN: &str = "not explained";

impl IdleReport {
    /// Explains every idle episode of a trace; `None` without switches.
    pub fn of(trace: &Trace, runs: &[Run], rules: &IdleRules) -> Option<Self> {
        let (start, end) = trace.window()?;
        let episodes = episodes(runs, start, end);
        let index = Index::new(
            trace,
            runs,
            &episodes,
            ipc::requests(trace),
            &rules.waits_by_design,
        );
        let idle: u64 = episodes.iter().map(|e| e.end - e.start).sum();
        let mut causes: BTreeMap<String, IdleCause> = BTreeMap::new();
        let mut findings: Findings = BTreeMap::new();
        let mut details = Vec::new();
        for e in &episodes {
            let ns = e.end - e.start;
            if ns < MIN_EPISODE_NS {
                add(&mut causes, SHORT, false, false, ns);
                continue;
            }
            let evidence = index.evidence(e);
            let (cause, anomaly, explained, ipc) = match rules.explain(&evidence) {
                Some((r, ipc)) => (r.cause.as_str(), r.anomaly, r.explained, ipc),
                None => (UNKNOWN, false, false, None),
            };
            add(&mut causes, cause, anomaly, explained, ns);
            if anomaly {
                let wait = ipc.and_then(|i| evidence.ipc.get(i));
                note(trace, &mut findings, cause, &evidence, wait, e);
            }
            details.push(IdleEpisode {
                start_ns: e.start,
                end_ns: e.end,
                cause: cause.to_owned(),
                suspects: evidence.suspects,
                ipc: evidence.ipc,
                functions: evidence.functions,
                interrupt: evidence.irq.into_iter().next(),
            });
            if details.len() >= 2 * MAX_DETAILS {
                keep_longest(&mut details);
            }
        }
        keep_longest(&mut details);
        details.sort_by_key(|d| d.start_ns);
        let mut causes: Vec<IdleCause> = causes.into_values().collect();
        for c in &mut causes {
            c.percent = 100.0 * c.idle_s * 1e9 / (idle.max(1)) as f64;
        }
        causes.sort_by(|a, b| b.idle_s.total_cmp(&a.idle_s));
        let mut findings: Vec<IdleFinding> = findings.into_values().map(|f| f.0).collect();
        for f in &mut findings {
            f.text = sentence(f, start);
        }
        findings.sort_by(|a, b| b.idle_ms.total_cmp(&a.idle_ms));
        Some(Self {
            span_s: (end - start) as f64 / 1e9,
            idle_s: idle as f64 / 1e9,
            idle_percent: 100.0 * ratio(idle, end - start),
            episodes: episodes.len() as u64,
            explained_percent: causes
                .iter()
                .filter(|c| c.explained)
                // An empty sum of floats is -0.
                .fold(0.0, |sum, c| sum + c.percent),
            causes,
            findings,
            details,
        })
    }
}

/// Gaps between the runs of all CPUs.
fn episodes(runs: &[Run], start: u64, end: u64) -> Vec<Episode> {
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

fn add(
    causes: &mut BTreeMap<String, IdleCause>,
    cause: &str,
    anomaly: bool,
    explained: bool,
    ns: u64,
) {
    let row = causes.entry(cause.to_owned()).or_insert_with(|| IdleCause {
        cause: cause.to_owned(),
        anomaly,
        explained,
        episodes: 0,
        idle_s: 0.0,
        percent: 0.0,
    });
    row.episodes += 1;
    row.idle_s += ns as f64 / 1e9;
}

fn keep_longest(details: &mut Vec<IdleEpisode>) {
    details.sort_by_key(|d| std::cmp::Reverse(d.end_ns - d.start_ns));
    details.truncate(MAX_DETAILS);
}

/// Findings by cause, thread and begin, with the length of their longest
/// episode, ns.
type Findings = BTreeMap<(String, u32, u64), (IdleFinding, u64)>;

/// Adds an episode to the finding of its request, or of its first suspect.
fn note(
    trace: &Trace,
    findings: &mut Findings,
    cause: &str,
    evidence: &Evidence,
    wait: Option<&IpcWait>,
    e: &Episode,
) {
    let suspect = evidence.suspects.first();
    let thread = match (wait, suspect) {
        (Some(w), _) => w.client,
        (None, Some(s)) => s.task,
        (None, None) => return,
    };
    let begin = wait.map_or(e.start, |w| w.start_ns);
    let process = trace.tasks.process(thread);
    let length = e.end - e.start;
    let (f, longest) = findings
        .entry((cause.to_owned(), thread, begin))
        .or_insert_with(|| {
            let finding = IdleFinding {
                cause: cause.to_owned(),
                process,
                process_name: trace.tasks.process_name(process),
                thread,
                thread_name: trace.tasks.name(thread),
                server: wait.and_then(|w| w.server),
                server_names: wait.map(|w| w.server_names.clone()).unwrap_or_default(),
                function: None,
                start_ns: begin,
                end_ns: wait.map_or(e.end, |w| w.end_ns),
                idle_ms: 0.0,
                episodes: 0,
                text: String::new(),
            };
            (finding, 0)
        });
    f.idle_ms += length as f64 / 1e6;
    f.episodes += 1;
    if length > *longest {
        // Where most of the time goes: before the server took the request up,
        // or while it went on its way, other functions may show.
        *longest = length;
        f.function = match wait {
            Some(w) => w.function.clone(),
            None => evidence.functions.first().cloned(),
        };
    }
}

fn sentence(f: &IdleFinding, origin: u64) -> String {
    let at = (f.start_ns.saturating_sub(origin)) as f64 / 1e6;
    let waited = (f.end_ns - f.start_ns) as f64 / 1e6;
    let mut text = format!(
        "{}: thread {} ({}) of process {} ({}) waits {waited:.1} ms from {at:.1} ms on",
        f.cause, f.thread_name, f.thread, f.process_name, f.process
    );
    if let Some(server) = f.server_names.first() {
        text += &format!(" for {server}");
        if let Some(tid) = f.server {
            text += &format!(" ({tid})");
        }
        if let Some(process) = f.server_names.get(1) {
            text += &format!(" of process {process}");
        }
    }
    if let Some(function) = &f.function {
        text += &format!(", in {function}");
    }
    text += &format!(
        "; no CPU has work for {:.1} ms of it ({} episodes)",
        f.idle_ms, f.episodes
    );
    text
}
