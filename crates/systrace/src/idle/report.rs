//! Idle time by cause, and anomalies.

use std::collections::BTreeMap;

use serde::Serialize;

use super::episode::{Episode, IpcWait, Suspect, episodes};
use super::evidence::Evidence;
use super::index::Index;
use super::ipc;
use super::rules::{IdleRule, IdleRules};
use super::stall::{Stall, stalls};
use crate::activity::ratio;
use crate::trace::Trace;
use crate::usage::Run;

/// Minimum length of an episode, ns. Shorter gaps are wake-up latency: a CPU takes tens of
/// microseconds to leave an idle state.
const MIN_EPISODE_NS: u64 = 100_000;

/// Maximum number of episodes kept with their evidence; the longest ones are kept.
const MAX_DETAILS: usize = 1_000;

/// An idle episode with its cause and evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IdleEpisode {
    /// Start, ns.
    pub start_ns: u64,
    /// End, ns.
    pub end_ns: u64,
    /// Cause, by the name of its rule.
    pub cause: String,
    /// Tasks that were blocked throughout the episode and ran right after it.
    pub suspects: Vec<Suspect>,
    /// Requests that waited across the episode.
    pub ipc: Vec<IpcWait>,
    /// Functions of those tasks that span the episode or begin right after it.
    pub functions: Vec<String>,
    /// Name of the interrupt that ended the episode.
    pub interrupt: Option<String>,
}

/// Idle time of one cause (Android Wear characterization, Table 4).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IdleCause {
    /// Cause, by the name of its rule.
    pub cause: String,
    /// Whether the cause is an anomaly.
    pub anomaly: bool,
    /// Whether the cause counts as an explanation.
    pub explained: bool,
    /// Number of episodes.
    pub episodes: u64,
    /// Idle time, s.
    pub idle_s: f64,
    /// Share of all idle time, percent.
    pub percent: f64,
}

/// An anomaly: one request or task, with all episodes that it caused.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IdleFinding {
    /// Cause, by the name of its rule.
    pub cause: String,
    /// Process id of the waiting thread.
    pub process: u32,
    /// Name of that process.
    pub process_name: String,
    /// Waiting thread.
    pub thread: u32,
    /// Name of the waiting thread.
    pub thread_name: String,
    /// Thread that it waits for.
    pub server: Option<u32>,
    /// Names of that thread and its process.
    pub server_names: Vec<String>,
    /// Responsible function.
    pub function: Option<String>,
    /// Start of the wait, ns.
    pub start_ns: u64,
    /// End of the wait, ns.
    pub end_ns: u64,
    /// Start of the wait, s on the trace clock.
    pub start_s: f64,
    /// Idle time during the wait, s.
    pub duration_s: f64,
    /// Idle time during the wait, ms.
    pub idle_ms: f64,
    /// Number of episodes during the wait.
    pub episodes: u64,
    /// The finding as a sentence.
    pub text: String,
}

/// Causes of all idle time of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IdleReport {
    /// Window, s: first to last switch.
    pub span_s: f64,
    /// Time in which no CPU ran a task, s.
    pub idle_s: f64,
    /// Its share of the window, percent.
    pub idle_percent: f64,
    /// Number of episodes.
    pub episodes: u64,
    /// Share of the idle time with a known cause, percent.
    pub explained_percent: f64,
    /// The same share as a number from 0 to 1.
    pub explained_share: f64,
    /// Idle time by cause, largest first.
    pub causes: Vec<IdleCause>,
    /// Anomalies, longest idle time first.
    pub findings: Vec<IdleFinding>,
    /// The longest episodes, by start time.
    pub details: Vec<IdleEpisode>,
}

const SHORT: &str = "wake-up latency (under 0.1 ms)";
const UNKNOWN: &str = "unexplained";

