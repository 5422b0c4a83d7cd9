//! The samples' README states facts that other tools found in each file; these
//! tests hold us to them.

// Helpers of tests may unwrap as tests do; clippy only knows the test functions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod method_traces;
mod oracle;
mod perf_samples;
mod perfetto_traces;
mod report;
mod text_traces;
mod trace_dat;
mod usage;

use std::path::PathBuf;

use mpbond_systrace::{Summary, open};

/// The file, or `None` (said on stderr) where the samples are not there.
fn sample(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/samples"
    ))
    .join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {name} is not among the shared samples here");
    None
}

fn summary(name: &str) -> Option<Summary> {
    let path = sample(name)?;
    Some(Summary::of(open(&path).unwrap()).unwrap_or_else(|e| panic!("{name}: {e}")))
}

#[track_caller]
fn events(s: &Summary, expected: &[(&str, u64)]) {
    for (name, count) in expected {
        assert_eq!(s.events.get(*name), Some(count), "{name}");
    }
}

#[track_caller]
fn near(value: f64, expected: f64, tolerance: f64) {
    assert!(
        (value - expected).abs() <= tolerance,
        "{value} is not {expected} ± {tolerance}"
    );
}

#[track_caller]
fn busy(s: &Summary, expected: &[(u32, f64)]) {
    for (cpu, percent) in expected {
        let found = s.cpus.iter().find(|c| c.cpu == *cpu).unwrap();
        // The facts are rounded to a hundredth.
        near(found.busy_percent, *percent, 0.0051);
    }
}
