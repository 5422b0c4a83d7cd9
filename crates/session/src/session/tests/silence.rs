//! Silent and slow subflows: probes, copies, rebalancing, questions.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::pair::{Pair, at, download, hop, joined, pattern};
use crate::session::{Event, Read, Session};
use crate::*;

/// Reinjection as published recalls from a slow subflow, and leaves a silent one alone.
#[test]
fn published_reinjection_rebalances_and_nothing_else() {
    let config = SessionConfig {
        reinjection: ReinjectionRule::Published.into(),
        scheduler: SchedulerKind::Pams,
        ..SessionConfig::default()
    };
    let (mut p, direct, helper) = joined(config);
    let id = p.open();
    p.client.write(id, "GET /".into());
    p.run(at(2_000), |p| p.opened().contains(&id));
    let start = p.now;
    p.server().write(id, pattern(4 << 20));
    p.server().finish(id);
    p.run(start + Duration::from_secs(1), |_| false);
    p.set_hops(helper, &[hop(1.0, 2), hop(10.0, 25)]);
    p.run(start + Duration::from_secs(30), |p| {
        p.client_got[&id].1 == Some(Read::Fin)
    });
    assert!(p.client_got[&id].0 == pattern(4 << 20));
    let recalled = |e: &Event| matches!(e, Event::Recalled { subflow, .. } if *subflow == helper);
    assert!(p.server_events.iter().any(recalled));

    let id = p.open();
    p.client.write(id, "GET /".into());
    p.run(p.now + Duration::from_secs(1), |p| p.opened().contains(&id));
    p.links
        .iter_mut()
        .for_each(|l| l.blackhole |= l.id == direct);
    p.server().write(id, pattern(100_000));
    p.run(p.now + Duration::from_secs(20), |_| false);
    let now = p.now;
    let suspect = |s: &SubflowStats| s.state == SubflowState::PotentiallyFailed;
    assert!(!p.server().subflows(now).iter().any(suspect));
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
            .any(|e| matches!(e, Event::SubflowPotentiallyFailed(id) if *id == direct))
    );
}

