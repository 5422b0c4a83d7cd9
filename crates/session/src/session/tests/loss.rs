//! Lost subflows, and sessions without any.

use std::time::Duration;

use super::pair::{Pair, at, hop, joined, pattern};
use crate::session::{Event, Read};
use crate::*;

#[test]
fn a_killed_subflow_loses_nothing() {
    let (mut p, _, helper) = joined(SessionConfig::default());
    let start = p.now;
    let mut killed = false;
    let id = p.open();
    p.client.write(id, "GET /".into());
    let want = pattern(2 << 20);
    p.run(at(60_000), |p| {
        if p.server_got.get(&id).is_some_and(|(b, _)| !b.is_empty())
            && p.server().stats().bytes_out == 0
        {
            p.server().write(id, want.clone());
            p.server().finish(id);
        }
        if !killed && p.now > start + Duration::from_millis(700) {
            killed = true;
            p.kill(helper);
        }
        p.client_got
            .get(&id)
            .is_some_and(|(_, end)| *end == Some(Read::Fin))
    });
    assert!(p.client_got[&id].0 == want);
    // The stream is still open towards the server: half-close.
    assert_eq!(p.server_got[&id].1, None);
    p.client.write(id, "more".into());
    p.client.finish(id);
    p.run(at(70_000), |p| p.client.stats().streams_open == 0);
    assert_eq!(p.server_got[&id].0, b"GET /more");
    p.run(at(71_000), |_| false);
    assert_eq!(p.server().stats().streams_open, 0);
}

#[test]
fn the_session_outlives_its_subflows() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let id = p.open();
    p.client.write(id, "GET /".into());
    let want = pattern(2 << 20);
    let start = p.now;
    let mut killed = false;
    p.run(at(20_000), |p| {
        if p.opened().contains(&id) && p.server().stats().bytes_out == 0 {
            p.server().write(id, want.clone());
            p.server().finish(id);
        }
        if !killed && p.now > start + Duration::from_millis(400) {
            killed = true;
            p.kill(direct);
            p.kill(helper);
        }
        p.now > start + Duration::from_secs(10)
    });
    let before = p.client_got[&id].0.len();
    assert!(before < want.len());
    p.join(&[hop(8.0, 25)]);
    p.run(at(40_000), |p| {
        p.client_got
            .get(&id)
            .is_some_and(|(_, end)| *end == Some(Read::Fin))
    });
    assert!(p.client_got[&id].0 == want);
    // The counts told at the rejoin spare what had arrived.
    let copies = p.client.stats().redundant_bytes_in;
    assert!(copies < 64 << 10, "{copies}");
    // What a lost subflow carried was not sent for another reason.
    let sent = p.server().stats().copies_out;
    assert!(sent.lost >= copies && sent.lost > 0, "{sent:?}");
    assert_eq!(p.opened().len(), 1, "OPEN must dial once");
}

#[test]
fn a_loss_that_only_one_end_noticed_is_made_good_at_the_rejoin() {
    for client_notices in [true, false] {
        let (mut p, direct, helper) = joined(SessionConfig::default());
        let id = p.open();
        p.client.write(id, "GET /".into());
        p.run(at(2_000), |_| false);
        for (i, subflow) in [direct, helper].into_iter().enumerate() {
            p.links[i].blackhole = true;
            let now = p.now;
            // Bytes are on their way when it happens.
            p.client.write(id, pattern(20_000));
            p.server().write(id, pattern(20_000));
            p.run(now + Duration::from_millis(20), |_| false);
            p.links[i].alive = false;
            let now = p.now;
            if client_notices {
                p.client.handle_subflow_closed(now, subflow);
            } else {
                p.server().handle_subflow_closed(now, subflow);
            }
        }
        p.join(&[hop(8.0, 25)]);
        let deadline = p.now + Duration::from_secs(3);
        let got = |p: &Pair| {
            let at = |got: &std::collections::BTreeMap<StreamId, (Vec<u8>, Option<Read>)>| {
                got.get(&id).map_or(0, |(b, _)| b.len())
            };
            (at(&p.client_got), at(&p.server_got))
        };
        p.run(deadline, |p| got(p) == (40_000, 40_005));
        assert_eq!(got(&p), (40_000, 40_005), "{client_notices}");
    }
}

