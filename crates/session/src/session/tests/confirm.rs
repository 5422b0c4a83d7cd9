//! Streams whose client waits until the destination is reached.

use super::pair::{Pair, at, hop, joined};
use crate::session::{Event, Read};
use crate::wire::Destination;
use crate::*;

/// Opens a stream whose client is told when its destination is reached.
pub(super) fn ask(p: &mut Pair) -> StreamId {
    let destination = Destination::Name {
        host: "origin.test".to_owned(),
        port: 80,
    };
    assert!(p.client.confirms());
    p.client
        .open_confirmed(p.now, destination, StreamClass::Bulk)
        .expect("stream")
}

fn confirmed(p: &Pair) -> Vec<StreamId> {
    let id = |e: &Event| match e {
        Event::StreamConnected(id) => Some(*id),
        _ => None,
    };
    p.client_events.iter().filter_map(id).collect()
}

/// One round trip of 50 ms after the destination was reached; without a question, no answer.
#[test]
fn the_client_learns_that_the_destination_is_reached() {
    let (mut p, ..) = joined(SessionConfig::default());
    let (asked, other) = (ask(&mut p), p.open());
    p.run(at(1_200), |_| false);
    assert_eq!(p.opened().len(), 2);
    assert_eq!(confirmed(&p), []);
    for id in [asked, asked, other] {
        p.server().connected(id);
    }
    p.run(at(1_250), |_| false);
    assert_eq!(confirmed(&p), [asked]);
    assert_eq!(p.client.reset_code(asked), None);
}

#[test]
fn a_refusal_has_its_code_and_no_confirmation() {
    let (mut p, ..) = joined(SessionConfig::default());
    let id = ask(&mut p);
    p.run(at(1_100), |_| false);
    let now = p.now;
    p.server().reset(now, id, ResetCode::NameNotFound);
    p.server().stop(now, id, ResetCode::NameNotFound);
    p.run(at(1_300), |p| {
        p.client_got.get(&id).is_some_and(|(_, end)| end.is_some())
    });
    let end = p.client_got[&id].1.clone();
    assert_eq!(end, Some(Read::Reset(ResetCode::NameNotFound)));
    assert_eq!(confirmed(&p), []);
    let closed = |e: &Event| match e {
        Event::StreamClosed(stats) => stats.reset,
        _ => None,
    };
    let now = p.now;
    p.client.reset(now, id, ResetCode::NameNotFound);
    p.run(at(2_000), |_| false);
    let codes: Vec<_> = p.client_events.iter().filter_map(closed).collect();
    assert_eq!(codes, [ResetCode::NameNotFound]);
}

#[test]
fn a_confirmation_is_sent_again_when_its_subflow_is_lost() {
    let mut p = Pair::new(SessionConfig::default());
    let first = p.join(&[hop(8.0, 200)]);
    p.run(at(1_000), |_| false);
    let id = ask(&mut p);
    p.run(at(1_500), |p| !p.opened().is_empty());
    p.server().connected(id);
    // It is on its way when the only subflow dies.
    let soon = p.now + std::time::Duration::from_millis(50);
    p.run(soon, |_| false);
    p.kill(first);
    p.join(&[hop(8.0, 20)]);
    p.run(at(4_000), |p| !confirmed(p).is_empty());
    assert_eq!(confirmed(&p), [id]);
}

/// The peer owes an answer, so that a silent one is noticed.
#[test]
fn an_unanswered_question_counts_as_awaiting_an_answer() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    for link in p.links.iter_mut() {
        link.blackhole = link.id == direct || link.id == helper;
    }
    ask(&mut p);
    p.run(at(12_000), |_| false);
    let failed = |e: &Event| matches!(e, Event::SubflowPotentiallyFailed(_));
    assert!(p.client_events.iter().any(failed));
}
