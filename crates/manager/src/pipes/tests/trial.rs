//! Trials of pipes whose radios wake.

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
    assert_eq!(at, tried + 2_000);
}

#[test]
fn a_tried_one_that_brings_nothing_is_too_slow_after_two_seconds() {
    let (mut world, _) = tried();
    world.run(seconds(2));
    assert_eq!((world.used(), world.chosen.len()), (FIRST, 0));
    assert_eq!(world.choice.of(SECOND).unwrap().state, PipeUse::Standby);
}
