use std::time::Duration;

use mpbond_units::Timestamp;

use super::pair::{Pair, hop, pattern};
use crate::session::{Event, Read, Session};
use crate::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// A direct subflow and one through a helper, joined.
fn joined(config: SessionConfig) -> (Pair, SubflowId, SubflowId) {
    let mut p = Pair::new(config);
    let direct = p.join(&[hop(8.0, 25)]);
    let helper = p.join(&[hop(5.0, 2), hop(10.0, 25)]);
    p.run(at(1_000), |_| false);
    (p, direct, helper)
}

/// The client asks, the server answers with `len` bytes; returns when all had arrived.
fn download(p: &mut Pair, len: usize, limit_ms: u64) -> Timestamp {
    let id = p.open();
    p.client.write(id, "GET /".into());
    p.client.finish(id);
    let want = pattern(len);
    let mut answered = false;
    let deadline = p.now + Duration::from_millis(limit_ms);
    p.run(deadline, |p| {
        if !answered && p.opened().contains(&id) {
            answered = true;
            p.server().write(id, want.clone());
            p.server().finish(id);
        }
        p.client_got
            .get(&id)
            .is_some_and(|(_, end)| *end == Some(Read::Fin))
    });
    let (got, end) = p.client_got.remove(&id).expect("nothing arrived");
    assert_eq!(end, Some(Read::Fin), "after {} of {len}", got.len());
    assert!(got == want, "bytes differ");
    p.now
}

#[test]
fn any_subflow_may_come_first() {
    let mut p = Pair::new(SessionConfig::default());
    p.join(&[hop(5.0, 2), hop(10.0, 25)]);
    let done = download(&mut p, 100_000, 5_000);
    assert!(done < at(1_000), "{done}");
    assert!(p.client.is_established());
    p.join(&[hop(8.0, 25)]);
    download(&mut p, 100_000, 5_000);
    assert_eq!(p.server().subflows(at(0)).len(), 2);
}

#[test]
fn a_first_subflow_that_dies_before_its_hello_holds_nobody_up() {
    let mut p = Pair::new(SessionConfig::default());
    let first = p.join(&[hop(8.0, 20)]);
    p.join(&[hop(8.0, 20)]);
    p.kill(first);
    p.run(at(2_000), |p| p.client.is_established());
    assert!(p.client.is_established());
}

#[test]
fn both_subflows_carry_and_finish_together() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let start = p.now;
    let done = download(&mut p, 4 << 20, 20_000).since(start).as_secs_f64();
    // 4 MiB at 13 Mbit/s are 2.58 s.
    assert!(done < 2.58 * 1.06 + 0.08, "{done}");
    let stats = p.server().stats();
    assert!(stats.redundant_bytes_out < (4 << 20) / 100, "{stats:?}");
    let subflows = p.client.subflows(p.now);
    let last = |id| {
        let s = subflows.iter().find(|s| s.id == id).unwrap();
        s.last_in.unwrap().as_secs_f64()
    };
    let spread = (last(direct) - last(helper)).abs();
    assert!(spread < 0.13, "{spread}");
}

#[test]
fn min_rtt_leaves_the_helper_behind() {
    let config = SessionConfig {
        scheduler: SchedulerKind::MinRtt,
        reinjection: ReinjectionConfig {
            rebalance: false,
            ..ReinjectionConfig::default()
        },
        ..SessionConfig::default()
    };
    let (mut p, direct, helper) = joined(config);
    download(&mut p, 10 << 20, 30_000);
    let subflows = p.client.subflows(p.now);
    let last = |id| {
        let s = subflows.iter().find(|s| s.id == id).unwrap();
        s.last_in.unwrap().as_secs_f64()
    };
    assert!(last(helper) - last(direct) > 2.0);
}