impl IdleReport {
    /// Explains every idle episode of a trace; `None` without switches.
    pub fn of(trace: &Trace, runs: &[Run], rules: &IdleRules) -> Option<Self> {
        let (start, end) = trace.window()?;
        let episodes = episodes(runs, start, end);
        let index = Index::new(trace, runs, &episodes, ipc::requests(trace), rules);
        let idle: u64 = episodes.iter().map(|e| e.end - e.start).sum();
        let mut causes: BTreeMap<String, IdleCause> = BTreeMap::new();
        let mut findings: Findings = BTreeMap::new();
        let (mut details, mut floor) = (Vec::new(), 0);
        let stalls = Stalls::of(&index, rules, &mut findings);
        for e in &episodes {
            let ns = e.end - e.start;
            if ns < MIN_EPISODE_NS {
                add(&mut causes, SHORT, false, false, ns);
                continue;
            }
            let mut evidence = index.evidence(e);
            let found = rules.explain(&evidence);
            if let Some((rule, wait)) = found
                && rule.anomaly
            {
                add_finding(trace, &mut findings, &rule.cause, &evidence, wait, e);
            }
            let stall = stalls.across(e);
            // The cause of the wait counts for all its episodes, not that of each one's end.
            let rule = match (found, stall) {
                (Some((rule, _)), _) if rule.anomaly => Some(rule),
                (_, Some((_, rule))) => Some(*rule),
                _ => found.map(|f| f.0),
            };
            let (cause, anomaly, explained) = match rule {
                Some(r) => (r.cause.as_str(), r.anomaly, r.explained),
                None => (UNKNOWN, false, false),
            };
            add(&mut causes, cause, anomaly, explained, ns);
            if ns <= floor {
                continue;
            }
            if let Some((stall, _)) = stall {
                index.add_threads(stall, e, &mut evidence);
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
                floor = details.last().map_or(0, |d| d.end_ns - d.start_ns);
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
            f.start_s = f.start_ns as f64 / 1e9;
            f.duration_s = f.idle_ms / 1e3;
            f.text = describe(f, start);
        }
        findings.sort_by(|a, b| b.idle_ms.total_cmp(&a.idle_ms));
        // The sum of an empty list of floats is -0.
        let explained = causes.iter().filter(|c| c.explained);
        let explained_percent = explained.fold(0.0, |sum, c| sum + c.percent);
        Some(Self {
            span_s: (end - start) as f64 / 1e9,
            idle_s: idle as f64 / 1e9,
            idle_percent: 100.0 * ratio(idle, end - start),
            episodes: episodes.len() as u64,
            explained_percent,
            explained_share: explained_percent / 100.0,
            causes,
            findings,
            details,
        })
    }
}

/// Stalls with the rules that explain them.
struct Stalls<'r> {
    list: Vec<(Stall, &'r IdleRule)>,
    longest_ns: u64,
}

impl<'r> Stalls<'r> {
    /// Explains all stalls of a trace, and adds a finding for each whose cause is an anomaly. The
    /// findings of recorded requests come from their episodes instead.
    fn of(index: &Index<'_>, rules: &'r IdleRules, findings: &mut Findings) -> Self {
        let mut list = Vec::new();
        for stall in stalls(index, rules.shortest_stall_ns()) {
            let mut evidence = index.evidence_of_stall(&stall);
            let Some((rule, wait)) = rules.explain(&evidence) else {
                continue;
            };
            if rule.anomaly {
                let wait = wait.cloned();
                evidence.ipc = index.requested(&stall);
                let recorded = rules.explain(&evidence);
                let recorded = recorded.filter(|(r, w)| r.anomaly && evidence.is_request(*w));
                if let Some((rule, _)) = recorded {
                    list.push((stall, rule));
                    continue;
                }
                for e in index.episodes_within(stall.start, stall.end) {
                    let wait = wait.as_ref();
                    add_finding(index.trace, findings, &rule.cause, &evidence, wait, e);
                }
            }
            list.push((stall, rule));
        }
        let longest = list.iter().map(|(s, _)| s.end - s.start).max();
        Self {
            list,
            longest_ns: longest.unwrap_or(0),
        }
    }

    /// The stall with the most idle time of those that span an episode.
    fn across(&self, e: &Episode) -> Option<&(Stall, &'r IdleRule)> {
        let from = e.start.saturating_sub(self.longest_ns);
        let at = self.list.partition_point(|(s, _)| s.start < from);
        (self.list.get(at..)?.iter())
            .take_while(|(s, _)| s.start <= e.start)
            .filter(|(s, _)| s.end >= e.end)
            .max_by_key(|(s, _)| s.idle)
    }
}

fn add(
    causes: &mut BTreeMap<String, IdleCause>,
    cause: &str,
    anomaly: bool,
    explained: bool,
    ns: u64,
) {
    if let Some(row) = causes.get_mut(cause) {
        row.episodes += 1;
        row.idle_s += ns as f64 / 1e9;
        return;
    }
    let row = IdleCause {
        cause: cause.to_owned(),
        anomaly,
        explained,
        episodes: 1,
        idle_s: ns as f64 / 1e9,
        percent: 0.0,
    };
    causes.insert(cause.to_owned(), row);
}

fn keep_longest(details: &mut Vec<IdleEpisode>) {
    details.sort_by_key(|d| std::cmp::Reverse(d.end_ns - d.start_ns));
    details.truncate(MAX_DETAILS);
}

/// Findings by cause, waiting thread and start time, with the length of their longest episode, ns.
type Findings = BTreeMap<(String, u32, u64), (IdleFinding, u64)>;

/// Adds an episode to the finding of its request, or of its first suspect.
fn add_finding(
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
                start_s: 0.0,
                duration_s: 0.0,
                idle_ms: 0.0,
                episodes: 0,
                text: String::new(),
            };
            (finding, 0)
        });
    f.idle_ms += length as f64 / 1e6;
    f.episodes += 1;
    if length > *longest {
        // The function of the longest episode counts: other functions may be active before the
        // server receives the request or while the request is passed on.
        *longest = length;
        f.function = match wait {
            Some(w) => w.function.clone(),
            None => evidence.functions.first().cloned(),
        };
    }
}

fn describe(f: &IdleFinding, origin: u64) -> String {
    let at = (f.start_ns.saturating_sub(origin)) as f64 / 1e9;
    let waited = (f.end_ns - f.start_ns) as f64 / 1e6;
    let mut text = format!(
        "{}: from {at:.4} s, thread {} ({}) of process {} ({}) waits {waited:.1} ms",
        f.cause, f.thread_name, f.thread, f.process_name, f.process
    );
    if let Some(server) = f.server_names.first() {
        text += &format!(" for thread {server}");
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
        "; all CPUs are idle for {:.1} ms of it ({} episodes)",
        f.idle_ms, f.episodes
    );
    text
}
