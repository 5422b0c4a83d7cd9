//! The true offset lies within the error; steps and contradictions are reported.

use proptest::prelude::*;

use super::*;

const EPOCH: u64 = 1_700_000_000_000_000_000;

/// Two clocks: the other shows `ahead_ns` more at `EPOCH` of this one, and is faster by
/// `skew_ppm`.
#[derive(Clone, Copy)]
struct Clocks {
    ahead_ns: i64,
    skew_ppm: f64,
}

impl Clocks {
    fn offset_ns(&self, here_ns: u64) -> f64 {
        self.ahead_ns as f64 + difference(EPOCH, here_ns) as f64 * self.skew_ppm / 1e6
    }

    fn there(&self, here_ns: u64) -> u64 {
        let gained = difference(EPOCH, here_ns) as f64 * self.skew_ppm / 1e6;
        here_ns
            .checked_add_signed(self.ahead_ns + gained.floor() as i64)
            .unwrap()
    }

    fn exchange(&self, at_ns: u64, out_us: u64, inside_us: u64, back_us: u64) -> [u64; 4] {
        let (t2, t3) = (at_ns + out_us * 1000, at_ns + (out_us + inside_us) * 1000);
        [at_ns, self.there(t2), self.there(t3), t3 + back_us * 1000]
    }
}

fn holds(fit: &ClockFit, clocks: &Clocks, at_ns: u64) -> bool {
    let found = fit.at(at_ns).unwrap();
    let wrong = found.base_ns as f64 + found.rest_ns - clocks.offset_ns(at_ns);
    wrong.abs() <= found.error_ns
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever the skew within ±200 ppm, the delays of each direction and the losses: one line
    /// fits, and the true offset is within its error at every time of the run and beyond.
    #[test]
    fn the_true_offset_is_within_the_error(
        ahead_ns in -1_000_000_000_000_i64..1_000_000_000_000,
        skew_ppm in -200.0..200.0_f64,
        more_back_us in 0_u64..200_000,
        interval_us in 100_u64..2_000_000,
        ways in proptest::collection::vec(
            (1_u64..100_000, 0_u64..500, 1_u64..100_000, prop::bool::weighted(0.7)), 1..150),
    ) {
        let clocks = Clocks { ahead_ns, skew_ppm };
        let mut fit = ClockFit::new(1);
        let mut last = None;
        for (i, (out, inside, back, arrives)) in ways.iter().enumerate() {
            if *arrives {
                let at = EPOCH + i as u64 * interval_us * 1000;
                let e = clocks.exchange(at, *out, *inside, back + more_back_us);
                let part = fit.exchange(e);
                prop_assert_eq!(part, Some(0));
                last = Some(at);
            }
        }
        let Some(last) = last else { return Ok(()) };
        prop_assert!(!fit.drifted());
        prop_assert_eq!(fit.crossed(), 0);
        for nth in 0..=20 {
            let at = EPOCH - 1_000_000_000 + (last + 2_000_000_000 - EPOCH) / 20 * nth;
            prop_assert!(holds(&fit, &clocks, at), "{:?}", fit.at(at));
        }
        let line = fit.segments()[0];
        prop_assert!((line.skew_ppm - skew_ppm).abs() <= line.skew_error_ppm + 1e-3);
    }

    /// Data in one direction and their acknowledgements in the other, not in pairs.
    #[test]
    fn bounds_of_single_packets_hold(
        skew_ppm in -200.0..200.0_f64,
        packets in proptest::collection::vec((prop::bool::ANY, 1_u64..50_000), 1..200),
    ) {
        let clocks = Clocks { ahead_ns: -5_000_000, skew_ppm };
        let mut fit = ClockFit::new(1);
        for (i, (out, delay_us)) in packets.iter().enumerate() {
            let (sent, came) = (EPOCH + i as u64 * 10_000_000, delay_us * 1000);
            let part = match out {
                true => fit.sent(sent, clocks.there(sent + came)),
                false => fit.received(clocks.there(sent - came), sent),
            };
            prop_assert_eq!(part, Some(0));
        }
        let both = packets.iter().any(|p| p.0) && packets.iter().any(|p| !p.0);
        prop_assert_eq!(fit.at(EPOCH).is_some(), both);
        prop_assert!(!both || holds(&fit, &clocks, EPOCH + packets.len() as u64 * 10_000_000));
    }

    /// Stamps made up by the other side: no panic, and every exchange is in a segment or reported.
    #[test]
    fn any_stamps_are_survived(
        stamps in proptest::collection::vec(prop::array::uniform4(any::<u64>()), 0..60),
    ) {
        let mut fit = ClockFit::new(1);
        let mut fitted = 0;
        for exchange in &stamps {
            fitted += u64::from(fit.exchange(*exchange).is_some());
        }
        prop_assert_eq!(fitted + fit.crossed(), stamps.len() as u64);
        let bounds: u64 = fit.segments().iter().map(|s| s.bounds).sum();
        prop_assert_eq!(bounds, 2 * fitted);
    }
}

