//! Facts about the sample files, as listed in the samples' README and determined with other tools.

// Test helpers may unwrap like tests; clippy recognizes test functions only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod method_traces;
mod oracle;
mod perf_samples;
mod perfetto_traces;
mod report;
mod text_traces;
mod trace_dat;
mod usage;

use mpbond_systrace::{Summary, open};
use mpbond_testing::sample;

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
        // The listed values are rounded to two decimals.
        near(found.busy_percent, *percent, 0.0051);
    }
}
