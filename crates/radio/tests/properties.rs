//! Properties of every radio under random traffic.

// Helpers of tests may fail loudly, as the tests themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

use mpbond_radio::{Account, Hint, Packet, Placement, Profiles, Radio, Span};
use mpbond_units::Timestamp;
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Event {
    Packet(Packet),
    Hint(Hint),
    Advance,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0_u32..2000).prop_map(|b| Event::Packet(Packet::up(b))),
        6 => (0_u32..2000).prop_map(|b| Event::Packet(Packet::down(b))),
        1 => prop_oneof![
            Just(Hint::Wake), Just(Hint::Release), Just(Hint::Off),
            (-100.0..0.0).prop_map(Hint::Signal)
        ].prop_map(Event::Hint),
        2 => Just(Event::Advance),
    ]
}

fn gap_ns() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..1_000_000, 0_u64..200_000_000, 0_u64..20_000_000_000]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn time_is_covered_once_and_energy_adds_up(
        events in proptest::collection::vec((gap_ns(), event()), 1..120),
        recorded in any::<bool>(),
    ) {
        let placement = if recorded { Placement::Recorded } else { Placement::Live };
        let profiles = Profiles::shipped().unwrap();
        for name in profiles.names("radio") {
            let mut radio = Radio::new(profiles.radio(name).unwrap(), placement);
            let (mut spans, mut sums) = (Vec::<Span>::new(), Account::default());
            let mut now = 3_600_000_000_000_u64;
            let mut latest = Timestamp::ZERO;
            let mut bytes = 0;
            for &(gap, event) in &events {
                now += gap;
                let at = Timestamp::from_nanos(now);
                let mut out = (&mut spans, &mut sums);
                match event {
                    Event::Packet(p) => {
                        bytes += u64::from(p.bytes);
                        let pass = radio.packet(at, p, &mut out);
                        prop_assert!(pass >= at, "{name}");
                        prop_assert!(!recorded || pass == at, "{name}: a recorded packet is held");
                        latest = latest.max(pass);
                    }
                    Event::Hint(h) => radio.hint(at, h, &mut out),
                    Event::Advance => radio.advance(at, &mut out),
                }
                if let Some(next) = radio.next_event() {
                    prop_assert!(next.as_nanos() + 3_600_000_000_000 > now, "{name}");
                }
            }
            let end = Timestamp::from_nanos(now).max(latest);
            radio.finish(end, &mut (&mut spans, &mut sums));
            for pair in spans.windows(2) {
                prop_assert_eq!(pair[0].end, pair[1].start, "{}", name);
            }
            prop_assert!(spans.iter().all(|s| s.power_mw >= 0.0 && s.power_mw.is_finite()));
            if let Some(last) = spans.last() {
                prop_assert!(last.end >= end, "{name}: {last:?} before {end:?}");
            }
            let summary = sums.summary();
            let spans_joules = spans.iter().map(Span::energy_mj).sum::<f64>() / 1e3;
            let direct: f64 = spans_joules + summary.bits_joules;
            prop_assert!((summary.joules - direct).abs() <= 1e-9 * (1.0 + direct));
            prop_assert!(summary.joules_without_last_tail <= summary.joules + 1e-9);
            prop_assert!(summary.joules_without_last_tail >= -1e-9);
            prop_assert_eq!(summary.up_bytes + summary.down_bytes, bytes);
        }
    }

    #[test]
    fn time_going_backwards_changes_nothing_worse_than_the_order(
        times in proptest::collection::vec(0_u64..60_000_000_000, 1..100),
    ) {
        let profiles = Profiles::shipped().unwrap();
        for name in profiles.names("radio") {
            let mut radio = Radio::new(profiles.radio(name).unwrap(), Placement::Live);
            let mut spans = Vec::<Span>::new();
            for &t in &times {
                radio.packet(Timestamp::from_nanos(t), Packet::down(100), &mut spans);
            }
            radio.finish(Timestamp::ZERO, &mut spans);
            for pair in spans.windows(2) {
                prop_assert_eq!(pair[0].end, pair[1].start, "{}", name);
            }
        }
    }
}
