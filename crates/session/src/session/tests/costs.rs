//! Subflows that cost more than others.

use std::time::Duration;

use super::pair::{Pair, at, download, joined, pattern};
use crate::*;

/// A session whose direct subflow costs more than that through a helper, and both ends know it.
fn costly() -> (Pair, SubflowId, SubflowId) {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    p.client.set_cost(direct, 1);
    p.run(at(1_200), |_| false);
    (p, direct, helper)
}

/// Sends 4 Mbit/s each way for two seconds, of 5 that the helper carries.
fn call(p: &mut Pair, id: StreamId) {
    for _ in 0..40 {
        p.client.write(id, pattern(25_000));
        p.server().write(id, pattern(25_000));
        let until = p.now + Duration::from_millis(50);
        p.run(until, |_| false);
    }
}

/// Bytes of a stream that a subflow has carried, up and down.
fn carried(p: &mut Pair, stream: StreamId, on: SubflowId) -> [u64; 2] {
    let sent = |s: &Session| {
        let streams = s.streams();
        let stream = streams.iter().find(|s| s.id == stream).expect("open");
        let share = stream.subflows.iter().find(|share| share.subflow == on);
        share.map_or(0, |share| share.bytes_out)
    };
    [sent(&p.client), sent(p.server())]
}

#[test]
fn what_the_cheap_path_has_room_for_goes_over_it_both_ways() {
    let (mut p, direct, _) = costly();
    let id = p.open();
    p.run(at(1_300), |p| p.opened().contains(&id));
    call(&mut p, id);
    // Some, until the window of the cheap one has opened.
    let over = carried(&mut p, id, direct);
    assert!(over.iter().all(|bytes| *bytes < 50_000), "{over:?}");
    p.run(p.now + Duration::from_secs(1), |_| false);
    assert_eq!(p.client_got[&id].0.len(), 1_000_000);
    // It costs nothing any more.
    p.client.set_cost(direct, 0);
    p.run(p.now + Duration::from_millis(200), |_| false);
    call(&mut p, id);
    let over = carried(&mut p, id, direct);
    assert!(over.iter().all(|bytes| *bytes > 200_000), "{over:?}");
}

#[test]
fn a_transfer_has_what_both_carry() {
    let took = |cost| {
        let (mut p, direct, _) = joined(SessionConfig::default());
        p.client.set_cost(direct, cost);
        p.run(at(1_200), |_| false);
        let begun = p.now;
        let ended = download(&mut p, 4 << 20, 10_000);
        ended.since(begun).as_secs_f64()
    };
    let (alike, costly) = (took(0), took(1));
    assert!(costly < 1.05 * alike, "{costly} s, {alike} s");
}

#[test]
fn the_costly_path_goes_on_where_the_cheap_one_is_lost_or_silent() {
    for silent in [false, true] {
        let (mut p, _, helper) = costly();
        let id = p.open();
        p.run(at(1_300), |p| p.opened().contains(&id));
        p.server().write(id, pattern(2_000_000));
        p.run(at(1_500), |_| false);
        match silent {
            true => p.links[1].blackhole = true,
            false => p.kill(helper),
        }
        p.run(at(6_000), |p| p.client_got[&id].0.len() == 2_000_000);
        assert_eq!(p.client_got[&id].0.len(), 2_000_000, "silent: {silent}");
    }
}

#[test]
fn a_proxy_does_not_say_what_the_paths_of_its_client_cost() {
    let (mut p, first, second) = joined(SessionConfig::default());
    p.server().set_cost(first, 1);
    p.server().set_cost(second, 7);
    p.run(at(1_200), |_| false);
    let costs = |s: &Session| [first, second].map(|id| s.subflows.by_id(id).unwrap().cost);
    assert_eq!(costs(&p.client), [0, 0]);
}