/// Four megabytes, half of them through a helper whose pipe is the slow hop and drains when the
/// direct subflow is done. Octets of feedback over the direct subflow and over the helper's, where
/// `downlink` says how long the helper's own link has been silent.
fn feedback_while_a_pipe_drains(downlink: Option<Duration>) -> (u64, u64) {
    let config = SessionConfig {
        scheduler: SchedulerKind::FixedRatio { direct: 0.5 },
        ..SessionConfig::default()
    };
    let (mut p, direct, helper) = joined(config);
    let before = (p.octets_up(direct), p.octets_up(helper));
    let id = p.open();
    p.client.write(id, "GET /".into());
    p.client.finish(id);
    let mut answered = false;
    p.run(at(60_000), |p| {
        if let Some(since) = downlink {
            p.client.handle_helper_downlink(p.now, helper, since);
        }
        if !answered && p.opened().contains(&id) {
            answered = true;
            p.server().write(id, pattern(4 << 20));
            p.server().finish(id);
        }
        p.client_got
            .get(&id)
            .is_some_and(|(_, end)| *end == Some(Read::Fin))
    });
    assert_eq!(p.client_got[&id].0.len(), 4 << 20);
    (
        p.octets_up(direct) - before.0,
        p.octets_up(helper) - before.1,
    )
}

#[test]
fn feedback_does_not_wake_a_helper_that_has_done_its_part() {
    // As long as its own link brings data, its radio is awake when the direct one's is not.
    let (_, awake) = feedback_while_a_pipe_drains(Some(Duration::from_millis(20)));
    // Afterwards only the pipe is busy.
    let (direct, asleep) = feedback_while_a_pipe_drains(Some(Duration::from_secs(4)));
    // One that says nothing is taken to be awake while its pipe is.
    let (_, unknown) = feedback_while_a_pipe_drains(None);
    assert!(asleep * 3 < awake * 2, "{asleep} {awake}");
    assert!(asleep * 3 < unknown * 2, "{asleep} {unknown}");
    assert!(direct > 5 * asleep, "{direct} {asleep}");
}

/// Whichever radio was busy last: a request takes the direct path, for a pipe may have fallen
/// silent during the pause.
#[test]
fn a_stream_opens_over_the_direct_path() {
    let (mut p, _, helper) = joined(SessionConfig::default());
    download(&mut p, 1 << 20, 10_000);
    let pause = p.now + Duration::from_secs(5);
    p.run(pause, |_| false);
    for l in p.links.iter_mut().filter(|l| l.id == helper) {
        l.blackhole = true;
    }
    for _ in 0..4 {
        let id = p.open();
        p.client.write(id, "GET /".into());
        let soon = p.now + Duration::from_millis(40);
        p.run(soon, |_| false);
        assert!(p.opened().contains(&id), "{id}");
    }
}

#[test]
fn uplink_is_no_afterthought() {
    let (mut p, ..) = joined(SessionConfig::default());
    let id = p.open();
    let want = pattern(4 << 20);
    let start = p.now;
    p.client.write(id, want.clone());
    p.client.finish(id);
    p.run(at(60_000), |p| {
        p.server_got
            .get(&id)
            .is_some_and(|(_, end)| *end == Some(Read::Fin))
    });
    let took = p.now.since(start).as_secs_f64();
    assert!(p.server_got[&id].0 == want);
    assert!(took < 2.58 * 1.06 + 0.08, "{took}");
}

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
fn silence_is_suspected_and_made_good() {
    let (mut p, direct, _) = joined(SessionConfig::default());
    let start = p.now;
    let id = p.open();
    p.client.write(id, "GET /".into());
    let want = pattern(2 << 20);
    let mut last = (0, p.now);
    let mut longest = Duration::ZERO;
    p.run(at(60_000), |p| {
        if p.opened().contains(&id) && p.server().stats().bytes_out == 0 {
            p.server().write(id, want.clone());
            p.server().finish(id);
        }
        if p.now > start + Duration::from_millis(500) {
            p.links[0].blackhole = true;
        }
        let (got, end) = p.client_got.entry(id).or_default();
        if got.len() > last.0 {
            if last.0 > 0 {
                longest = longest.max(p.now.since(last.1));
            }
            last = (got.len(), p.now);
        }
        *end == Some(Read::Fin)
    });
    assert!(p.client_got[&id].0 == want);
    assert!(longest < Duration::from_millis(900), "{longest:?}");
    assert!(
        p.server_events
            .iter()
            .any(|e| matches!(e, Event::SubflowSuspect(id) if *id == direct))
    );
}

