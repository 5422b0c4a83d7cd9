//! Transfers where nothing fails, windows, and the ends of streams.

use std::time::Duration;

use super::pair::{Pair, at, download, hop, joined, pattern};
use crate::copies::Cause;
use crate::session::timer::Timer;
use crate::session::{Event, Read};
use crate::subflow::LastFrame;
use crate::*;

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

/// The stream's first byte and its answer, each after a pause and with as many that follow at once.
#[test]
fn movement_after_five_seconds_without_any_is_told_once_to_both_ends() {
    let (mut p, ..) = joined(SessionConfig::default());
    let id = p.open();
    let told = |events: &[Event]| events.iter().filter(|e| matches!(e, Event::Moving)).count();
    for (pause, in_all) in [(5_100, 1), (4_000, 1), (5_100, 2)] {
        p.run(p.now + Duration::from_millis(pause), |_| false);
        p.client.write(id, pattern(100_000));
        p.run(p.now + Duration::from_millis(200), |_| false);
        assert!(p.client.quiet_for(p.now) <= Duration::from_millis(200));
        assert_eq!(told(&p.client_events), in_all, "after {pause} ms");
        assert_eq!(told(&p.server_events), in_all, "after {pause} ms");
    }
}

#[test]
fn a_first_subflow_lost_before_its_hello_delays_no_other() {
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
    assert!(stats.copies_out.total() < (4 << 20) / 100, "{stats:?}");
    let subflows = p.client.subflows(p.now);
    let last = |id| {
        let s = subflows.iter().find(|s| s.id == id).unwrap();
        s.last_in.unwrap().as_secs_f64()
    };
    let spread = (last(direct) - last(helper)).abs();
    assert!(spread < 0.13, "{spread}");
}

/// A helper's pipe brings a twentieth of what the own link does. What it is given early it delivers
/// late, and the own link has used up the window by then.
#[test]
fn a_slow_pipe_does_not_stop_a_fast_link_by_the_window() {
    let time = |left_out: Option<Mechanism>| {
        let mut config = SessionConfig::default();
        if let Some(mechanism) = left_out {
            config.leave_out(mechanism);
        }
        let mut p = Pair::new(config);
        p.join(&[hop(40.0, 80)]);
        p.join(&[hop(2.0, 2), hop(10.0, 6)]);
        p.run(at(1_000), |_| false);
        let start = p.now;
        let done = download(&mut p, 24 << 20, 60_000);
        done.since(start).as_secs_f64()
    };
    let (with, without) = (time(None), time(Some(Mechanism::WindowPart)));
    // 24 MiB at 42 Mbit/s are 4.8 s.
    assert!(with < 5.2, "{with}");
    assert!(without > with * 1.03, "{without}, and {with}");
}

/// A fifth of 4 MB takes the pipe 1.3 s, and it does not wait for the own link, which needs 5.1 s
/// for the rest (MPBond section 6.2).
#[test]
fn a_fixed_share_is_of_all_that_waits() {
    let config = SessionConfig {
        scheduler: SchedulerKind::FixedRatio { direct: 0.8 },
        reinjection: ReinjectionConfig {
            rebalance: false,
            hedge: false,
            ..ReinjectionConfig::default()
        },
        ..SessionConfig::default()
    };
    let mut p = Pair::new(config);
    p.join(&[hop(5.0, 25)]);
    let helper = p.join(&[hop(5.0, 2), hop(10.0, 25)]);
    p.run(at(1_000), |_| false);
    let start = p.now;
    download(&mut p, 4_000_000, 30_000);
    let subflows = p.client.subflows(p.now);
    let s = subflows.iter().find(|s| s.id == helper).unwrap();
    let last = s.last_in.unwrap().since(start).as_secs_f64();
    assert!(last < 1.6, "{last}");
}

#[test]
fn min_rtt_leaves_the_helper_behind() {
    let config = SessionConfig {
        scheduler: SchedulerKind::MinRtt,
        reinjection: ReinjectionConfig {
            rebalance: false,
            hedge: false,
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

/// Between two parts nothing is left to be sent: the other path, which has run dry, takes copies of
/// the last bytes only when no part follows.
#[test]
fn a_transfer_written_in_parts_is_hedged_at_its_end_only() {
    let (mut p, ..) = joined(SessionConfig::default());
    download(&mut p, 1 << 20, 10_000);
    let id = p.open();
    let hedged = |p: &Pair| p.client.stats().copies_out.hedged;
    let before = hedged(&p);
    for _ in 0..8 {
        p.client.write(id, pattern(12_000));
        p.run(p.now + Duration::from_millis(1), |_| false);
        assert_eq!(hedged(&p), before);
    }
    p.run(p.now + Duration::from_millis(200), |_| false);
    assert!(hedged(&p) > before);
}

#[test]
fn nothing_is_waited_for_where_the_only_regular_path_carries_all_that_waits() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    p.client.set_backup(helper, true);
    p.run(at(1_200), |_| false);
    let id = p.open();
    p.client.write(id, pattern(5_000));
    p.run(p.now + Duration::from_millis(5), |_| false);
    let (_, work, _) = &mut p.client.reinjection();
    let on_direct = work.subflows.index(direct).unwrap();
    let copied = work.recall(on_direct, 2_000, LastFrame::Cut, Cause::Hedged, |_| true);
    assert_eq!(copied, 2_000);
    // The backup, whose socket takes more, is not asked while the other one works.
    assert!(p.client.poll_transmit(p.now, &mut Vec::new()).is_none());
    assert_eq!(p.client.timers.get(Timer::Schedule), None);
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
fn a_stalled_reader_blocks_no_other_stream() {
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
fn bytes_of_stalled_readers_starve_no_other_stream() {
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
    assert!(p.server().stats().copies_out.scheduled > 60_000);
}

#[test]
fn an_idle_session_sends_nothing_and_has_no_timer() {
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
