//! The primary's address changes under a download: between network namespaces of the test's own.

use std::time::{Duration, Instant};

use crate::apart::Apart;
use crate::daemons::{download, origin};
use mpbond_testing::namespaces::{is_called_for, play};

#[test]
fn another_address_is_joined_from_at_once() {
    play("-Urnm", "address::role");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::new();
    let origin = origin();
    let _proxy = apart.bond.start("proxy");
    let primary = apart.start_primary();
    apart.bond.joined(1);
    let running = download(&apart.bond, origin, 10_000_000);
    let changed = Instant::now();
    apart.there(&[
        "addr del 10.9.0.2/24 dev near0",
        "addr add 10.9.0.3/24 dev near0",
    ]);
    primary.logs("its address is gone");
    apart.bond.joined(1);
    eprintln!("figure: joined anew after {:?}", changed.elapsed());
    // Silence alone would have been given up after more than 15 s.
    assert!(
        changed.elapsed() < Duration::from_secs(10),
        "{}",
        primary.log()
    );
    assert_eq!(running.end().unwrap(), 10_000_000);
}