/// The proxy reads the primary's hello, with its counts, and the CUT that follows it, before it has
/// answered. The ACK of its answer may be lost, and a primary that only waits sends no other.
#[test]
fn bytes_of_a_subflow_that_is_cut_before_a_join_is_answered_follow_the_answer() {
    let mut p = Pair::new(SessionConfig::default());
    let first = p.join(&[hop(8.0, 25)]);
    let id = p.open();
    p.client.write(id, "GET /".into());
    p.run(at(2_000), |_| false);
    p.links[0].blackhole = true;
    p.server().write(id, pattern(20_000));
    p.run(at(2_020), |_| false);
    p.links[0].alive = false;
    p.client.handle_subflow_closed(p.now, first);
    p.join(&[hop(8.0, 25)]);
    p.run(at(2_030), |_| false);
    // Both records have arrived when the proxy's process runs again.
    p.now = at(2_060);
    p.run(at(2_110), |_| false);
    let got = p.client_got.get(&id).map_or(0, |(bytes, _)| bytes.len());
    assert_eq!(got, 20_000);
}

/// Acknowledgements of the latest are under way when its connection is lost, or were sent there.
/// The CUT has its count with it.
#[test]
fn bytes_that_a_subflow_has_brought_are_not_sent_again_when_it_is_cut() {
    let mut p = Pair::new(SessionConfig::default());
    let first = p.join(&[hop(50.0, 25)]);
    let id = p.open();
    p.client.write(id, "GET /".into());
    p.run(at(1_000), |_| false);
    p.server().write(id, pattern(3_000_000));
    let got = |p: &Pair| p.client_got.get(&id).map_or(0, |(bytes, _)| bytes.len());
    p.run(at(1_300), |p| got(p) > 500_000);
    p.join_on(1, Role::Backup, &[hop(8.0, 25)]);
    let now = p.now + Duration::from_millis(200);
    p.run(now, |_| false);
    assert!(got(&p) < 2_500_000);
    p.links[0].alive = false;
    p.client.handle_subflow_closed(p.now, first);
    p.run(at(10_000), |p| got(p) == 3_000_000);
    assert_eq!(got(&p), 3_000_000);
    // Each other byte over the path of 8 Mbit/s would come later for it.
    assert_eq!(p.client.stats().redundant_bytes_in, 0);
}

#[test]
fn bytes_that_have_arrived_are_not_sent_again_after_all_subflows_were_silent() {
    let mut p = Pair::new(SessionConfig {
        reinjection: ReinjectionConfig {
            hedge: false,
            ..ReinjectionConfig::default()
        },
        ..SessionConfig::default()
    });
    for second in 1..=2 {
        p.join(&[hop(50.0, 25)]);
        p.run(at(second * 1_000), |_| false);
    }
    let id = p.open();
    let want = pattern(3_000_000);
    p.client.write(id, want.clone());
    let arrived = |p: &Pair| p.server_got.get(&id).map_or(0, |(b, _)| b.len());
    p.run(at(20_000), |p| arrived(p) >= 1_500_000);
    // What was moved between the subflows before that is not meant here.
    let copied = p.server().stats().redundant_bytes_in;
    // Acknowledgements of the latest are lost, and both subflows are given up one after the other.
    for link in &mut p.links {
        link.blackhole = true;
    }
    p.run(at(60_000), |p| p.links.iter().all(|l| !l.alive));
    p.join(&[hop(8.0, 25)]);
    p.run(at(70_000), |p| arrived(p) == want.len());
    assert!(p.server_got[&id].0 == want);
    assert_eq!(p.server().stats().redundant_bytes_in, copied);
}