#[test]
fn signals_do_not_wait_on_a_silent_subflow() {
    let mut p = Pair::new(SessionConfig::default());
    p.join(&[hop(8.0, 5)]);
    p.join(&[hop(8.0, 25)]);
    p.run(at(1_000), |_| false);
    // An OPEN and a bare FIN go where PAD is least, and nothing comes of it.
    let open = p.open();
    p.client.write(open, "GET /".into());
    p.run(at(2_000), |p| p.server_got.contains_key(&open));
    p.links[0].blackhole = true;
    let silent = p.now;
    p.client.finish(open);
    let other = p.open();
    let limit = silent + Duration::from_secs(1);
    p.run(limit, |p| p.opened().contains(&other));
    assert!(p.opened().contains(&other));
    p.run(limit, |p| p.server_got[&open].1 == Some(Read::Fin));
    assert_eq!(p.server_got[&open].1, Some(Read::Fin));
    // The other way: a refusal.
    let now = p.now;
    p.server().reset(now, other, ResetCode::ConnectionRefused);
    let limit = p.now + Duration::from_secs(1);
    let seen = Some(Read::Reset(ResetCode::ConnectionRefused));
    p.run(limit, |p| {
        p.client_got.get(&other).is_some_and(|g| g.1 == seen)
    });
    assert_eq!(p.client_got[&other].1, seen);
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

#[test]
fn a_hello_that_nobody_answers_is_given_up() {
    let mut p = Pair::new(SessionConfig::default());
    let deaf = p.join(&[hop(8.0, 25)]);
    p.links[0].blackhole = true;
    p.run(at(20_000), |_| false);
    assert!(
        p.client_events
            .iter()
            .any(|e| matches!(e, Event::SubflowClosed { subflow, .. } if *subflow == deaf))
    );
    // Another one opens the session instead.
    p.join(&[hop(8.0, 25)]);
    download(&mut p, 10_000, 5_000);
}

#[test]
fn a_proxy_keeps_its_last_subflow_through_a_long_silence() {
    let (mut p, ..) = joined(SessionConfig::default());
    let start = p.now;
    let id = p.open();
    p.client.write(id, "GET /".into());
    let want = pattern(2 << 20);
    p.run(at(70_000), |p| {
        if p.opened().contains(&id) && p.server().stats().bytes_out == 0 {
            p.server().write(id, want.clone());
            p.server().finish(id);
        }
        // The primary asks, and would give up a little later; TCP delivers what was lost.
        let silent = p.now.since(start);
        let silent = (500..18_000).contains(&silent.as_millis());
        p.links.iter_mut().for_each(|l| l.blackhole = silent);
        p.client_got
            .get(&id)
            .is_some_and(|(_, end)| *end == Some(Read::Fin))
    });
    assert!(p.client_got[&id].0 == want, "{}", p.client_got[&id].0.len());
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

#[test]
fn resets_travel_with_their_reason() {
    let (mut p, ..) = joined(SessionConfig::default());
    let id = p.open();
    p.client.write(id, "x".into());
    p.run(at(2_000), |p| !p.opened().is_empty());
    let now = p.now;
    p.server().reset(now, id, ResetCode::ConnectionRefused);
    p.server().stop(now, id, ResetCode::ConnectionRefused);
    p.run(at(3_000), |_| false);
    assert_eq!(
        p.client_got[&id].1,
        Some(Read::Reset(ResetCode::ConnectionRefused))
    );
    assert!(p.client_events.iter().any(|e| matches!(
        e,
        Event::StreamStopped {
            code: ResetCode::ConnectionRefused,
            ..
        }
    )));
    assert_eq!(p.client.stats().streams_open, 0);
    assert_eq!(p.server().stats().streams_open, 0);
    // The window is whole again: a stream may use all of it.
    download(&mut p, 9 << 20, 30_000);
}

#[test]
fn a_stalled_reader_blocks_nobody() {
    let (mut p, ..) = joined(SessionConfig::default());
    let stalled: Vec<_> = (0..12).map(|_| p.open()).collect();
    p.client_ignores = stalled.clone();
    for id in &stalled {
        p.client.write(*id, "GET /".into());
    }
    p.run(at(4_000), |p| p.opened().len() == 12);
    for id in &stalled {
        // As a server would: no more than the session wants to keep.
        let budget = p.server().send_budget(*id) as usize;
        p.server().write(*id, pattern(budget.min(2 << 20)));
    }
    p.run(at(12_000), |_| false);
    let start = p.now;
    let done = download(&mut p, 1 << 20, 30_000).since(start);
    assert!(done < Duration::from_secs(2), "{done:?}");
    assert!(p.client.waiting_bytes() <= 32 << 20);
}

#[test]
fn what_arrives_for_stalled_readers_starves_nobody() {
    let (mut p, ..) = joined(SessionConfig::default());
    let stalled: Vec<_> = (0..8).map(|_| p.open()).collect();
    p.client_ignores = stalled.clone();
    for id in &stalled {
        p.client.write(*id, "GET /".into());
    }
    p.run(at(2_000), |p| p.opened().len() == 8);
    for id in &stalled {
        p.server().write(*id, pattern(4_000));
    }
    // They are known to have stalled by the time most of it comes.
    p.run(at(5_000), |_| false);
    for id in &stalled {
        p.server().write(*id, pattern(1 << 20));
    }
    p.run(at(15_000), |_| false);
    let start = p.now;
    let done = download(&mut p, 1 << 20, 30_000).since(start);
    assert!(done < Duration::from_secs(2), "{done:?}");
}

#[test]
fn a_window_shrinks_when_memory_is_short_and_grows_again() {
    let (mut p, ..) = joined(SessionConfig::default());
    p.client.limit_receiving(128 << 10);
    // What was granted at first is used up by this.
    download(&mut p, 9 << 20, 60_000);
    let ignored = p.open();
    p.client_ignores = vec![ignored];
    p.client.write(ignored, "GET /".into());
    p.run(p.now + Duration::from_secs(2), |p| {
        p.opened().contains(&ignored)
    });
    p.server().write(ignored, pattern(4 << 20));
    p.run(p.now + Duration::from_secs(10), |_| false);
    let unread = p.client.unread_bytes();
    assert!((64 << 10..=512 << 10).contains(&unread), "{unread}");
    p.client.limit_receiving(u64::MAX);
    assert_eq!(p.client.receive_window_bytes(), 8 << 20);
    p.run(p.now + Duration::from_secs(10), |_| false);
    assert!(p.client.unread_bytes() > 2 << 20);
}

#[test]
fn many_streams_share() {
    let (mut p, ..) = joined(SessionConfig::default());
    let ids: Vec<_> = (0..50).map(|_| p.open()).collect();
    for id in &ids {
        p.client.write(*id, "GET /".into());
        p.client.finish(*id);
    }
    let mut answered = 0;
    p.run(at(30_000), |p| {
        for id in p.opened().split_off(answered) {
            p.server().write(id, pattern(40_000));
            p.server().finish(id);
            answered += 1;
        }
        p.client.stats().streams_open == 0
    });
    for id in ids {
        assert!(p.client_got[&id].0 == pattern(40_000), "stream {id}");
    }
}

#[test]
fn rebalancing_saves_a_transfer_whose_pipe_collapses() {
    let mut took = Vec::new();
    for rebalance in [true, false] {
        let mut p = Pair::new(SessionConfig {
            reinjection: ReinjectionConfig {
                rebalance,
                ..ReinjectionConfig::default()
            },
            ..SessionConfig::default()
        });
        p.join(&[hop(5.0, 25)]);
        let helper = p.join(&[hop(5.0, 2), hop(10.0, 25)]);
        p.run(at(1_000), |_| false);
        let id = p.open();
        p.client.write(id, "GET /".into());
        let want = pattern(4 << 20);
        let start = p.now;
        p.run(at(90_000), |p| {
            if p.opened().contains(&id) && p.server().stats().bytes_out == 0 {
                p.server().write(id, want.clone());
                p.server().finish(id);
            }
            if p.now > start + Duration::from_secs(2) {
                p.set_hops(helper, &[hop(1.0, 2), hop(10.0, 25)]);
            }
            p.client_got
                .get(&id)
                .is_some_and(|(_, end)| *end == Some(Read::Fin))
        });
        assert!(p.client_got[&id].0 == want);
        took.push(p.now.since(start).as_secs_f64());
    }
    assert!(took[0] < 0.75 * took[1], "{took:?}");
}

#[test]
fn redundant_carries_everything_everywhere() {
    let (mut p, direct, helper) = joined(SessionConfig {
        scheduler: SchedulerKind::Redundant,
        ..SessionConfig::default()
    });
    download(&mut p, 200_000, 10_000);
    p.run(p.now + Duration::from_secs(2), |_| false);
    let subflows = p.server().subflows(at(0));
    let bytes = |id| subflows.iter().find(|s| s.id == id).unwrap().bytes_out;
    // A byte that has arrived is not copied any more, so neither carries quite everything.
    assert!(bytes(direct) > 80_000 && bytes(helper) > 80_000);
    assert!(p.server().stats().redundant_bytes_out > 60_000);
}

#[test]
fn an_idle_session_sends_nothing_and_wants_no_timer() {
    let (mut p, ..) = joined(SessionConfig::default());
    download(&mut p, 100_000, 10_000);
    p.run(p.now + Duration::from_secs(3), |_| false);
    assert_eq!(p.client.poll_timeout(), None);
    assert_eq!(p.server().poll_timeout(), None);
    let mut out = Vec::new();
    let now = p.now;
    assert_eq!(p.client.poll_transmit(now, &mut out), None);
    assert_eq!(p.server().poll_transmit(now, &mut out), None);
}

/// Everything goes silent while the primary only waits: it asks, finds out and can join anew.
#[test]
fn a_waiting_primary_notices_silence() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let id = p.open();
    p.client.write(id, "GET /".into());
    p.run(at(2_000), |p| p.opened().contains(&id));
    for l in &mut p.links {
        l.blackhole = true;
    }
    let from = p.now;
    p.run(from + Duration::from_secs(40), |p| {
        p.client.subflows(p.now).is_empty()
    });
    assert!(p.now.since(from) < Duration::from_secs(25), "{}", p.now);
    for gone in [direct, helper] {
        assert!(
            p.client_events
                .iter()
                .any(|e| matches!(e, Event::SubflowClosed { subflow, .. } if *subflow == gone))
        );
    }
}

/// Seconds after `from`, until `until`, at which the client puts something on a subflow.
fn sends_on(p: &mut Pair, id: SubflowId, from: Timestamp, until: Duration) -> Vec<f64> {
    let (mut times, mut before) = (Vec::new(), p.octets_up(id));
    p.run(from + until, |p| {
        let octets = p.octets_up(id);
        if octets > std::mem::replace(&mut before, octets) {
            times.push(p.now.since(from).as_secs_f64());
        }
        false
    });
    times
}

/// An origin takes its time: the primary asks now and then whether its paths still work, but not
/// for ever, and only once where the origin has answered and nothing is due.
#[test]
fn a_primary_asks_again_only_while_an_answer_is_due() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let id = p.open();
    p.client.write(id, "GET /".into());
    p.run(at(2_000), |_| false);
    let from = p.now;
    let asked = sends_on(&mut p, helper, from, Duration::from_secs(600));
    let near = |times: &[f64], wanted: &[f64]| {
        let close = |(t, w): (&f64, &f64)| (t - w).abs() < 1.0;
        times.len() == wanted.len() && times.iter().zip(wanted).all(close)
    };
    assert!(near(&asked, &[4.0, 14.0, 34.0, 74.0]), "{asked:?}");

    p.server().write(id, "HTTP/1.1 200".into());
    let from = p.now;
    p.run(from + Duration::from_secs(2), |_| false);
    let mut asked = sends_on(&mut p, helper, from, Duration::from_secs(600));
    asked.extend(sends_on(&mut p, direct, from, Duration::from_secs(1_200)));
    assert!(near(&asked, &[5.0]), "{asked:?}");

    // A new request makes an answer due, and wakes nobody at once who has slept for long.
    p.client.write(id, "GET /again".into());
    let from = p.now;
    p.run(from + Duration::from_secs(2), |_| false);
    let asked = sends_on(&mut p, helper, from, Duration::from_secs(600));
    assert!(near(&asked, &[10.0, 30.0, 70.0]), "{asked:?}");
}

