//! Files of measurements, and their figures.

use super::load::Arrived;
use super::repetition::{Ran, Run};
use super::*;
use crate::machine_use::Use;
use crate::network::cable::Units;

fn cpu(text: &str) -> Cpu {
    toml::from_str(text).unwrap()
}

const HALF: &str = "[[scheme]]\nname = \"half\"\nduty = 0.5\n";
const QUARTER: &str = "[[scheme]]\nname = \"quarter\"\nduty = 0.25\n";
const COMPARE: &str = "[[compare]]\nname = \"less\"\nof = \"quarter\"\nwith = \"half\"\n";
const POWER: &str = "power = { profile = \"cpu-galaxy-s3\", mhz = 1400.0 }\n";

const TRANSFER: &str = "[[scheme]]\nname = \"tcp\"\ntransfer = {}\n";

#[test]
fn transfers_run_at_each_rate() {
    let rates = "rates = [\"4 Mbit/s\", \"24 Mbit/s\"]\n";
    let one = "[[scheme]]\nname = \"one\"\ntransfer = { copy = \"one\" }\n";
    let compare = "[[compare]]\nname = \"saved\"\nof = \"one\"\nwith = \"tcp\"\n";
    let head = "seconds = 20\nrepetitions = 10\n";
    let c = cpu(&format!("{head}{rates}{HALF}{TRANSFER}{one}{compare}"));
    assert_eq!(c.check(), Ok(()));
    let names: Vec<String> = c.loads().into_iter().map(|load| load.name).collect();
    let expect = [
        "half",
        "tcp, 4 Mbit/s",
        "tcp, 24 Mbit/s",
        "one, 4 Mbit/s",
        "one, 24 Mbit/s",
    ];
    assert_eq!(names, expect);
    let pairs: Vec<_> = c
        .compared()
        .into_iter()
        .map(|c| (c.name, c.of, c.with))
        .collect();
    let expect = [("saved, 4 Mbit/s", 3, 1), ("saved, 24 Mbit/s", 4, 2)];
    assert_eq!(
        pairs,
        expect.map(|(name, of, with)| (name.to_owned(), of, with))
    );
    let arrived: Arrived =
        serde_json::from_str("{\"bytes\":30000000,\"seconds\":10.0,\"lost_bytes\":10000000}")
            .unwrap();
    assert_eq!(arrived.lost_share(), 0.25);
    let ran = |all| {
        Run::Ran(Ran {
            used: used(all, 0.0),
            arrived: Some(arrived),
        })
    };
    let once = Repetition {
        number: 0,
        idle: used(0.0, 0.0),
        runs: [0.5, 0.02, 0.09, 0.01, 0.06].map(ran).to_vec(),
    };
    let mut outcome = Outcome::default();
    c.report(&[once], 1, &mut outcome);
    let near = |key: &str, value: f64| {
        let figure = outcome.figures[key].unwrap();
        assert!((figure - value).abs() < 1e-9, "{key}: {figure}");
    };
    near("tcp, 24 Mbit/s: arrived_mbps", 24.0);
    // 0.09 of a processor for 3 MB/s.
    near("tcp, 24 Mbit/s: per_GB_s", 30.0);
    near("saved, 24 Mbit/s: saving_share", 1.0 / 3.0);
    for table in &outcome.tables {
        let lengths = table.rows.iter().map(Vec::len);
        assert!(lengths.into_iter().all(|cells| cells == table.header.len()));
    }
    // Arrival rate, loss, and processor time for 10^9 bytes.
    let row = outcome.tables[0].rows.iter();
    let row = row.into_iter().find(|row| row[0] == "tcp, 24 Mbit/s");
    assert_eq!(row.unwrap()[7..], ["24.00", "25.00", "30.00"]);
    assert!(c.keys().iter().all(|key| outcome.figures.contains_key(key)));
}

fn used(all: f64, others: f64) -> Use {
    Use {
        seconds: 20.0,
        all,
        steal: 0.0,
        others,
    }
}

fn ran(used: Use) -> Ran {
    Ran {
        used,
        arrived: None,
    }
}

/// Repetitions of which the first ones have another program beside the second scheme.
fn repetitions(count: u32, disturbed: u32) -> Vec<Repetition> {
    let once = |number| {
        let others = if number < disturbed { 0.3 } else { 0.0 };
        let runs = [used(0.51, 0.0), used(0.26 + others, others)];
        Repetition {
            number,
            idle: used(0.01, 0.0),
            runs: runs.map(|used| Run::Ran(ran(used))).to_vec(),
        }
    };
    (0..count).map(once).collect()
}