/// A server that gains 100 ppm for 40 s, 1 ms there and 21 ms back: the offset ends at 4 ms.
#[test]
fn skew_is_in_the_bound() {
    let clocks = Clocks {
        ahead_ns: 0,
        skew_ppm: 100.0,
    };
    let mut fit = ClockFit::new(1);
    for i in 0..=40_u64 {
        let spread = i * 7919 % 5 * 100;
        fit.exchange(clocks.exchange(EPOCH + i * 1_000_000_000, 1000 + spread, 50, 21_000));
    }
    assert!(!fit.drifted());
    for s in 0..=40 {
        assert!(holds(&fit, &clocks, EPOCH + s * 1_000_000_000), "{s}");
    }
    let line = fit.segments()[0];
    // Half of the shortest round trip. Asymmetry changes little within 40 s: 22 ms would be 550
    // ppm, so that every skew is possible.
    assert!((11e6..11.1e6).contains(&line.worst_error_ns), "{line:?}");
    assert_eq!((line.skew_ppm, line.skew_error_ppm), (0.0, 250.0));
}

/// Seconds of packets with both delays about 100 µs: the skew is known to a few ppm.
#[test]
fn short_delays_over_a_long_time_show_the_skew() {
    let clocks = Clocks {
        ahead_ns: 77,
        skew_ppm: -42.0,
    };
    let mut fit = ClockFit::new(1);
    for i in 0..200_u64 {
        let at = EPOCH + i * 1_000_000_000;
        fit.exchange(clocks.exchange(at, 100 + i % 3, 5, 100 + i % 7));
    }
    let line = fit.segments()[0];
    assert!(
        (line.skew_ppm + 42.0).abs() < line.skew_error_ppm,
        "{line:?}"
    );
    assert!(line.skew_error_ppm < 1.1, "{line:?}");
}

/// The other clock is set forward by 1 s in the middle: two segments, each with its own bound.
#[test]
fn a_step_begins_a_segment() {
    let before = Clocks {
        ahead_ns: 0,
        skew_ppm: 20.0,
    };
    let after = Clocks {
        ahead_ns: 1_000_000_000,
        skew_ppm: 20.0,
    };
    let mut fit = ClockFit::new(1);
    for i in 0..20_u64 {
        let clocks = if i < 10 { before } else { after };
        fit.exchange(clocks.exchange(EPOCH + i * 1_000_000_000, 500, 10, 9000));
    }
    assert!(fit.drifted());
    assert_eq!((fit.segments().len(), fit.crossed()), (2, 0));
    assert!(holds(&fit, &before, EPOCH + 9_000_000_000));
    assert!(holds(&fit, &after, EPOCH + 10_000_000_000));
    // The time of the step is not known.
    assert_eq!(fit.at(EPOCH + 9_500_000_000), None);
}