/// Records of the silence arrive when it ends, as TCP sends them again.
#[test]
fn a_subflow_that_answers_again_is_reported_with_the_length_of_its_silence() {
    let (mut p, direct, _) = joined(SessionConfig::default());
    let id = p.open();
    p.client.write(id, pattern(100_000));
    p.links[0].blackhole = true;
    p.run(at(3_000), |_| false);
    p.links[0].blackhole = false;
    let recovered = |p: &Pair| {
        let silent = |e: &Event| match e {
            Event::SubflowRecovered { subflow, silent } => Some((*subflow, *silent)),
            _ => None,
        };
        p.client_events.iter().find_map(silent)
    };
    p.run(at(4_000), |p| recovered(p).is_some());
    let (subflow, silent) = recovered(&p).expect("reported");
    assert_eq!(subflow, direct);
    let about = Duration::from_millis(1_900)..Duration::from_millis(2_300);
    assert!(about.contains(&silent), "{silent:?}");
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
fn an_unanswered_hello_is_given_up() {
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
fn rebalancing_saves_a_transfer_whose_pipe_collapses() {
    let mut took = Vec::new();
    for rebalance in [true, false] {
        let mut p = Pair::new(SessionConfig {
            reinjection: ReinjectionConfig {
                rebalance,
                hedge: false,
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

/// An origin takes its time: the primary asks now and then whether a path still works, but not for
/// ever, and only once where the origin has answered and nothing is due. The helper rests.
#[test]
fn a_primary_asks_again_on_the_direct_path_only_while_an_answer_is_due() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let id = p.open();
    p.client.write(id, "GET /".into());
    p.run(at(2_000), |_| false);
    let (from, helped) = (p.now, p.octets_up(helper));
    let asked = sends_on(&mut p, direct, from, Duration::from_secs(600));
    let near = |times: &[f64], wanted: &[f64]| {
        let close = |(t, w): (&f64, &f64)| (t - w).abs() < 1.0;
        times.len() == wanted.len() && times.iter().zip(wanted).all(close)
    };
    assert!(near(&asked, &[4.0, 14.0]), "{asked:?}");
    assert_eq!(p.octets_up(helper), helped);

    p.server().write(id, "HTTP/1.1 200".into());
    let from = p.now;
    p.run(from + Duration::from_secs(2), |_| false);
    let mut asked = sends_on(&mut p, direct, from, Duration::from_secs(600));
    asked.extend(sends_on(&mut p, helper, from, Duration::from_secs(1_200)));
    assert!(near(&asked, &[5.0]), "{asked:?}");

    // A new request makes an answer due, and wakes nobody at once who has slept for long.
    p.client.write(id, "GET /again".into());
    let from = p.now;
    p.run(from + Duration::from_secs(2), |_| false);
    let asked = sends_on(&mut p, direct, from, Duration::from_secs(600));
    assert!(near(&asked, &[10.0]), "{asked:?}");
}

/// A PING and its answer are two records: the ACK travels with the answer.
#[test]
fn a_ping_is_acknowledged_by_its_answer_alone() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let id = p.open();
    p.client.write(id, "GET /".into());
    p.run(at(3_000), |_| false);
    let (mut records, mut before) = (0, [direct, helper].map(|id| p.octets_down(id)));
    p.run(at(10_000), |p| {
        let octets = [direct, helper].map(|id| p.octets_down(id));
        records += u32::from(octets != std::mem::replace(&mut before, octets));
        false
    });
    assert_eq!(records, 1);
    let silent = |s: &SubflowStats| s.state == SubflowState::PotentiallyFailed;
    assert!(!p.client.subflows(p.now).iter().any(silent));
}

/// The path that is asked is silent while others, which have rested, may be as well: they are asked
/// at once.
#[test]
fn all_paths_are_asked_when_the_one_that_was_asked_is_silent() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let id = p.open();
    p.client.write(id, "GET /".into());
    p.run(at(2_000), |_| false);
    p.links.iter_mut().for_each(|l| l.blackhole = true);
    let failed = |p: &mut Pair| -> Vec<SubflowId> {
        let events = p.client_events.iter();
        let failed = events.filter_map(|e| match e {
            Event::SubflowPotentiallyFailed(id) => Some(*id),
            _ => None,
        });
        failed.collect()
    };
    p.run(at(30_000), |p| failed(p).len() == 2);
    assert_eq!(failed(&mut p), [direct, helper]);
    assert!(p.now < at(8_000), "{}", p.now);
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
    assert!((30..35).contains(&noticed), "{noticed} s");
}

/// What a path brings when it is back is acknowledged over another one, which is silent without its
/// owing anything: the answer to the question whether the path works says it again.
#[test]
fn an_ack_that_is_lost_on_a_silent_path_comes_with_the_answer_to_a_ping() {
    let mut p = Pair::new(SessionConfig::default());
    p.join(&[hop(8.0, 25)]);
    let helper = p.join(&[hop(5.0, 2), hop(10.0, 20)]);
    p.run(at(1_000), |_| false);
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
        state(&p.client, p.now) == SubflowState::PotentiallyFailed
    });
    let now = p.now;
    assert!(now < at(6_000));
    assert_eq!(state(p.server(), now), SubflowState::PotentiallyFailed);
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

/// The only subflow goes through a helper that holds 4 MB for a slow pipe: the ACK of a request
/// lies behind them for longer than a silent subflow is kept.
#[test]
fn a_subflow_on_which_data_arrives_is_not_given_up() {
    let mut p = Pair::new(SessionConfig::default());
    let only = p.join(&[hop(1.2, 5), hop(50.0, 25)]);
    p.run(at(1_000), |_| false);
    let first = p.open();
    p.client.write(first, "GET /".into());
    p.run(at(2_000), |p| p.opened().contains(&first));
    let want = pattern(4 << 20);
    p.server().write(first, want.clone());
    p.run(at(6_000), |_| false);
    assert!(p.octets_down(only) > 4 << 20, "{}", p.octets_down(only));
    p.client.write(first, "more".into());
    p.run(at(60_000), |p| p.client_got[&first].0.len() == want.len());
    assert!(p.client_got[&first].0 == want);
    let given_up = |e: &Event| matches!(e, Event::SubflowClosed { .. });
    assert!(!p.client_events.iter().any(given_up));
    assert!(!p.server_events.iter().any(given_up));
}
