//! Tests of the schedulers.

use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

use super::*;
use crate::{HelperId, SubflowId};

/// A subflow with a PAD in ms and a throughput in Mbit/s.
pub(crate) fn view(id: u32, idle: bool, pad_ms: u64, mbps: f64) -> SubflowView {
    SubflowView {
        id: SubflowId(id),
        helper: (id > 0).then_some(HelperId(id)),
        idle,
        pad: Duration::from_millis(pad_ms),
        frame: Duration::ZERO,
        rtt: Duration::from_millis(50 - u64::from(id)),
        throughput: BitRate::from_mbps(mbps),
    }
}

fn decide(s: &mut dyn Scheduler, views: &[SubflowView], unscheduled_bytes: u64) -> Option<u32> {
    let now = Timestamp::from_millis(1_000);
    match s.decide(now, views, Backlog { unscheduled_bytes }) {
        Decision::Send(id) => {
            assert!(
                views.iter().any(|v| v.id == id && v.idle),
                "chose a busy subflow"
            );
            s.sent(id, 10_000);
            Some(id.0)
        }
        Decision::Defer { until } => {
            assert!(until > now, "a deferral must end");
            None
        }
    }
}

#[test]
fn a_frame_counts_until_its_last_byte() {
    let frames = |mut views: [SubflowView; 2], times: [u64; 2]| {
        for (view, ms) in views.iter_mut().zip(times) {
            view.frame = Duration::from_millis(ms);
        }
        views
    };
    // The busy one delivers 70 KB before the first byte would arrive, 120 KB before the last.
    let slow = [view(0, false, 30, 8.0), view(1, true, 100, 0.6)];
    let decide = |views: &[SubflowView], left| decide(&mut Pams::default(), views, left);
    assert_eq!(decide(&frames(slow, [12, 0]), 100_000), Some(1));
    assert_eq!(decide(&frames(slow, [12, 50]), 100_000), None);
    assert_eq!(decide(&frames(slow, [12, 50]), 130_000), Some(1));
    // Of two idle ones, that which delivers the frame first.
    let idle = [view(0, true, 40, 8.0), view(1, true, 30, 0.6)];
    assert_eq!(decide(&frames(idle, [0, 0]), 100_000), Some(1));
    assert_eq!(decide(&frames(idle, [10, 50]), 100_000), Some(0));
}

