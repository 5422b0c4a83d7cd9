//! A short endurance test: all daemons under mixed traffic for 20 seconds. `make soak` runs the
//! same for half an hour.
#![allow(clippy::unwrap_used, dead_code)] // of tests; parts of the example

use std::time::Duration;

use crate::programs::mpbond;

#[path = "../../examples/load/daemon.rs"]
mod daemon;
#[path = "../../examples/load/isolate.rs"]
mod isolate;
#[path = "../../examples/load/origin.rs"]
mod origin;
#[path = "../../examples/load/pattern.rs"]
mod pattern;
#[path = "../../examples/load/soak.rs"]
mod soak;

/// The time is too short to judge memory. The test checks that every byte is right while a helper
/// is killed, and that every descriptor and thread is released.
#[test]
fn steady_traffic_leaves_nothing_behind() {
    isolate::own_network();
    let outcome = soak::soak(mpbond(), Duration::from_secs(20)).unwrap();
    let summary = outcome.summary();
    assert!(outcome.holds(), "{summary}\n{outcome:?}");
    let t = &outcome.traffic;
    assert!(
        t.downloads > 3 && t.uploads > 0 && t.small > 5 && t.broken_off > 0,
        "{summary}"
    );
    assert!(t.helper_deaths > 1, "{summary}");
}
