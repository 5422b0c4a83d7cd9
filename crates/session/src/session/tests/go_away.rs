//! A proxy that takes no new streams, and one that stops.

use super::pair::{Pair, at, hop, pattern};
use crate::session::{Event, OpenError, Read, close_record};
use crate::wire::Destination;
use crate::*;

fn open(p: &mut Pair) -> Result<StreamId, OpenError> {
    let destination = Destination::Name {
        host: "origin.test".to_owned(),
        port: 80,
    };
    p.client.open(p.now, destination, StreamClass::Bulk)
}

fn told(p: &Pair) -> usize {
    let away = |e: &&Event| matches!(e, Event::GoAway { .. });
    p.client_events.iter().filter(away).count()
}

/// One stream is known to the proxy, another one is opened while GO_AWAY is on its way.
#[test]
fn streams_of_a_session_that_goes_away_arrive_whole_and_no_new_ones_are_opened() {
    let mut p = Pair::new(SessionConfig::default());
    p.join(&[hop(8.0, 50)]);
    p.run(at(1_000), |_| false);
    let early = p.open();
    p.client.write(early, "GET /".into());
    p.run(at(2_000), |p| !p.opened().is_empty());
    p.server().go_away("the proxy leaves");
    assert!(p.server().is_going_away());
    let late = p.open();
    let want = pattern(200_000);
    for id in [early, late] {
        p.client.write(id, want.clone());
        p.client.finish(id);
    }
    let mut answered = 0;
    p.run(at(20_000), |p| {
        let opened = p.opened();
        while answered < opened.len() {
            p.server().write(opened[answered], want.clone());
            p.server().finish(opened[answered]);
            answered += 1;
        }
        p.client.streams().is_empty()
    });
    assert_eq!(told(&p), 1);
    for id in [early, late] {
        assert_eq!(p.client_got[&id], (want.to_vec(), Some(Read::Fin)));
        assert!(p.server_got[&id].0.ends_with(&want));
    }
    assert!(matches!(open(&mut p), Err(OpenError::Closed)));
}

#[test]
fn go_away_is_sent_again_when_its_subflow_is_lost() {
    let mut p = Pair::new(SessionConfig::default());
    let first = p.join(&[hop(8.0, 200)]);
    p.run(at(1_000), |_| false);
    p.server().go_away("the proxy leaves");
    // It is on its way.
    p.run(at(1_050), |_| false);
    p.kill(first);
    p.join(&[hop(8.0, 10)]);
    p.run(at(5_000), |p| told(p) > 0);
    assert_eq!(told(&p), 1);
}

/// Frames that a peer repeats must not become log lines: 400 kB of them once made 16 MB.
#[test]
fn a_thousand_go_aways_are_one_event_at_either_end() {
    let mut p = Pair::new(SessionConfig::default());
    p.join(&[hop(8.0, 10)]);
    p.run(at(1_000), |_| false);
    // As one that goes away itself.
    p.client.go_away("the primary leaves");
    for n in 0..1_000 {
        p.server().go_away("the proxy leaves");
        p.run(at(1_010 + 10 * n), |_| false);
    }
    p.run(at(12_000), |_| false);
    assert_eq!(told(&p), 1);
}

/// Neither end keeps a session that the other one has ended, for a return.
#[test]
fn close_with_going_away_ends_the_session_at_either_end() {
    for at_client in [true, false] {
        let mut p = Pair::new(SessionConfig::default());
        let [one, _] = [(); 2].map(|()| p.join(&[hop(8.0, 10)]));
        p.run(at(1_000), |_| false);
        p.open();
        p.run(at(2_000), |p| !p.opened().is_empty());
        let record = close_record(CloseCode::GoingAway, "it stops").into();
        let now = p.now;
        let session = match at_client {
            true => &mut p.client,
            false => p.server(),
        };
        session
            .handle_record(now, one, record, 1 << 40)
            .unwrap_err();
        assert!(session.is_lost(), "{at_client}");
    }
}