#[test]
fn a_lonely_session_ends_with_a_reason() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let id = p.open();
    p.client.write(id, "hello".into());
    p.run(at(1_500), |_| false);
    p.kill(direct);
    p.kill(helper);
    p.run(at(65_000), |_| false);
    assert!(p.client.is_lost() && p.server().is_lost());
    assert!(
        p.client_events
            .iter()
            .any(|e| matches!(e, Event::Lost { .. }))
    );
    assert_eq!(
        p.client_got[&id].1,
        Some(Read::Reset(ResetCode::SessionLost))
    );
    assert_eq!(
        p.server_got[&id].1,
        Some(Read::Reset(ResetCode::SessionLost))
    );
}

/// An upload, or a download, is complete at the other end but not read when the session ends.
#[test]
fn a_half_that_has_arrived_completely_is_read_to_its_end_after_the_session() {
    for ended_by_peer in [false, true] {
        for upload in [false, true] {
            let (mut p, ..) = joined(SessionConfig::default());
            let ids = [p.open(), p.open()];
            p.client.write(ids[0], "request".into());
            p.client.write(ids[1], "request".into());
            p.run(at(1_200), |_| false);
            p.client_ignores = ids.to_vec();
            p.server_ignores = ids.to_vec();
            let want = pattern(300_000);
            let now = p.now;
            let sender = match upload {
                true => &mut p.client,
                false => p.server.as_mut().unwrap(),
            };
            // The second stream has not ended.
            sender.write(ids[0], want.clone());
            sender.finish(ids[0]);
            sender.write(ids[1], want.clone());
            p.run(now + Duration::from_secs(2), |_| false);
            let now = p.now;
            let reader = match upload {
                true => p.server.as_mut().unwrap(),
                false => &mut p.client,
            };
            match ended_by_peer {
                true => {
                    let subflow = reader.subflows(now)[0].id;
                    let close = super::super::close_record(CloseCode::GoingAway, "over");
                    let octets = u64::MAX >> 2;
                    let ended = reader.handle_record(now, subflow, close.into(), octets);
                    assert_eq!(ended.unwrap_err().code, CloseCode::GoingAway);
                }
                false => reader.end(now),
            }
            let mut read = Vec::new();
            let end = loop {
                match reader.read(now, ids[0]) {
                    Read::Data(bytes) => read.extend_from_slice(&bytes),
                    end => break end,
                }
            };
            assert_eq!(end, Read::Fin);
            assert!(read == want);
            let second = reader.read(now, ids[1]);
            assert_eq!(second, Read::Reset(ResetCode::SessionLost));
            assert_eq!(reader.stats().streams_open, 0);
            assert_eq!((reader.unread_bytes(), reader.unread_pieces()), (0, 0));
            assert_eq!(reader.poll_timeout(), None);
        }
    }
}

#[test]
fn a_session_that_has_ended_is_not_joined() {
    let (mut p, ..) = joined(SessionConfig::default());
    let now = p.now;
    p.server().end(now);
    p.join(&[hop(8.0, 25)]);
    p.run(now + Duration::from_secs(1), |_| false);
    let codes: Vec<_> = p.server_errors.iter().map(|e| e.code).collect();
    assert_eq!(codes, [CloseCode::UnknownSession]);
}

/// A driver closes the subflows after the end.
#[test]
fn a_session_that_has_ended_keeps_no_frames_of_its_subflows() {
    let (mut p, first, second) = joined(SessionConfig::default());
    let id = p.open();
    p.client.write(id, pattern(300_000));
    let now = p.now + Duration::from_millis(20);
    p.run(now, |_| false);
    assert!(p.client.subflows.iter().any(|s| !s.sent.is_empty()));
    p.client.end(now);
    for subflow in [first, second] {
        p.client.handle_subflow_closed(now, subflow);
    }
    assert!(p.client.resume.take_lost().is_empty());
    assert_eq!(p.client.held_bytes(), 0);
}
