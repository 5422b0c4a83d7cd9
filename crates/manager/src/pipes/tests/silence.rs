//! Pipes that fall silent while bytes wait for them.

use std::time::Duration;

use super::super::why::Why;
use super::{FIRST, World, seconds};

/// Time from its silence until a pipe of 4 Mbit/s is left, behind a long way to the proxy.
fn left_after(source: f64) -> Duration {
    let mut world = World::new(&[4.0, 2.0], source);
    world.rtt = Duration::from_millis(500);
    world.run(seconds(5));
    assert_eq!(world.used(), FIRST);
    world.pipes[0].works = false;
    let (before, chosen) = (world.ms(), world.chosen.len());
    world.run(seconds(3));
    let (at, _, why) = world.chosen[chosen];
    assert_eq!(why, Why::Failed(FIRST));
    Duration::from_millis(at - before)
}

#[test]
fn a_silent_one_for_which_bytes_waited_is_left_without_a_round_trip_to_the_proxy() {
    let (without, with) = (left_after(1.0), left_after(6.0));
    assert!(without >= seconds(1), "{without:?}");
    assert!(with <= Duration::from_millis(600), "{with:?}");
}
