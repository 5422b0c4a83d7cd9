//! Summary of a trace: event counts, busy shares, TLP, missing data.

use std::collections::BTreeMap;
use std::io::Read;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::activity::CpuActivity;
use crate::clusters::TimeClusters;
use crate::error::{Incomplete, TraceError};
use crate::event::{Event, MethodAction, MethodRecord, Payload, Sample, ThreadInfo};
use crate::input::{Format, read};
use crate::sink::Sink;

/// Maximum number of distinct event names that are counted separately; only a hostile file has
/// more.
const MAX_NAMES: usize = 4096;

/// Summary of a trace, in the JSON form of `mpbond trace summary`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Name of the format.
    pub format: String,
    /// Number of events by event name.
    pub events: BTreeMap<String, u64>,
    /// Length of the window, s: first to last `sched_switch`, or first to last event if the trace
    /// has no switch.
    pub span_s: f64,
    /// Busy share of each CPU.
    pub cpus: Vec<CpuBusy>,
    /// c_0, c_1, …: share of the window with exactly 0, 1, … CPUs busy, percent.
    pub concurrency_percent: Vec<f64>,
    /// Thread-level parallelism; null if no CPU was busy or the trace has no switches.
    pub tlp: Option<f64>,
    /// Counts of a method trace; null for other formats.
    pub methods: Option<MethodCounts>,
    /// Number of profiler samples; null for formats without samples.
    pub samples: Option<u64>,
    /// Missing or damaged data; null if the trace is complete as far as known.
    pub incomplete: Option<String>,
    /// Number of threads with events.
    pub threads: usize,
    /// Counts of records that are neither events nor samples: packets, log lines.
    pub other_records: BTreeMap<String, u64>,
    /// Key-value pairs of the header.
    pub header: BTreeMap<String, String>,
    /// Further notes on the quality of the data.
    pub notes: Vec<String>,
}

/// One CPU of a [`Summary`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CpuBusy {
    /// CPU number.
    pub cpu: u32,
    /// Share of the window in which it ran a task other than idle, percent.
    pub busy_percent: f64,
}

/// Counts of a method trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MethodCounts {
    /// Number of records: calls, returns, unwinds.
    pub records: u64,
    /// Number of methods with records.
    pub distinct: u64,
    /// Number of methods in the trace's method list, with or without records.
    pub distinct_listed: u64,
    /// Number of threads with records.
    pub threads: u64,
    /// Number of threads in the trace's thread list, with or without records.
    pub threads_listed: u64,
}

impl Summary {
    /// Reads a trace and summarizes it.
    ///
    /// # Errors
    /// As [`read`].
    pub fn of(input: impl Read) -> Result<Self, TraceError> {
        let mut sums = Summarizer::default();
        let format = read(input, &mut sums)?;
        Ok(sums.finish(format))
    }
}

/// The [`Sink`] that makes a [`Summary`]: eight bytes per task switch, and counters.
#[derive(Debug, Default)]
pub struct Summarizer {
    activity: CpuActivity,
    spans: TimeClusters,
    names: FxHashMap<Box<str>, u64>,
    other: FxHashMap<Box<str>, u64>,
    cpus: FxHashSet<u32>,
    threads: FxHashSet<u32>,
    last_thread: Option<(u32, u32)>,
    method_records: u64,
    /// Numbers of calls, returns and unwinds.
    method_actions: [u64; 3],
    methods: FxHashSet<u32>,
    listed_methods: FxHashSet<u32>,
    method_threads: FxHashSet<u32>,
    listed_threads: FxHashSet<u32>,
    method_times: Option<(u32, u32)>,
    is_method_trace: bool,
    samples: Option<u64>,
    incomplete: Vec<Incomplete>,
    header: BTreeMap<String, String>,
}

fn count(counts: &mut FxHashMap<Box<str>, u64>, name: &str) {
    if let Some(n) = counts.get_mut(name) {
        *n += 1;
    } else if counts.len() < MAX_NAMES {
        counts.insert(name.into(), 1);
    } else {
        *counts.entry("(other names)".into()).or_default() += 1;
    }
}

