//! Files of measurements, their figures, and one real load.

use super::*;

fn cpu(text: &str) -> Cpu {
    toml::from_str(text).unwrap()
}

const HALF: &str = "[[scheme]]\nname = \"half\"\nduty = 0.5\n";
const QUARTER: &str = "[[scheme]]\nname = \"quarter\"\nduty = 0.25\n";
const COMPARE: &str = "[[compare]]\nname = \"less\"\nof = \"quarter\"\nwith = \"half\"\n";
const POWER: &str = "power = { profile = \"cpu-galaxy-s3\", mhz = 1400.0 }\n";

fn used(all: f64, others: f64) -> Use {
    Use {
        seconds: 20.0,
        all,
        steal: 0.0,
        others,
    }
}

/// Repetitions of which one in `of` has another program beside the first scheme.
fn repetitions(count: usize, disturbed: usize) -> Vec<Repetition> {
    let once = |n| {
        let others = if n < disturbed { 0.3 } else { 0.0 };
        Repetition {
            idle: used(0.01, 0.0),
            runs: vec![used(0.51, 0.0), used(0.26 + others, others)],
        }
    };
    (0..count).map(once).collect()
}

#[test]
fn savings_come_from_fit_pairs() {
    let c = cpu(&format!(
        "seconds = 20\nrepetitions = 10\n{POWER}{HALF}{QUARTER}{COMPARE}"
    ));
    assert_eq!(c.check(), Ok(()));
    for disturbed in [0, 5] {
        let mut outcome = Outcome::default();
        c.report(&repetitions(10, disturbed), &mut outcome);
        let figure = |key: &str| outcome.figures[key].unwrap();
        assert!((figure("half: cpu_share") - 0.5).abs() < 1e-9);
        assert!((figure("quarter: cpu_share") - 0.25).abs() < 1e-9);
        assert!((figure("less: saving_share") - 0.5).abs() < 1e-9);
        // A core of the S3 at 1400 MHz: 200 mA at 3.8 V.
        assert!((figure("less: saved_mW") - 0.25 * 760.0).abs() < 1e-6);
        assert_eq!(
            outcome.tables[1].rows[0][1],
            format!("{} of 10", 10 - disturbed)
        );
        assert!(c.keys().iter().all(|key| outcome.figures.contains_key(key)));
    }
    // Fewer than half.
    let mut outcome = Outcome::default();
    c.report(&repetitions(10, 6), &mut outcome);
    assert_eq!(outcome.figures["less: saving_share"], None);
    assert_eq!(outcome.figures["quarter: cpu_share"], None);
    assert!(outcome.figures["half: cpu_share"].is_some());
}

#[test]
fn errors_name_the_scheme() {
    let head = "seconds = 20\nrepetitions = 10\n";
    for (text, words) in [
        (
            format!("seconds = 0\nrepetitions = 1\n{HALF}"),
            "seconds: 1 to 600",
        ),
        (format!("{head}{HALF}{HALF}"), "two schemes \"half\""),
        (format!("{head}{HALF}{COMPARE}"), "no scheme \"quarter\""),
        (
            format!("{head}[[scheme]]\nname = \"a\"\nduty = 1.5\n"),
            "scheme \"a\": duty 1.5",
        ),
        (
            format!("{head}power = {{ profile = \"lte-2012\", mhz = 1.0 }}\n{HALF}"),
            "lte-2012",
        ),
    ] {
        let why = cpu(&text).check().unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}

/// The upper bound is wide: other programs and tests use the machine meanwhile.
#[test]
fn a_real_load_is_seen() {
    let load: Scheme = toml::from_str("name = \"quarter\"\nduty = 0.25\n").unwrap();
    let soaker = Soaker::start().unwrap();
    let used = run(&soaker, Some(&load), Duration::from_secs(2)).unwrap();
    println!("{used:?}: {:.4} of the load", used.own());
    // The load's time is no idle time, whatever else runs.
    assert!(used.all > 0.2, "{used:?}");
    assert!(used.all < soaker.processors() as f64 + 0.01, "{used:?}");
}
