//! Random faults beyond the loss of a subflow: links that fail in one direction, delays of seconds,
//! flapping links, half-open connections after a NAT's timeout or a change of address, suspended
//! daemons, clocks that jump.

use std::time::Duration;

use super::{Dice, RESUME_FOR};
use crate::link::LinkChange;
use crate::world::scenario::{Daemon, Fault, Happening, Scenario};
use crate::world::when::When;

impl Scenario {
    /// The scenario of a seed: [`Scenario::random_mild`] with up to three further faults at any
    /// instant, also while subflows are joined, streams opened or closed, and bytes in flight.
    pub fn random(seed: u64) -> Self {
        let mut world = Self::random_mild(seed);
        // Random numbers of its own, so that the mild scenario of the seed is unchanged.
        let mut dice = Dice::new(seed ^ 0x6d69_7366_6f72_7475);
        for _ in 0..dice.between(0, 3) {
            let faults = random_fault(&mut dice, &world);
            world.faults.extend(faults);
            world.client.resume_for = RESUME_FOR;
            world.server.resume_for = RESUME_FOR;
        }
        // Clocks have the same rate and different origins.
        if dice.once_in(2) {
            let who = daemon(&mut dice);
            let by = dice.ms(0, 10_000_000);
            world.faults.push(Fault {
                when: When::At(Duration::ZERO),
                what: Happening::ClockJump { who, by },
            });
        }
        world
    }
}

fn daemon(dice: &mut Dice) -> Daemon {
    match dice.once_in(2) {
        true => Daemon::Primary,
        false => Daemon::Proxy,
    }
}

/// Random beginning of a fault, as a function of a delay after it.
fn begin(dice: &mut Dice, exchanges: usize) -> impl Fn(Duration) -> When + use<> {
    let near = Duration::from_micros(dice.below(1_500_000));
    let far = Duration::from_micros(dice.below(12_000_000));
    let exchange = dice.below(exchanges as u64) as usize;
    let kind = dice.below(3);
    move |later| match kind {
        0 => When::AfterJoined(near + later),
        1 => When::AfterStart(exchange, near + later),
        _ => When::At(far + later),
    }
}

fn random_fault(dice: &mut Dice, world: &Scenario) -> Vec<Fault> {
    let when = begin(dice, world.exchanges.len());
    let link = dice.below(world.links.len() as u64) as usize;
    let fault = |later, what| Fault {
        when: when(later),
        what,
    };
    let both = |link, change: LinkChange| Happening::Link {
        link,
        up: Some(change.clone()),
        down: Some(change),
    };
    match dice.below(7) {
        // One direction only.
        0 => {
            let upwards = dice.once_in(2);
            let change = |change: LinkChange| Happening::Link {
                link,
                up: upwards.then(|| change.clone()),
                down: (!upwards).then_some(change),
            };
            let length = dice.ms(10, 30_000);
            vec![
                fault(Duration::ZERO, change(LinkChange::down())),
                fault(length, change(LinkChange::up())),
            ]
        }
        // Delays of seconds, then as before.
        1 => {
            let delay = |delay| LinkChange {
                delay: Some(delay),
                ..LinkChange::default()
            };
            let before = world.links[link].up.delay;
            let change = both(link, delay(dice.ms(300, 8_000)));
            vec![
                fault(Duration::ZERO, change),
                fault(dice.ms(100, 15_000), both(link, delay(before))),
            ]
        }
        // Flapping.
        2 => {
            let mut at = Duration::ZERO;
            let mut faults = Vec::new();
            for _ in 0..dice.between(2, 12) {
                faults.push(fault(at, both(link, LinkChange::down())));
                at += dice.ms(20, 2_000);
                faults.push(fault(at, both(link, LinkChange::up())));
                at += dice.ms(20, 2_000);
            }
            faults
        }
        // A NAT forgets one route's connection, or a helper's network does.
        3 => {
            let route = dice.below(world.routes.len() as u64) as usize;
            let nearer = dice.once_in(2);
            let told = [dice.once_in(4), dice.once_in(4)];
            let what = Happening::Sever {
                route,
                nearer,
                told,
            };
            vec![fault(Duration::ZERO, what)]
        }
        // The primary's addresses change; its system reports that or not.
        4 => {
            let told = [!dice.once_in(3), false];
            let all = (0..world.routes.len()).map(|route| {
                let what = Happening::Sever {
                    route,
                    nearer: true,
                    told,
                };
                fault(Duration::ZERO, what)
            });
            all.collect()
        }
        5 => {
            let (who, length) = (daemon(dice), dice.ms(10, 10_000));
            vec![fault(Duration::ZERO, Happening::Freeze { who, length })]
        }
        _ => {
            let (who, by) = (daemon(dice), dice.ms(1, 10_000));
            vec![fault(Duration::ZERO, Happening::ClockJump { who, by })]
        }
    }
}