#[test]
fn savings_come_from_undisturbed_pairs() {
    let c = cpu(&format!(
        "seconds = 20\nrepetitions = 10\n{POWER}{HALF}{QUARTER}{COMPARE}"
    ));
    assert_eq!(c.check(), Ok(()));
    for disturbed in [0, 5] {
        let mut outcome = Outcome::default();
        c.report(&repetitions(10, disturbed), 10, &mut outcome);
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
    // Fewer than half of those planned.
    let mut outcome = Outcome::default();
    c.report(&repetitions(10, 6), 10, &mut outcome);
    assert_eq!(outcome.figures["less: saving_share"], None);
    assert_eq!(outcome.figures["quarter: cpu_share"], None);
    assert!(outcome.figures["half: cpu_share"].is_some());
}

#[test]
fn disturbed_runs_enter_no_figure_but_the_arrival_rate() {
    let c = cpu(&format!("seconds = 20\nrepetitions = 10\n{TRANSFER}"));
    let report = |disturbed: u32| {
        let once = |number| {
            let (others, seconds) = if number < disturbed {
                (0.5, 40.0)
            } else {
                (0.0, 20.0)
            };
            let arrived = format!("{{\"bytes\":60000000,\"seconds\":{seconds:?}}}");
            Repetition {
                number,
                idle: used(0.01 + 2.0 * others, others),
                runs: vec![Run::Ran(Ran {
                    used: used(0.07 + others, others),
                    arrived: Some(serde_json::from_str(&arrived).unwrap()),
                })],
            }
        };
        let mut outcome = Outcome::default();
        c.report(&(0..10).map(once).collect::<Vec<_>>(), 10, &mut outcome);
        outcome
    };
    let outcome = report(5);
    let near = |key: &str, value: f64| {
        let figure = outcome.figures[key].unwrap();
        assert!((figure - value).abs() < 1e-9, "{key}: {figure}");
    };
    near("none: cpu_share", 0.01);
    near("tcp: cpu_share", 0.06);
    // 0.06 of a processor for 3 MB/s; the other runs had half the rate.
    near("tcp: per_GB_s", 20.0);
    near("tcp: arrived_mbps", 18.0);
    let rows = &outcome.tables[0].rows;
    assert_eq!(rows[0][..2], ["none", "5 of 10"]);
    assert_eq!(rows[1][7..], ["18.00", "0.00", "20.00"]);
    let outcome = report(6);
    assert_eq!(outcome.figures["none: cpu_share"], None);
    assert_eq!(outcome.figures["tcp: per_GB_s"], None);
    assert!(outcome.figures["tcp: arrived_mbps"].is_some());
}

/// The report of ten repetitions of which the first ones are changed.
fn report_of(c: &Cpu, count: usize, change: fn(&mut Repetition)) -> Outcome {
    let mut all = repetitions(10, 0);
    all.iter_mut().take(count).for_each(change);
    let mut outcome = Outcome::default();
    c.report(&all, 10, &mut outcome);
    outcome
}

#[test]
fn counters_that_went_back_enter_no_mean_of_use() {
    let c = cpu(&format!("seconds = 20\nrepetitions = 10\n{HALF}"));
    let outcome = report_of(&c, 5, |r| {
        r.runs.truncate(1);
        r.runs[0] = Run::Ran(ran(used(0.51, -0.3)));
    });
    // All but idle time, steal, others.
    assert_eq!(outcome.tables[0].rows[1][4..7], ["51.00", "0.00", "0.00"]);
}

#[test]
fn a_saving_needs_an_undisturbed_run_without_a_load() {
    let c = cpu(&format!(
        "seconds = 20\nrepetitions = 10\n{HALF}{QUARTER}{COMPARE}"
    ));
    let report = |change: fn(&mut Repetition)| report_of(&c, 4, change);
    // Softirqs charged to another program during the run without a load.
    let outcome = report(|r| r.idle = used(0.1, 0.2));
    assert!((outcome.figures["less: saving_share"].unwrap() - 0.5).abs() < 1e-9);
    assert_eq!(outcome.tables[1].rows[0][1], "6 of 10");
    // In four pairs the second load used less than the idle machine. The sums are
    // 6 * 0.25 - 4 * 0.34 and 6 * 0.5 - 4 * 0.09.
    let outcome = report(|r| r.idle = used(0.6, 0.0));
    let saving = outcome.figures["less: saving_share"].unwrap();
    assert!((saving - (1.0 - 0.14 / 2.64)).abs() < 1e-9, "{saving}");
    // In all pairs.
    let outcome = report_of(&c, 10, |r| r.idle = used(0.6, 0.0));
    assert_eq!(outcome.figures["less: saving_share"], None);
    assert!((outcome.figures["less: saved_share"].unwrap() - 0.25).abs() < 1e-9);
    assert_eq!(outcome.tables[1].rows[0][1], "10 of 10");
}

#[test]
fn only_the_cables_that_loads_need_are_made() {
    let links = |text: &str| {
        let c = cpu(&format!("seconds = 1\nrepetitions = 1\n{text}"));
        assert_eq!(c.check(), Ok(()));
        let cables = super::load::cables_of(&c.schemes);
        cables
            .into_iter()
            .map(|(_, units)| units)
            .collect::<Vec<_>>()
    };
    let over =
        |link: &str| format!("[[scheme]]\nname = \"{link}\"\ntransfer = {{ link = \"{link}\" }}\n");
    assert_eq!(links(&format!("{HALF}{TRANSFER}")), []);
    assert_eq!(links(&over("veth-packets")), [Units::Packets]);
    let both = over("veth-packets") + &over("veth");
    assert_eq!(links(&both), [Units::Large, Units::Packets]);
}

#[test]
fn savings_have_intervals() {
    let c = cpu(&format!(
        "seconds = 20\nrepetitions = 10\n{POWER}{HALF}{QUARTER}{COMPARE}"
    ));
    // Half of the pairs save 0.25 of 0.5, the others 0.15.
    let outcome = report_of(&c, 5, |r| r.runs[1] = Run::Ran(ran(used(0.36, 0.0))));
    let interval = |figure: &str| outcome.intervals[&format!("less: {figure}")];
    // The deviation is 0.05 * sqrt(10 / 9); t(9) = 2.262157.
    let error = 2.262_157 * 0.05 / 3.0;
    let (low, high) = interval("saved_share");
    assert!((low - (0.2 - error)).abs() < 1e-6 && (high - (0.2 + error)).abs() < 1e-6);
    // All second loads used the same, so that the ratio is as exact as the difference.
    let (low, high) = interval("saving_share");
    assert!((low - (0.4 - 2.0 * error)).abs() < 1e-6 && (high - (0.4 + 2.0 * error)).abs() < 1e-6);
    let (low, high) = interval("saved_mW");
    assert!((low - (0.2 - error) * 760.0).abs() < 1e-3 && low < high);
}

#[test]
fn in_a_short_run_only_arrival_rates_are_judged() {
    let c = cpu(&format!("seconds = 20\nrepetitions = 10\n{HALF}{TRANSFER}"));
    let short = Options {
        at_most: Some(Duration::from_secs(12)),
        ..Options::default()
    };
    let inexact: Vec<String> = c.inexact(&short).into_iter().collect();
    assert_eq!(
        inexact,
        [
            "half: cpu_share",
            "none: cpu_share",
            "tcp: cpu_share",
            "tcp: per_GB_s"
        ]
    );
    assert!(c.inexact(&Options::default()).is_empty());
}

#[test]
fn errors_name_the_scheme() {
    let head = "seconds = 20\nrepetitions = 10\n";
    let of_transfer =
        |keys: &str| format!("{head}[[scheme]]\nname = \"a\"\ntransfer = {{ {keys} }}\n");
    for (text, words) in [
        (
            format!("seconds = 0\nrepetitions = 1\n{HALF}"),
            "seconds: 1 to 600",
        ),
        (format!("{head}{HALF}{HALF}"), "two schemes \"half\""),
        (
            format!("{head}[[scheme]]\nname = \"none\"\nduty = 0.5\n"),
            "scheme \"none\": that is the run without a load",
        ),
        (
            format!("{head}rates = [\"4 Mbit/s\", \"4000 kbit/s\"]\n{TRANSFER}"),
            "rates: 4 Mbit/s is there twice",
        ),
        (
            format!(
                "{head}rates = [\"4 Mbit/s\"]\n{TRANSFER}\
                 [[scheme]]\nname = \"tcp, 4 Mbit/s\"\nduty = 0.5\n"
            ),
            "two loads \"tcp, 4 Mbit/s\"",
        ),
        (
            format!("{head}{HALF}{QUARTER}{COMPARE}{COMPARE}"),
            "two comparisons \"less\"",
        ),
        (
            format!("{head}power = {{ profile = \"cpu-galaxy-s3\", mhz = nan }}\n{HALF}"),
            "mhz NaN: the processor of cpu-galaxy-s3 has 200 to 1600 MHz",
        ),
        (format!("{head}{HALF}{COMPARE}"), "no scheme \"quarter\""),
        (
            format!("{head}[[scheme]]\nname = \"a\"\nduty = 1.5\n"),
            "scheme \"a\": duty 1.5",
        ),
        (
            format!("{head}[[scheme]]\nname = \"a\"\n"),
            "scheme \"a\": a load is one of duty and transfer",
        ),
        (
            format!("{head}rates = [\"1 bit/s\"]\n{HALF}"),
            "rates: 100 kbit/s",
        ),
        (
            format!(
                "{head}{HALF}{TRANSFER}[[compare]]\nname = \"c\"\nof = \"half\"\nwith = \"tcp\"\n"
            ),
            "only one of the two has rates",
        ),
        (
            of_transfer("datagrams = \"gso\""),
            "need the transport udp:BYTES",
        ),
        (
            of_transfer("transport = \"l2\""),
            "the transport l2 needs link = \"veth\"",
        ),
        (
            of_transfer("link = \"veth-packets\", relay = { copy = \"one\" }"),
            "a relay of TCP runs over the loopback interface",
        ),
        (
            of_transfer("transport = \"udp:40000\", datagrams = \"gso\""),
            "scheme \"a\": gso needs datagrams of at most 32000 bytes",
        ),
        (
            of_transfer("transport = \"udp:1472\", copy = \"one\""),
            "one copy needs the transport tcp",
        ),
        (
            of_transfer("transport = \"udp:1472\", relay = { copy = \"two\" }"),
            "a relay needs the transport tcp or l2",
        ),
        (
            of_transfer("transport = \"l2\", link = \"veth\", relay = { copy = \"two\" }"),
            "frames need the relay of a helper",
        ),
        (
            of_transfer("relay = { copy = \"two\", tick = \"1s\" }"),
            "100 us to 100 ms",
        ),
        (
            of_transfer("relay = { copy = \"one\", longest_tick = \"5ms\" }"),
            "or longest_tick alone",
        ),
        (of_transfer("relay = {}"), "or longest_tick alone"),
        (
            of_transfer("relay = { longest_tick = \"9ms\" }"),
            "0, or 1 to 5 ms",
        ),
        (of_transfer("tick = \"2s\""), "100 us to 1 s"),
        (
            format!("{head}power = {{ profile = \"lte-2012\", mhz = 1.0 }}\n{HALF}"),
            "lte-2012",
        ),
    ] {
        let why = cpu(&text).check().unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn repetitions_follow_until_none_lacks() {
    let head = "seconds = 20\nrepetitions = 3\n";
    let c = cpu(&format!("{head}{HALF}{QUARTER}{COMPARE}"));
    assert!(c.lacks_none(&repetitions(3, 0), 3));
    // One of four has another program beside the first load.
    let mut all = repetitions(4, 1);
    assert!(c.lacks_none(&all, 3));
    all[1].runs = [used(0.53, 0.015), used(0.23, 0.0)]
        .map(|u| Run::Ran(ran(u)))
        .to_vec();
    assert!(c.lacks_none(&all, 3));
    // Each load is as the idle machine, and the two are not alike.
    all[1].idle = used(0.01, 0.015);
    all[1].runs[0] = Run::Ran(ran(used(0.53, 0.03)));
    assert!(!c.lacks_none(&all, 3));
    assert!(!c.lacks_none(&all[..2], 3));
}

/// Repetitions of a file by `run` instead of real loads, and the report of those.
fn repeated_by(
    c: &Cpu,
    run: impl Fn(Option<&Load<'_>>) -> Result<Ran, String>,
    path: Option<&std::path::Path>,
) -> (Vec<Repetition>, Outcome) {
    let plan = c.plan(&Options::default());
    let mut kept = Kept::open(subject(c, "a", &plan), path).unwrap();
    c.repeat(&plan, &mut kept, run).unwrap();
    let mut outcome = Outcome::default();
    c.report(kept.all(), plan.repetitions as usize, &mut outcome);
    (kept.all().to_vec(), outcome)
}

fn subject(c: &Cpu, name: &str, plan: &Plan) -> Subject {
    let loads = c.loads().into_iter().map(|load| load.name).collect();
    Subject::new(name, plan.length, loads, HALF)
}

/// A use of each load of [`HALF`] and [`QUARTER`].
fn as_named(load: Option<&Load<'_>>) -> Ran {
    ran(match load.map(|load| load.name.as_str()) {
        Some("half") => used(0.51, 0.0),
        Some(_) => used(0.26, 0.0),
        None => used(0.01, 0.0),
    })
}

fn both() -> Cpu {
    cpu(&format!(
        "seconds = 20\nrepetitions = 4\n{HALF}{QUARTER}{COMPARE}"
    ))
}

#[test]
fn a_load_that_fails_once_leaves_the_others_their_runs() {
    let c = both();
    let runs = std::cell::Cell::new(0);
    let fails_once = |load: Option<&Load<'_>>| {
        runs.set(runs.get() + 1);
        // The last load of the first repetition: 1 is the run without a load.
        match runs.get() {
            3 => Err("the sender: no port is free".to_owned()),
            _ => Ok(as_named(load)),
        }
    };
    let (all, outcome) = repeated_by(&c, fails_once, None);
    // Another one follows the four planned for the load that failed, and its comparison.
    assert_eq!(all.len(), 5);
    assert_eq!(all[0].failure(1), Some("the sender: no port is free"));
    assert!(all[0].ran(0).is_some());
    assert!((outcome.figures["less: saving_share"].unwrap() - 0.5).abs() < 1e-9);
    assert_eq!(outcome.tables[0].rows[1][..2], ["half", "5 of 5"]);
    assert_eq!(outcome.tables[0].rows[2][..2], ["quarter", "4 of 5"]);
    assert_eq!(outcome.tables[1].rows[0][1], "4 of 5");
    assert_eq!(
        outcome.notes,
        [
            "quarter: failed in 1 of 5 repetitions, which count as disturbed; last: the sender: no \
             port is free"
        ]
    );
    assert!(outcome.checks.is_empty());
}

#[test]
fn a_load_that_never_runs_fails_the_row() {
    let c = both();
    let fails = |load: Option<&Load<'_>>| match load {
        Some(load) if load.name == "quarter" => Err("no such file".to_owned()),
        _ => Ok(as_named(load)),
    };
    let (all, outcome) = repeated_by(&c, fails, None);
    // It would fail again, so that none follow.
    assert_eq!(all.len(), 4);
    assert!((outcome.figures["half: cpu_share"].unwrap() - 0.5).abs() < 1e-9);
    assert_eq!(outcome.figures["quarter: cpu_share"], None);
    let [check] = &outcome.checks[..] else {
        panic!("{:?}", outcome.checks)
    };
    assert_eq!(
        (check.what.as_str(), check.holds),
        ("quarter: runs", Some(false))
    );
    assert_eq!(check.got, "no such file");
}

#[test]
fn repetitions_are_kept_for_a_later_call() {
    let c = both();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    // Interrupted in the third repetition.
    let runs = std::cell::Cell::new(0);
    let until_interrupted = |load: Option<&Load<'_>>| {
        runs.set(runs.get() + 1);
        match (runs.get(), load) {
            (2, _) => Err("busy".to_owned()),
            (7, None) => Err("interrupted".to_owned()),
            _ => Ok(as_named(load)),
        }
    };
    let plan = c.plan(&Options::default());
    let mut kept = Kept::open(subject(&c, "a", &plan), Some(&path)).unwrap();
    assert!(c.repeat(&plan, &mut kept, until_interrupted).is_err());
    let first = kept.all().to_vec();
    assert_eq!(first.len(), 2);
    // `experiments/run` counts lines, and repetitions by this text.
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 2);
    assert!(text.contains("\"repetition\":1,"), "{text}");
    // A line that was not written whole runs again.
    std::fs::write(&path, format!("{text}{{\"subject\":")).unwrap();
    let later = std::cell::Cell::new(0);
    let count = |load: Option<&Load<'_>>| {
        later.set(later.get() + 1);
        Ok(as_named(load))
    };
    let (all, _) = repeated_by(&c, count, Some(&path));
    assert_eq!(all[..2], first);
    assert_eq!(
        all.iter().map(|r| r.number).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4]
    );
    assert_eq!(later.get(), 3 * 3);
    // All are there: nothing runs.
    let (again, _) = repeated_by(&c, |_| panic!("runs again"), Some(&path));
    assert_eq!(again, all);
}

