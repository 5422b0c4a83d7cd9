//! Pipes on standby whose links sleep.

use super::super::SNIFF_PAUSE;
use super::*;

/// Two pipes, the second one of which sleeps for so long.
fn world(rates: [f64; 2], source: f64, pause: Duration) -> World {
    World::with(&rates, source, |i| config::Link {
        pause: if i == 1 { pause } else { Duration::ZERO },
        ..config::Link::pipe("pipe", HelperId(0))
    })
}

/// Times in ms at which pipes are asked in 12 s, beside a used one that suffices.
fn questions(source: f64, pause: Duration) -> Vec<u64> {
    let mut world = world([20.0, 1.2], source, pause);
    world.run(seconds(12));
    assert_eq!(world.used(), FIRST);
    world.asked
}

#[test]
fn a_sleeping_one_is_kept_awake_beside_a_transfer() {
    let asked = questions(12.0, SNIFF_PAUSE);
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(asked[0] <= 500, "{asked:?}");
    for pair in asked.windows(2) {
        assert!((4_000..5_000).contains(&(pair[1] - pair[0])), "{asked:?}");
    }
}

#[test]
fn one_is_left_asleep_beside_little_and_one_that_does_not_sleep_is_not_asked() {
    assert_eq!(questions(0.5, SNIFF_PAUSE), []);
    assert_eq!(questions(12.0, Duration::ZERO), []);
}

#[test]
fn a_sleeping_one_is_tried_once_it_has_answered() {
    // The rate is too low for questions beforehand.
    let mut world = world([0.5, 1.2], 5.0, SNIFF_PAUSE);
    world.pipes[1].works = false;
    world.run(seconds(3));
    assert_eq!((world.tried, world.asked.len()), (0, 1));
    world.pipes[1].works = true;
    world.run(2 * PIPES_EVERY);
    assert_eq!((world.tried, world.asked.len()), (1, 1));
}