/// A server that claims to have kept a probe longer than its round trip, to have answered it
/// before it came, or stamps a single one a second later than the others.
#[test]
fn contradictions_are_left_out_and_counted() {
    let clocks = Clocks {
        ahead_ns: 0,
        skew_ppm: 0.0,
    };
    let mut fit = ClockFit::new(1);
    for i in 0..20_u64 {
        let [t1, t2, t3, t4] = clocks.exchange(EPOCH + i * 100_000_000, 500, 10, 500);
        let stamps = match i {
            5 => [t1, t2, t3 + 2_000_000, t4],
            6 => [t1, t2, t2 - 1, t4],
            _ => [t1, t2, t3, t4],
        };
        assert_eq!(fit.exchange(stamps).is_some(), ![5, 6].contains(&i));
    }
    assert_eq!((fit.crossed(), fit.drifted()), (2, false));
    assert!(holds(&fit, &clocks, EPOCH));
    let at = EPOCH + 2_000_000_000;
    fit.exchange([at, at + 1_000_000_000, at + 1_000_000_000, at + 1000]);
    assert!(fit.drifted());
}

/// Stamps rounded down to µs, of packets that take no time.
#[test]
fn coarse_stamps_do_not_cross() {
    let stamps: Vec<u64> = (0..50).map(|i| EPOCH + i * 1_234_567).collect();
    let coarse = |ns: &u64| ns / 1000 * 1000;
    assert_eq!(resolution_ns(stamps.iter().map(coarse)), 1000);
    let mut fit = ClockFit::new(1000);
    for at in &stamps {
        assert_eq!(fit.exchange([*at, coarse(at), coarse(at), *at]), Some(0));
    }
    assert!(fit.at(EPOCH).unwrap().error_ns < 1001.0);
}

/// Packets of one direction only, whose clock gains 50 ppm, and one back at the end.
fn one_sided(out: bool, delay_ns: impl Fn(u64) -> u64) -> (Clocks, ClockFit, u64) {
    const PACKETS: u64 = 200_000;
    let clocks = Clocks {
        ahead_ns: 3_000_000,
        skew_ppm: 50.0,
    };
    let mut fit = ClockFit::new(1);
    let add = |fit: &mut ClockFit, out: bool, at: u64, delay_ns: u64| match out {
        true => fit.sent(at, clocks.there(at + delay_ns)),
        false => fit.received(clocks.there(at - delay_ns), at),
    };
    for i in 0..PACKETS {
        let part = add(&mut fit, out, EPOCH + i * 10_000_000, delay_ns(i));
        assert_eq!(part, Some(0));
    }
    let [
        Part {
            lines: Lines::Unlimited(known),
            ..
        },
    ] = fit.parts.as_slice()
    else {
        panic!("no bounds of the other side");
    };
    assert!(known.len() < 2 * MAX_CORNERS, "{}", known.len());
    let end = EPOCH + PACKETS * 10_000_000;
    assert_eq!(add(&mut fit, !out, end, 1_000_000), Some(0));
    assert_eq!((fit.drifted(), fit.crossed()), (false, 0));
    assert_eq!(fit.segments()[0].bounds, PACKETS + 1);
    (clocks, fit, end)
}

/// 200,000 packets before the first in the other direction: those that limit lines are kept.
#[test]
fn bounds_of_one_side_stay_few_and_lose_nothing() {
    for out in [true, false] {
        let (clocks, fit, end) = one_sided(out, |i| match i % 1000 {
            999 => 1_000_000,
            n => 1_000_000 + n * 7_919 + i % 7 * 100_000,
        });
        assert!(holds(&fit, &clocks, end));
        // 1 ms each way.
        let error_ns = fit.at(end).unwrap().error_ns;
        assert!((1e6..1.01e6).contains(&error_ns), "{error_ns}");
        let line = fit.segments()[0];
        // The hull limits the skew on one side: 2 ms are 1 ppm of 2000 s.
        let sign = if out { -1.0 } else { 1.0 };
        let limit_ppm = line.skew_ppm + sign * line.skew_error_ppm;
        assert!((limit_ppm - 50.0).abs() < 1.1, "{line:?}");
    }
}

/// Delays on a parabola: each bound is on the hull.
#[test]
fn bounds_of_one_side_beyond_the_largest_number_are_left_out() {
    for out in [true, false] {
        let (clocks, fit, end) = one_sided(out, |i| 1_000_000 + i * i / 100);
        assert!(holds(&fit, &clocks, end) && holds(&fit, &clocks, EPOCH));
    }
}
