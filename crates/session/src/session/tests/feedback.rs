//! Feedback: the subflows that carry it.

use std::time::Duration;

use super::pair::{at, download, joined, pattern};
use crate::session::Read;
use crate::*;

/// Four megabytes, half of them through a helper whose pipe is the slow hop and drains when the
/// direct subflow is done. Octets of feedback over the direct subflow and over the helper's, where
/// `downlink` says how long the helper's own link has been silent.
fn feedback_while_a_pipe_drains(downlink: Option<Duration>) -> (u64, u64) {
    let config = SessionConfig {
        scheduler: SchedulerKind::FixedRatio { direct: 0.5 },
        // Otherwise the direct subflow takes over what waits for the pipe.
        reinjection: ReinjectionConfig {
            rebalance: false,
            hedge: false,
            ..ReinjectionConfig::default()
        },
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

/// A primary's ACKs go each 25 ms while bytes come, so that one is always on its way.
#[test]
fn feedback_is_no_load() {
    let (mut p, ..) = joined(SessionConfig::default());
    let id = p.open();
    p.client.write(id, "GET /".into());
    p.run(at(2_000), |p| p.opened().contains(&id));
    p.server().write(id, pattern(8 << 20));
    let (mut up, mut down) = (false, false);
    let has_load = |all: Vec<SubflowStats>| all.iter().any(|s| s.throughput_under_load.is_some());
    let from = p.now;
    p.run(from + Duration::from_secs(6), |p| {
        let now = p.now;
        up |= has_load(p.client.subflows(now));
        down |= has_load(p.server().subflows(now));
        false
    });
    assert!(p.client_got[&id].0.len() > 4 << 20);
    assert!(down, "the download is load");
    assert!(!up);
}

/// A helper reports every 100 ms for half a second after its relay was last used. At rest no report
/// may use it: the next one would follow from that.
#[test]
fn reports_of_an_idle_helper_are_not_sent() {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    let id = p.open();
    p.client.write(id, "GET /".into());
    p.client.finish(id);
    p.run(at(2_000), |p| p.opened().contains(&id));
    p.server().write(id, pattern(100_000));
    p.server().finish(id);
    let delivered = |p: &mut super::pair::Pair| {
        let got = p.client_got.get(&id);
        got.is_some_and(|(_, end)| *end == Some(Read::Fin))
    };
    p.run(at(5_000), delivered);
    let octets = |p: &super::pair::Pair| p.octets_up(direct) + p.octets_up(helper);
    let (mut used, mut last, mut since) = (p.now, octets(&p), p.now);
    let mut reports = 0;
    for _ in 0..100 {
        if p.now.since(used) < Duration::from_millis(500) {
            p.client.relay_report(p.now, helper, FarReport::default());
            reports += 1;
        }
        p.run(p.now + Duration::from_millis(100), |_| false);
        if octets(&p) > last {
            (used, last, since) = (p.now, octets(&p), p.now);
        }
    }
    assert!(
        (1..20).contains(&reports),
        "{reports} reports in ten seconds"
    );
    let rest = p.now.since(since);
    assert!(
        rest > Duration::from_secs(8),
        "at rest for {rest:?} of ten seconds"
    );
}

/// Octets that a report adds on the direct subflow and on the helper's, by rule, while data moves
/// on the HS-Path, on the pipe, on the PS-Path.
#[test]
fn reports_travel_where_the_published_rules_say() {
    let reported = |rule, moving: [bool; 3]| {
        let config = SessionConfig {
            feedback: rule,
            ..SessionConfig::default()
        };
        let (mut p, direct, helper) = joined(config);
        let id = p.open();
        p.client.write(id, "GET /".into());
        p.run(at(2_000), |_| false);
        p.run(at(5_000), |_| false);
        let [hs_path, pipe, ps_path] = moving;
        let now = p.now;
        let quiet = |moves| Duration::from_millis(if moves { 20 } else { 2_000 });
        let long_ago = now.before(Duration::from_secs(2));
        for s in p.client.subflows.iter_mut() {
            let moves = if s.helper.is_some() { pipe } else { ps_path };
            s.counters.last_in = Some(if moves { now } else { long_ago });
            s.counters.last_out = None;
        }
        p.client.handle_helper_downlink(now, helper, quiet(hs_path));
        let before = (p.octets_up(direct), p.octets_up(helper));
        p.client.relay_report(now, helper, FarReport::default());
        p.run(now + Duration::from_millis(5), |_| false);
        (
            p.octets_up(direct) > before.0,
            p.octets_up(helper) > before.1,
        )
    };
    use FeedbackRule::{FixedAlways, FixedOnDemand, Flexible};
    let [nowhere, hs, pipe, ps] = [
        [false, false, false],
        [true, true, false],
        [false, true, false],
        [false, false, true],
    ];
    for (rule, moving, sent) in [
        (Flexible, nowhere, (false, false)),
        (Flexible, hs, (false, true)),
        (Flexible, pipe, (false, false)),
        (Flexible, ps, (true, false)),
        (Flexible, [true, true, true], (true, true)),
        (FixedAlways, nowhere, (false, false)),
        (FixedAlways, hs, (false, true)),
        (FixedAlways, pipe, (false, true)),
        (FixedAlways, ps, (false, false)),
        (FixedOnDemand, nowhere, (false, false)),
        (FixedOnDemand, hs, (false, true)),
        (FixedOnDemand, pipe, (false, false)),
        (FixedOnDemand, [true, true, true], (false, true)),
    ] {
        assert_eq!(reported(rule, moving), sent, "{rule:?} {moving:?}");
    }
}

/// Whichever radio was busy last: a request takes the direct path, for a pipe may have fallen
/// silent during the pause.
#[test]
fn a_stream_opens_over_the_direct_path() {
    let (mut p, _, helper) = joined(SessionConfig::default());
    let report = FarReport {
        rtt: Duration::from_millis(50),
        ..FarReport::default()
    };
    p.client.handle_far_report(p.now, helper, report);
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
