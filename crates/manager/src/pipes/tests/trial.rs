//! When trials end: also of pipes whose radios wake.

use std::time::Duration;

use super::super::facts::PIPES_EVERY;
use super::super::why::{PipeUse, Why};
use super::{FIRST, SECOND, World, seconds};

/// A trial of the second pipe, of 20 Mbit/s, has begun, since the first one is too slow; when.
fn tried() -> (World, u64) {
    let mut world = World::new(&[1.0, 20.0], 5.0);
    while world.tried == 0 {
        world.run(PIPES_EVERY);
    }
    world.pipes[1].works = false;
    let at = world.ms();
    (world, at)
}

#[test]
fn a_tried_one_that_brings_nothing_for_a_second_first_is_compared_after_that() {
    let (mut world, tried) = tried();
    world.run(seconds(1));
    assert_eq!(world.choice.of(SECOND).unwrap().state, PipeUse::Tried);
    world.pipes[1].works = true;
    world.run(seconds(2));
    let (at, link, why) = world.chosen[0];
    assert_eq!((link, why), (SECOND, Why::TooSlow(FIRST)));
    // It brings in two looks what the first one does in a second.
    assert_eq!(at, tried + 1_200);
}

/// Times from the beginning of a trial of a pipe of this rate, beside one of 1 Mbit/s, to its end.
fn ends_after(rate: f64) -> Duration {
    let mut world = World::new(&[1.0, rate], 5.0);
    while world.tried == 0 {
        world.run(PIPES_EVERY);
    }
    let tried = world.ms();
    while world.chosen.is_empty() {
        world.run(PIPES_EVERY);
    }
    assert_eq!(world.used(), SECOND);
    Duration::from_millis(world.chosen[0].0 - tried)
}

#[test]
fn a_trial_ends_once_the_tried_one_has_carried_what_the_used_one_does_in_a_second() {
    for (rate, ms) in [(1.1, 1_000), (1.5, 700), (3.0, 400), (20.0, 200)] {
        assert_eq!(ends_after(rate), Duration::from_millis(ms), "{rate}");
    }
}

#[test]
fn a_tried_one_that_brings_nothing_is_too_slow_after_two_seconds() {
    let (mut world, _) = tried();
    world.run(seconds(2));
    assert_eq!((world.used(), world.chosen.len()), (FIRST, 0));
    assert_eq!(world.choice.of(SECOND).unwrap().state, PipeUse::Standby);
}

/// The bytes of the faster one count no longer.
#[test]
fn bytes_that_wait_for_a_slow_one_are_seen_as_soon_after_a_faster_one_was_lost() {
    let mut world = World::new(&[20.0, 1.0], 15.0);
    world.run(seconds(5));
    world.pipes[0].carrier = false;
    let before = world.ms();
    world.run(PIPES_EVERY);
    assert_eq!((world.used(), world.tried), (SECOND, 0));
    world.pipes[0].carrier = true;
    while world.tried == 0 {
        world.run(PIPES_EVERY);
    }
    assert!(world.ms() - before <= 800, "{}", world.ms() - before);
}