impl Summarizer {
    /// Computes the summary.
    pub fn finish(mut self, format: Format) -> Summary {
        let mut incomplete = std::mem::take(&mut self.incomplete);
        let concurrency = self.activity.concurrency();
        if concurrency.is_some() {
            incomplete.extend(self.activity.faults());
        }
        let mut notes = Vec::new();
        let broken = self.activity.prev_mismatches();
        if broken > 0 {
            notes.push(format!(
                "{broken} sched_switch events do not follow from the previous one on their CPU: \
                 events are missing between them"
            ));
        }
        let span_ns = match (&concurrency, self.spans.main(), self.method_times) {
            (Some(c), ..) => c.span_ns(),
            (None, Some(main), _) => {
                if main.strays > 0 {
                    incomplete.push(Incomplete::Stray(main.strays));
                }
                main.last - main.first
            }
            (None, None, Some((first, last))) => u64::from(last - first) * 1_000,
            (None, None, None) => 0,
        };
        let mut busy: BTreeMap<u32, f64> = BTreeMap::new();
        let mut shares = Vec::new();
        let mut tlp = None;
        if let Some(c) = &concurrency {
            busy = self.cpus.iter().map(|cpu| (*cpu, 0.0)).collect();
            for (cpu, ns) in &c.busy_ns {
                busy.insert(*cpu, 100.0 * crate::activity::ratio(*ns, c.span_ns()));
            }
            if c.span_ns() > 0 {
                shares = (0..c.level_ns.len()).map(|i| 100.0 * c.share(i)).collect();
            }
            tlp = c.tlp();
        }
        if self.is_method_trace {
            for (name, n) in ["enter", "exit", "unroll"].iter().zip(self.method_actions) {
                if n > 0 {
                    self.names.insert((*name).into(), n);
                }
            }
        }
        Summary {
            format: format.name().into(),
            events: sorted(self.names),
            span_s: span_ns as f64 / 1e9,
            cpus: busy
                .into_iter()
                .map(|(cpu, busy_percent)| CpuBusy { cpu, busy_percent })
                .collect(),
            concurrency_percent: shares,
            tlp,
            methods: self.is_method_trace.then_some(MethodCounts {
                records: self.method_records,
                distinct: self.methods.len() as u64,
                distinct_listed: self.listed_methods.len() as u64,
                threads: self.method_threads.len() as u64,
                threads_listed: self.listed_threads.len() as u64,
            }),
            samples: self.samples,
            incomplete: join(&incomplete),
            threads: self.threads.len(),
            other_records: sorted(self.other),
            header: self.header,
            notes,
        }
    }
}

fn sorted(counts: FxHashMap<Box<str>, u64>) -> BTreeMap<String, u64> {
    counts.into_iter().map(|(k, v)| (k.into(), v)).collect()
}

/// Joins the descriptions of missing data: the first ones, and the number of the others.
pub(crate) fn join(list: &[Incomplete]) -> Option<String> {
    const SHOWN: usize = 8;
    if list.is_empty() {
        return None;
    }
    let mut text: Vec<String> = list.iter().take(SHOWN).map(ToString::to_string).collect();
    if list.len() > SHOWN {
        text.push(format!("and {} more", list.len() - SHOWN));
    }
    Some(text.join("; "))
}

impl Sink for Summarizer {
    fn event(&mut self, event: &Event<'_>) {
        count(&mut self.names, event.name);
        self.spans.add(event.time.as_nanos());
        if self.last_thread != Some((event.tid, event.cpu)) {
            self.last_thread = Some((event.tid, event.cpu));
            self.threads.insert(event.tid);
            self.cpus.insert(event.cpu);
        }
        if let Payload::Switch(s) = &event.payload {
            self.activity.switch(event.cpu, event.time.as_nanos(), s);
        }
    }

    fn thread(&mut self, info: ThreadInfo<'_>) {
        self.listed_threads.insert(info.tid);
    }

    fn method(&mut self, record: MethodRecord) {
        self.method_records += 1;
        let action = match record.action {
            MethodAction::Enter => 0,
            MethodAction::Exit => 1,
            MethodAction::Unroll => 2,
        };
        if let Some(n) = self.method_actions.get_mut(action) {
            *n += 1;
        }
        self.methods.insert(record.method);
        self.method_threads.insert(record.thread);
        if let Some(t) = record.wall_us.or(record.cpu_us) {
            let (first, last) = self.method_times.get_or_insert((t, t));
            *first = (*first).min(t);
            *last = (*last).max(t);
        }
    }

    fn method_name(&mut self, method: u32, _name: &str) {
        self.listed_methods.insert(method);
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        *self.samples.get_or_insert(0) += 1;
        if !sample.event.is_empty() {
            count(&mut self.names, sample.event);
        }
        self.threads.insert(sample.tid);
        if let Some(t) = sample.time {
            self.spans.add(t.as_nanos());
        }
    }

    fn other(&mut self, kind: &str) {
        count(&mut self.other, kind);
    }

    fn incomplete(&mut self, what: Incomplete) {
        // A damaged file may report a loss at every record.
        if self.incomplete.len() < 1000 {
            self.incomplete.push(what);
        }
    }

    fn header(&mut self, key: &str, value: &str) {
        if key == "method-trace" {
            self.is_method_trace = true;
        }
        if self.header.len() < 256 {
            self.header.insert(key.into(), value.into());
        }
    }
}
