//! Each mechanism of the sender that can be left out changes what happens somewhere.

use std::time::Duration;

use mpbond_sim::ideal::Direction;
use mpbond_sim::rows;
use mpbond_sim::world::{
    Before, Exchange, Late, Mechanism, Rounds, Scenario, StreamClass, When, World,
};

/// Seeds of the random worlds in which differences are looked for.
const WORLDS: std::ops::Range<u64> = 1_001..1_120;

/// Scenarios in which differences are looked for, in this order.
fn scenarios() -> impl Iterator<Item = Scenario> {
    let rows = rows::all().into_iter();
    let rows = rows.filter(|row| row.kind != "direct").step_by(3);
    std::iter::once(beside_a_transfer())
        .chain(WORLDS.map(Scenario::random))
        .chain(rows.map(|row| row.scenario))
}

/// Keys that are typed while a helper is given much of a download.
fn beside_a_transfer() -> Scenario {
    let ms = Duration::from_millis;
    let start = Duration::from_secs(2);
    let mut scenario = Scenario::bonded(8.0, &[(30.0, 3.0)], ms(25), ms(2)).measuring(
        Before::Joined,
        Direction::Down,
        4 << 20,
    );
    scenario.exchanges.push(Exchange {
        by_length: true,
        class: StreamClass::Interactive,
        rounds: Some(Rounds {
            first: ms(200),
            every: ms(200),
            length: Duration::from_secs(10),
            late: Late::SentAhead,
        }),
        ..Exchange::download(When::At(start), 48)
    });
    scenario
}

/// What happened: when the world ended, and what each end sent.
fn outcome(scenario: Scenario) -> String {
    match World::new(scenario).run() {
        Ok(o) => format!("{} {} {:?} {:?}", o.ended, o.packets, o.client, o.server),
        Err(failure) => failure.to_string(),
    }
}

#[test]
fn each_mechanism_changes_what_happens_somewhere() {
    let mut left: Vec<Mechanism> = Mechanism::ALL.to_vec();
    for scenario in scenarios() {
        let whole = outcome(scenario.clone());
        left.retain(|mechanism| whole == outcome(scenario.clone().without([*mechanism])));
        if left.is_empty() {
            return;
        }
    }
    panic!("these change nothing: {left:?}");
}
