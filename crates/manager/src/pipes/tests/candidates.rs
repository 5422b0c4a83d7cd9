//! The time for which a cheaper pipe has to suffice.

use super::super::why::Why;
use super::{FIRST, LinkId, SECOND, World, seconds};

const THIRD: LinkId = LinkId(2);

/// Three pipes, of which only the last one has a carrier, and is used.
fn third_is_used() -> World {
    let mut world = World::new(&[4.0, 8.0, 20.0], 2.0);
    for pipe in &mut world.pipes[..2] {
        pipe.carrier = false;
    }
    world.run(seconds(2));
    assert_eq!(world.used(), THIRD);
    world
}

#[test]
fn each_cheaper_one_has_to_suffice_for_5_s_of_its_own() {
    let mut world = third_is_used();
    world.pipes[0].carrier = true;
    world.run(seconds(4));
    (world.pipes[0].carrier, world.pipes[1].carrier) = (false, true);
    let before = world.ms();
    world.run(seconds(10));
    let (at, link, why) = *world.chosen.last().unwrap();
    assert_eq!((link, why), (SECOND, Why::Cheaper(THIRD)));
    assert!((5_000..5_500).contains(&(at - before)), "{}", at - before);
}

#[test]
fn one_that_comes_and_goes_does_not_hold_up_another_one() {
    let mut world = third_is_used();
    world.pipes[1].carrier = true;
    let before = world.ms();
    for second in 0..20 {
        world.pipes[0].carrier = second % 2 == 0;
        world.run(seconds(1));
    }
    let (at, link, why) = *world.chosen.last().unwrap();
    assert_eq!((link, why), (SECOND, Why::Cheaper(THIRD)));
    assert!((5_000..5_500).contains(&(at - before)), "{}", at - before);
    assert!(world.chosen.iter().all(|(_, link, _)| *link != FIRST));
}