/// Algorithm 1, by hand. 8 Mbit/s is 1000 bytes a millisecond.
#[test]
fn pams_follows_algorithm_1() {
    struct Case(&'static str, Vec<SubflowView>, u64, Option<u32>);
    let v = view;
    let cases = [
        Case(
            "both idle: least PAD",
            vec![v(0, true, 30, 8.0), v(1, true, 27, 5.0)],
            1,
            Some(1),
        ),
        Case(
            "none idle: wait",
            vec![v(0, false, 30, 8.0)],
            1_000_000,
            None,
        ),
        // The busy one delivers (130-30) ms x 1000 B/ms = 100 000 B before the target would.
        Case(
            "Diff equals what is left: send",
            vec![v(0, false, 30, 8.0), v(1, true, 130, 5.0)],
            100_000,
            Some(1),
        ),
        Case(
            "Diff exceeds it by a byte: defer",
            vec![v(0, false, 30, 8.0), v(1, true, 130, 5.0)],
            99_999,
            None,
        ),
        Case(
            "a busy one with more PAD does not count",
            vec![v(0, false, 200, 8.0), v(1, true, 130, 5.0)],
            1,
            Some(1),
        ),
        // Two busy: 100 ms x 1000 + 50 ms x 625 = 131 250.
        Case(
            "the sum over busy ones: send at the border",
            vec![
                v(0, false, 30, 8.0),
                v(1, false, 80, 5.0),
                v(2, true, 130, 5.0),
            ],
            131_250,
            Some(2),
        ),
        Case(
            "the sum over busy ones: defer below",
            vec![
                v(0, false, 30, 8.0),
                v(1, false, 80, 5.0),
                v(2, true, 130, 5.0),
            ],
            131_249,
            None,
        ),
        // Idle ones with less PAD than the target do not exist; those with more are no target.
        Case(
            "idle ones never count into Diff",
            vec![v(0, true, 30, 8.0), v(1, true, 31, 5.0)],
            1,
            Some(0),
        ),
    ];
    for Case(name, views, left, want) in cases {
        assert_eq!(decide(&mut Pams::default(), &views, left), want, "{name}");
    }
}

#[test]
fn min_pad_never_defers_while_one_is_idle() {
    let views = [view(0, false, 30, 8.0), view(1, true, 9_000, 5.0)];
    assert_eq!(decide(&mut MinPad, &views, 1), Some(1));
}

#[test]
fn min_rtt_sees_the_near_hop_only() {
    // The helper's near hop has the lesser RTT, though its PAD is huge.
    let views = [view(0, true, 30, 8.0), view(1, true, 9_000, 5.0)];
    assert_eq!(decide(&mut MinRtt, &views, 1), Some(1));
}

#[test]
fn round_robin_takes_turns_and_skips_busy_ones() {
    let mut s = RoundRobin::default();
    let mut views = [
        view(0, true, 1, 1.0),
        view(1, true, 1, 1.0),
        view(2, true, 1, 1.0),
    ];
    let turn: Vec<_> = (0..4).map(|_| decide(&mut s, &views, 1)).collect();
    assert_eq!(turn, [Some(0), Some(1), Some(2), Some(0)]);
    views[1].idle = false;
    assert_eq!(decide(&mut s, &views, 1), Some(2));
}

#[test]
fn single_stays_until_its_subflow_is_gone() {
    let mut s = Single::default();
    let busy = [view(0, false, 1, 1.0), view(1, true, 1, 1.0)];
    assert_eq!(decide(&mut s, &busy, 1), None);
    assert_eq!(decide(&mut s, &busy[1..], 1), Some(1));
    let back = [view(0, true, 1, 1.0), view(1, true, 1, 1.0)];
    assert_eq!(
        decide(&mut s, &back, 1),
        Some(1),
        "no flapping back while it works"
    );
}

#[test]
fn fixed_ratio_keeps_its_share() {
    let views = [view(0, true, 1, 1.0), view(1, true, 1, 1.0)];
    for (share, want) in [(0.0, 0), (0.25, 25), (0.6, 60), (1.0, 100)] {
        let mut s = FixedRatio::new(share);
        let direct = (0..100)
            .filter(|_| decide(&mut s, &views, 1) == Some(0))
            .count();
        assert!(direct.abs_diff(want) <= 1, "{share}: {direct}");
    }
    // Each side takes its share of what there is at its own pace, and no more.
    let mut s = FixedRatio::new(0.5);
    let busy = [view(0, false, 1, 1.0), view(1, true, 1, 1.0)];
    let mut left = 100_000;
    let mut ahead = 0;
    while decide(&mut s, &busy, left) == Some(1) {
        left -= 10_000;
        ahead += 10_000;
    }
    assert_eq!(ahead, 50_000);
    assert_eq!(decide(&mut s, &views, left), Some(0));
    // Without a relay the first one that joined is the direct one, wherever it stands.
    let tethered = views.map(|v| SubflowView { helper: None, ..v });
    let mut s = FixedRatio::new(0.6);
    let direct = (0..100)
        .filter(|_| decide(&mut s, &[tethered[1], tethered[0]], 1) == Some(0))
        .count();
    assert!(direct.abs_diff(60) <= 1, "{direct}");
    // The side that is due is busy: wait, though the other one is idle.
    let mut s = FixedRatio::new(1.0);
    let views = [view(0, false, 1, 1.0), view(1, true, 1, 1.0)];
    assert_eq!(decide(&mut s, &views, 1), None);
}

#[test]
fn names_round_trip() {
    for name in [
        "mpbond",
        "pams",
        "min-pad",
        "min-rtt",
        "round-robin",
        "redundant",
        "single",
        "fixed-ratio=0.5",
    ] {
        let kind: SchedulerKind = name.parse().unwrap();
        assert_eq!(kind.to_string(), name);
    }
    assert!("fixed-ratio=2".parse::<SchedulerKind>().is_err());
    assert!("fastest".parse::<SchedulerKind>().is_err());
}