/// Everything goes silent, with the answer on its way, after the primary has asked and been told
/// that all is well: it asks again, finds out, and can join anew long before the proxy's kernel,
/// which waits for as long again as it has waited, sends the answer again.
#[test]
fn silence_after_the_first_question_is_noticed_too() {
    let (mut p, ..) = joined(SessionConfig::default());
    let id = p.open();
    p.client.write(id, "GET /".into());
    let from = p.now;
    p.run(from + Duration::from_secs(8), |_| false);
    p.links.iter_mut().for_each(|l| l.blackhole = true);
    p.server().write(id, "HTTP/1.1 200".into());
    p.run(from + Duration::from_secs(60), |p| {
        p.client.subflows(p.now).is_empty()
    });
    let noticed = p.now.since(from).as_secs();
    assert!((15..35).contains(&noticed), "{noticed} s");
}

/// What a path brings when it is back is acknowledged over another one, which is silent without its
/// owing anything: the answer to the question whether the path works says it again.
#[test]
fn an_ack_that_is_lost_on_a_silent_path_comes_with_the_answer_to_a_ping() {
    let (mut p, _, helper) = joined(SessionConfig::default());
    let id = p.open();
    p.client.write(id, "GET /".into());
    p.run(at(3_000), |_| false);
    p.links.iter_mut().for_each(|l| l.blackhole = true);
    // The server's bytes lie on both, the client's on the helper's.
    p.server().write(id, pattern(100_000));
    p.run(at(5_000), |_| false);
    p.client.write(id, "more".into());
    let state = |s: &Session, now| s.subflows(now)[1].state;
    p.run(at(6_000), |p| {
        state(&p.client, p.now) == SubflowState::Suspect
    });
    let now = p.now;
    assert!(now < at(6_000));
    assert_eq!(state(p.server(), now), SubflowState::Suspect);
    assert_eq!(p.client.subflows(now)[0].state, SubflowState::Up);
    p.links[1].blackhole = false;
    assert_eq!(p.links[1].id, helper);
    let all = |p: &mut Pair| {
        p.client_got
            .get(&id)
            .is_some_and(|(got, _)| got.len() == 100_000)
    };
    p.run(now + Duration::from_secs(1), all);
    assert!(all(&mut p), "{:?}", p.client_got[&id].0.len());
}
