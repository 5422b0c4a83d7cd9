//! The choice among pipes with signals.

use super::super::facts::PIPES_EVERY;
use super::super::signal::Signal;
use super::super::why::Why;
use super::{BitRate, FIRST, SECOND, World, seconds};

/// The signal of the first pipe in dBm after so many steps: it falls from -64 by 1 dB/s, then rises
/// again, with an error of 4 dB to either side.
fn walk(step: i16) -> Signal {
    let mean = -64 - (step / 10).min(60 - step / 10);
    let error = if step % 4 < 2 { 4 } else { -4 };
    Signal::Wifi(mean + error)
}

#[test]
fn a_pipe_with_a_weak_signal_is_left_while_it_works_and_returned_to() {
    let mut world = World::new(&[10.0, 4.0], 2.0);
    world.pipes[1].signal = Some(Signal::Wifi(-70));
    for step in 0..900 {
        world.pipes[0].signal = Some(walk(step));
        world.run(PIPES_EVERY);
    }
    let [(left, second, weak), (back, first, cheaper)] = world.chosen[..] else {
        panic!("{:?}", world.chosen);
    };
    assert_eq!((second, weak), (SECOND, Why::Weak(FIRST)));
    assert_eq!((first, cheaper), (FIRST, Why::Cheaper(SECOND)));
    // It is below -80 dBm from 17 to 43 s; the filter is 2 to 5 s late, the return 5 s more.
    assert!((17_000..22_000).contains(&left), "{left}");
    assert!((48_000..55_000).contains(&back), "{back}");
    // What it carried was given to the other one at once.
    assert_eq!(world.rejoined, [(left, FIRST)]);
    assert!(world.came - world.arrived < 100_000);
}

/// The signal of a pipe of Bluetooth is told only while something moves there.
#[test]
fn one_that_stays_weak_is_asked_at_longer_and_longer_intervals_and_not_used() {
    let mut world = World::new(&[10.0, 4.0], 2.0);
    world.pipes[0].signal = Some(Signal::Bluetooth(-75));
    world.run(seconds(1_200));
    let [(left, SECOND, Why::Weak(FIRST))] = world.chosen[..] else {
        panic!("{:?}", world.chosen);
    };
    assert_eq!(world.rejoined, [(left, FIRST)]);
    // Until five samples show that it is weak still.
    let asked = &world.asked;
    let ends = asked.windows(2).filter(|pair| pair[1] - pair[0] > 5_000);
    let pauses: Vec<u64> = ends.map(|pair| pair[1] - pair[0]).collect();
    // After each pause it has to suffice for 5 s first.
    let doubled = [25_000, 45_000, 85_000, 165_000, 305_000, 305_000];
    assert_eq!(pauses.len(), doubled.len(), "{asked:?}");
    for (pause, least) in pauses.iter().zip(doubled) {
        assert!((least..least + 500).contains(pause), "{asked:?}");
    }
    assert_eq!(asked.len(), 5 * (pauses.len() + 1));
    // A better signal brings it back.
    world.pipes[0].signal = Some(Signal::Bluetooth(-55));
    world.run(seconds(606));
    assert_eq!(world.used(), FIRST);
}

/// While nothing moves no signal is heard, and a pipe is used again once its pause is over.
#[test]
fn bursts_begin_ever_more_seldom_on_one_that_stays_weak() {
    let mut world = World::new(&[10.0, 4.0], 2.0);
    world.pipes[0].signal = Some(Signal::Bluetooth(-75));
    let burst = world.source;
    for _ in 0..50 {
        world.source = burst;
        world.run(seconds(2));
        world.source = BitRate::ZERO;
        world.run(seconds(70));
    }
    let left = world
        .chosen
        .iter()
        .filter(|chosen| chosen.2 == Why::Weak(FIRST));
    let left = left.count();
    assert!((2..=16).contains(&left), "{left} of 50 bursts");
}

#[test]
fn a_better_signal_is_not_waited_for_longer_than_it_takes() {
    let mut world = World::new(&[10.0, 4.0], 2.0);
    for dbm in [-90, -60] {
        world.pipes[0].signal = Some(Signal::Wifi(dbm));
        world.run(seconds(3));
    }
    assert_eq!((world.used(), world.chosen.len()), (SECOND, 1));
    world.run(seconds(5));
    assert_eq!(world.used(), FIRST);
}

#[test]
fn a_weak_one_is_used_while_nothing_else_works_and_left_as_soon_as_it_does() {
    let mut world = World::new(&[10.0, 4.0], 2.0);
    world.pipes[0].signal = Some(Signal::Bluetooth(-75));
    world.run(seconds(4));
    assert_eq!(world.used(), SECOND);
    let fails = |world: &mut World, fails: bool| {
        let pipe = &mut world.pipes[1];
        (pipe.carrier, pipe.works, pipe.joined) = (!fails, !fails, !fails);
    };
    fails(&mut world, true);
    world.run(PIPES_EVERY);
    assert_eq!(world.used(), FIRST);
    // Nothing is known of the signal now.
    world.pipes[0].signal = None;
    fails(&mut world, false);
    world.run(seconds(3));
    assert_eq!(world.used(), FIRST);
    fails(&mut world, true);
    world.pipes[0].signal = Some(Signal::Bluetooth(-75));
    world.run(seconds(3));
    assert_eq!(world.used(), FIRST);
    fails(&mut world, false);
    world.run(2 * PIPES_EVERY);
    assert_eq!(world.used(), SECOND);
    assert_eq!(world.chosen.last().unwrap().2, Why::Weak(FIRST));
}

#[test]
fn a_weak_signal_of_all_pipes_changes_nothing() {
    let mut world = World::new(&[10.0, 4.0], 2.0);
    world.pipes[0].signal = Some(Signal::Bluetooth(-75));
    world.pipes[1].signal = Some(Signal::Wifi(-85));
    world.run(seconds(60));
    assert_eq!((world.used(), world.tried), (FIRST, 0));
    assert_eq!(world.chosen, []);
    // Nor does a weak one that stands by become the used one.
    world.pipes[0].signal = None;
    world.run(seconds(60));
    assert_eq!(world.chosen, []);
}