#[test]
fn all_run_again_where_a_load_never_ran() {
    let c = both();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let fails = |load: Option<&Load<'_>>| match load {
        Some(load) if load.name == "quarter" => Err("no such file".to_owned()),
        _ => Ok(as_named(load)),
    };
    let (failed, _) = repeated_by(&c, fails, Some(&path));
    assert_eq!(failed.len(), 4);
    let text = std::fs::read_to_string(&path).unwrap();
    // `experiments/run` finds failures by this text.
    assert!(text.lines().all(|line| line.contains("\"failed\":")));
    let (all, outcome) = repeated_by(&c, |load| Ok(as_named(load)), Some(&path));
    assert_eq!(all, repeated_by(&c, |load| Ok(as_named(load)), None).0);
    assert!(outcome.checks.is_empty() && outcome.notes.is_empty());
    let old = std::fs::read_to_string(folder.path().join("a.jsonl.old")).unwrap();
    assert_eq!(old, text);
    let (again, _) = repeated_by(&c, |_| panic!("runs again"), Some(&path));
    assert_eq!(again, all);
}

#[test]
fn fewer_repetitions_than_planned_are_told() {
    let c = both();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let notes = |repetitions: u32| {
        let options = Options {
            repetitions: Some(repetitions),
            further: Some(0),
            resume: Some(path.clone()),
            ..Options::default()
        };
        let plan = c.plan(&options);
        let mut kept = Kept::open(subject(&c, "a", &plan), Some(&path)).unwrap();
        c.repeat(&plan, &mut kept, |load| Ok(as_named(load)))
            .unwrap();
        // All are there, so that nothing is started.
        c.measure("a", HALF, &options).unwrap().notes
    };
    assert_eq!(notes(2), ["2 of 4 planned repetitions"]);
    assert!(notes(4).is_empty());
}

