//! Parse rates on one core, compared with counting the line feeds of the same bytes by `memchr`,
//! which costs about as much as reading memory.
//!
//! The input consists of the shared samples, repeated in memory (with increasing times in text
//! formats); without the samples, of generated text.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

use mpbond_systrace::{Event, MethodRecord, Sink, Summary, TraceBuilder, read};

/// A sink that only counts records, to measure the reader alone.
#[derive(Default)]
struct Count(u64);

impl Sink for Count {
    fn event(&mut self, event: &Event<'_>) {
        self.0 += 1;
        black_box(event);
    }
    fn method(&mut self, record: MethodRecord) {
        self.0 += 1;
        black_box(record);
    }
}

fn sample(name: &str) -> Option<Vec<u8>> {
    let path = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/samples"
    ));
    let bytes = std::fs::read(path.join(name)).ok()?;
    if !name.ends_with(".gz") {
        return Some(bytes);
    }
    let mut out = Vec::new();
    flate2::read::GzDecoder::new(bytes.as_slice())
        .read_to_end(&mut out)
        .ok()?;
    Some(out)
}

/// A sample, or generated lines of the same kind.
fn text() -> Vec<u8> {
    let block = sample("ftrace/lisa_trace.txt").unwrap_or_else(|| {
        let line = |i: u64| {
            format!(
                "     kworker/0:1-{}    [00{}] d..2 {}.{:06}: sched_switch: prev_comm=kworker/0:1 \
                 prev_pid={} prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 \
                 next_prio=120\n",
                100 + i % 7,
                i % 4,
                i / 1_000,
                i % 1_000,
                100 + i % 7
            )
        };
        (0..3_000).map(line).collect::<String>().into_bytes()
    });
    // Each repetition is later than the one before, as in one long recording.
    let mut out = Vec::with_capacity(140 << 20);
    let mut later = 0;
    while out.len() < 128 << 20 {
        for line in block.split_inclusive(|b| *b == b'\n') {
            push_later(line, later, &mut out);
        }
        later += 8;
    }
    out
}

/// Copies a line with its time increased by whole seconds.
fn push_later(line: &[u8], later: u64, out: &mut Vec<u8>) {
    let stamp = memchr::memmem::find(line, b"] ").and_then(|bracket| {
        let dot = bracket + memchr::memchr(b'.', &line[bracket..])?;
        let digits = line[..dot].iter().rev().take_while(|b| b.is_ascii_digit());
        let start = dot - digits.count();
        let secs: u64 = std::str::from_utf8(&line[start..dot]).ok()?.parse().ok()?;
        Some((start, dot, secs))
    });
    match stamp {
        Some((start, dot, secs)) => {
            out.extend_from_slice(&line[..start]);
            out.extend_from_slice((secs + later).to_string().as_bytes());
            out.extend_from_slice(&line[dot..]);
        }
        None => out.extend_from_slice(line),
    }
}

fn repeat(block: &[u8], at_least: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(at_least + block.len());
    while out.len() < at_least {
        out.extend_from_slice(block);
    }
    out
}

/// Best of five runs, MB/s.
fn rate(bytes: usize, mut work: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    bytes as f64 / 1e6 / best
}

fn row(name: &str, bytes: &[u8]) {
    let baseline = rate(bytes.len(), || {
        black_box(memchr::memchr_iter(b'\n', black_box(bytes)).count());
    });
    let reader = rate(bytes.len(), || {
        let mut c = Count::default();
        read(black_box(bytes), &mut c).unwrap();
        black_box(c.0);
    });
    let summary = rate(bytes.len(), || {
        black_box(Summary::of(black_box(bytes)).unwrap());
    });
    let trace = rate(bytes.len(), || {
        let mut b = TraceBuilder::default();
        read(black_box(bytes), &mut b).unwrap();
        black_box(b.finish());
    });
    println!(
        "{name:<28} {:>5.0} MB  reader {reader:>6.0}  summary {summary:>6.0}  trace {trace:>6.0}  \
         newline count {baseline:>7.0}  MB/s",
        bytes.len() as f64 / 1e6
    );
}

fn main() {
    // `cargo test --benches` only checks that it starts.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    row("ftrace text", &text());
    if let Some(t) = sample("perfetto/ms_cpu_sampling_not_scoped.pftrace") {
        row("Perfetto, single events", &repeat(&t, 64 << 20));
    }
    if let Some(t) = sample("perfetto/derived_compact_sched_cpu_sampling.pftrace") {
        row("Perfetto, compact sched", &repeat(&t, 64 << 20));
    }
    if let Some(t) = sample("ftrace/lisa_sched_load.trace.dat.gz") {
        row("trace.dat v6 (one file)", &t);
    }
    // The records follow a header, so only they are repeated.
    if let Some(t) = sample("art-trace/ffprofiler_art-trace-regular.trace.gz") {
        let at = memchr::memmem::find(&t, b"*end\n").unwrap() + 5 + 32;
        let (head, records) = t.split_at(at);
        row(
            "method trace, classic",
            &[head, &repeat(records, 64 << 20)].concat(),
        );
    }
}