#[test]
fn repetitions_of_another_subject_are_refused() {
    let c = both();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let plan = c.plan(&Options::default());
    repeated_by(&c, |load| Ok(as_named(load)), Some(&path));
    let refused = |c: &Cpu, name: &str, plan: &Plan| {
        let kept = Kept::open(subject(c, name, plan), Some(&path));
        kept.err().unwrap().to_string()
    };
    let why = refused(&c, "b", &plan);
    assert!(
        why.contains("a.jsonl:1: a result of experiment \"a\" instead of \"b\""),
        "{why}"
    );
    let short = Plan {
        length: QUICK,
        ..plan
    };
    assert!(refused(&c, "a", &short).contains(":1: runs of 20 s instead of 0.5 s"));
    let other = cpu(&format!("seconds = 20\nrepetitions = 4\n{HALF}"));
    assert!(refused(&other, "a", &c.plan(&Options::default())).contains("runs of other loads"));
    // The same names, with another scheme; or only another comment.
    let open = |file: &str| {
        let loads = c.loads().into_iter().map(|load| load.name).collect();
        let of_file = Subject::new("a", Duration::from_secs(20), loads, file);
        Kept::open(of_file, Some(&path)).map(|kept| kept.all().len())
    };
    let why = open(&HALF.replace("0.5", "0.6")).unwrap_err().to_string();
    assert!(why.contains(":1: runs of other loads"), "{why}");
    assert_eq!(open(&format!("# Half.\n{HALF}")).unwrap(), 4);
    let text = std::fs::read_to_string(&path).unwrap();
    let line = text.lines().next().unwrap();
    for (lines, words) in [
        (
            format!("{line}\n{line}\n"),
            ":2: repetition 0 is there twice",
        ),
        (
            format!("{}\n", line.replace(":20.0", ":\"x\"")),
            ":1: no result",
        ),
        (
            format!("{}]}}}}\n", line.rsplit_once(",{\"ran\"").unwrap().0),
            ":1: a repetition without one run of each load",
        ),
    ] {
        std::fs::write(&path, lines).unwrap();
        let why = refused(&c, "a", &c.plan(&Options::default()));
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn options_change_the_number_of_repetitions() {
    let c = both();
    let of = |options: &Options| {
        let plan = c.plan(options);
        (plan.length.as_secs_f64(), plan.repetitions, plan.further)
    };
    assert_eq!(of(&Options::default()), (20.0, 4, 2));
    let seconds = |s| Some(Duration::from_secs(s));
    let with = |at_most, repetitions, further| Options {
        at_most,
        repetitions,
        further,
        resume: None,
    };
    // One repetition is a whole one.
    assert_eq!(of(&with(None, Some(1), Some(0))), (20.0, 1, 0));
    assert_eq!(of(&with(seconds(600), Some(6), None)), (20.0, 6, 3));
    assert_eq!(of(&with(seconds(12), None, None)), (0.5, 1, 0));
}
