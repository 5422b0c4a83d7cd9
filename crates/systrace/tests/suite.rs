//! The tables of the Android Wear characterization over generated recordings.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write as _;

use mpbond_systrace::{
    CpuPower, PowerLog, PowerSource, Report, ReportOptions, Suite, SuiteBuilder, SuiteError,
};

/// Time, task switched out, its name, task switched in, its name.
fn switch(out: &mut String, us: u64, from: (u32, &str), to: (u32, &str)) {
    let (s, us) = (us / 1_000_000, us % 1_000_000);
    let name = |t: (u32, &str)| {
        if t.0 == 0 {
            "swapper/0".to_owned()
        } else {
            t.1.to_owned()
        }
    };
    writeln!(
        out,
        "{:>16}-{:<5} ({:5}) [000] d..2 {s}.{us:06}: sched_switch: prev_comm={} prev_pid={} \
         prev_prio=120 prev_state={} ==> next_comm={} next_pid={} next_prio=120",
        if from.0 == 0 { "<idle>" } else { from.1 },
        from.0,
        from.0,
        name(from),
        from.0,
        if from.0 == 0 { "R" } else { "S" },
        name(to),
        to.0
    )
    .unwrap();
}

const IDLE: (u32, &str) = (0, "");

/// A task runs from `at` for `us`, idle before and after.
fn run(out: &mut String, at: u64, us: u64, task: (u32, &str)) {
    switch(out, at, IDLE, task);
    switch(out, at + us, task, IDLE);
}

fn mark(out: &mut String, us: u64, text: &str) {
    let (s, us) = (us / 1_000_000, us % 1_000_000);
    writeln!(
        out,
        "   system_server-900   (  900) [000] ...1 {s}.{us:06}: tracing_mark_write: {text}"
    )
    .unwrap();
}

const READER: (u32, &str) = (905, "InputReader");
const SERVER: (u32, &str) = (900, "system_server");
const APP: (u32, &str) = (2_000, "ndroid.settings");

/// A launch: touch at 5 s, launch 177 ms later, displayed after another `p2_us`.
fn launch(p2_us: u64) -> String {
    let mut t = "# tracer: nop\n#\n".to_owned();
    // Two seconds earlier, another task: no part of the benchmark.
    run(&mut t, 3_000_000, 50_000, (77, "logd"));
    run(&mut t, 5_000_000, 1_000, READER);
    run(&mut t, 5_100_000, 76_900, SERVER);
    mark(&mut t, 5_177_000, "S|900|launching: com.android.settings|0");
    run(&mut t, 5_177_500, p2_us - 1_000, APP);
    mark(
        &mut t,
        5_177_000 + p2_us,
        "F|900|launching: com.android.settings|0",
    );
    run(&mut t, 5_177_500 + p2_us, 100_000, SERVER);
    t
}

fn report(text: &str) -> Report {
    Report::of(text.as_bytes(), &ReportOptions::default()).unwrap()
}

fn value<'s>(s: &'s Suite, scenario: &str, what: &str) -> &'s mpbond_systrace::Value {
    let s = s.scenarios.iter().find(|s| s.name == scenario).unwrap();
    s.values.iter().find(|v| v.what == what).unwrap()
}

#[test]
fn means_and_deviations_stand_beside_the_published_values() {
    let options = ReportOptions::default();
    let mut suite = SuiteBuilder::default();
    for (n, p2_us) in [(1, 800_000), (2, 810_000), (3, 820_000)] {
        let report = report(&launch(p2_us));
        suite.add(("lch.set", n), report, &options, None).unwrap();
    }
    let counters = "system_server\t900 [000] 5.000250:\t\t3000000 cpu-cycles:\n\t 1 f (x)\n\n\
                    system_server\t900 [000] 5.000250:\t\t1000000 instructions:\n\t 1 f (x)\n\n";
    suite
        .add(("lch.set", 1), report(counters), &options, None)
        .unwrap();
    let e = suite.add(("heart", 1), report("# tracer: nop\n"), &options, None);
    assert!(e.unwrap_err().to_string().starts_with("no task switches"));
    // Another trace or profile of the same repetition is refused, and changes nothing.
    for (text, kind) in [
        (launch(990_000).as_str(), "system trace"),
        (counters, "profile with hardware counters"),
    ] {
        let e = suite.add(("lch.set", 1), report(text), &options, None);
        assert_eq!(e, Err(SuiteError::Second(kind)));
    }
    let s = suite.finish();
    let p1 = value(&s, "lch.set", "P1");
    assert_eq!(
        (p1.mean, p1.published, p1.repetitions),
        (Some(177.0), Some(177.0), 3)
    );
    let p2 = value(&s, "lch.set", "P2");
    assert_eq!(
        (p2.mean, p2.sd, p2.published),
        (Some(810.0), Some(10.0), Some(810.0))
    );
    // The task of two seconds before is not counted.
    let tasks = value(&s, "lch.set", "tasks");
    assert_eq!((tasks.mean, tasks.published), (Some(3.0), Some(92.0)));
    let os = value(&s, "lch.set", "OS").mean.unwrap();
    assert!((17.0..19.0).contains(&os), "{os}");
    assert_eq!(value(&s, "lch.set", "TLP").mean, Some(1.0));
    let cpi = value(&s, "lch.set", "CPI");
    assert_eq!(
        (cpi.of, cpi.mean, cpi.sd),
        (Some("System Server"), Some(3.0), None)
    );
    // No power log: the published value stands alone.
    let energy = value(&s, "lch.set", "energy");
    assert_eq!((energy.mean, energy.published), (None, Some(440.0)));
    let claim = |what: &str| s.claims.iter().find(|c| c.claim.what == what).unwrap();
    assert_eq!(claim("CPI").holds, Some(true));
    assert_eq!(claim("OS").holds, Some(false));
    assert_eq!(claim("top 5 functions").holds, None);
    assert_eq!(s.missing.len(), 13);
    let page = s.html("watch <1>");
    assert!(page.contains("<h1>watch &lt;1&gt;</h1>") && page.ends_with("</html>\n"));
    assert!(
        s.pictures()
            .iter()
            .any(|(name, svg)| *name == "figure-5" && svg.contains("<svg"))
    );
    let tables = s.tables();
    let functions = tables.iter().find(|t| t.name == "Table 3").unwrap();
    assert!(
        functions
            .rows
            .iter()
            .any(|r| r[2] == "SparseArray.get" && r[1] == "published")
    );
}

/// A classic method trace: each class has one call of 10 ms.
fn method_trace(classes: &[&str]) -> Vec<u8> {
    let mut t = "*version\n3\nclock=dual\n*threads\n1\tmain\n*methods\n".to_owned();
    for (i, class) in classes.iter().enumerate() {
        writeln!(t, "{:#x}\t{class}\tcall\t()V\tA.java", (i + 1) * 16).unwrap();
    }
    let mut t = (t + "*end\n").into_bytes();
    t.extend(b"SLOW\x03\x00\x20\x00");
    t.extend([0; 8]);
    t.extend(14_u16.to_le_bytes());
    t.extend([0; 14]);
    for i in 0..classes.len() as u32 {
        for leaves in [0, 1] {
            let us = (i + leaves) * 10_000;
            t.extend(1_u16.to_le_bytes());
            t.extend(((i + 1) * 16 + leaves).to_le_bytes());
            t.extend(us.to_le_bytes());
            t.extend(us.to_le_bytes());
        }
    }
    t
}

/// Figures 3 to 6 have pictures of all quantities that recordings show.
#[test]
fn figures_3_to_6_have_pictures() {
    let options = ReportOptions::default();
    let mut suite = SuiteBuilder::default();
    let classes = [
        "com/android/server/am/ActivityManagerService",
        "com/android/server/power/PowerManagerService",
        "android/util/SparseArray",
    ];
    let methods = Report::of(method_trace(&classes).as_slice(), &options).unwrap();
    let mut counters = String::new();
    for (event, count) in [
        ("cpu-cycles", 3_000_000),
        ("instructions", 1_000_000),
        ("raw-l1-icache-refill", 40_000),
        ("raw-itlb-refill", 5_000),
        ("raw-l1-dcache-refill", 20_000),
        ("raw-br-pred", 100_000),
        ("raw-br-mis-pred", 10_000),
        ("raw-l2-dcache", 60_000),
        ("raw-l2-dcache-refill", 6_000),
    ] {
        let head = "system_server\t900 [000] 5.000250:";
        writeln!(counters, "{head}\t\t{count} {event}:\n\t 1 f (x)\n").unwrap();
    }
    for part in [report(&launch(810_000)), methods, report(&counters)] {
        suite.add(("lch.set", 1), part, &options, None).unwrap();
    }
    let s = suite.finish();
    let pictures: Vec<&str> = s.pictures().iter().map(|(name, _)| *name).collect();
    for name in [
        "figure-3a",
        "figure-3b",
        "figure-3c",
        "figure-4",
        "figure-5",
        "figure-5-levels",
        "figure-5-processes",
        "figure-6-cpi",
        "figure-6-icache",
        "figure-6-itlb",
        "figure-6-dcache",
        "figure-6-llc",
        "figure-6-branch",
    ] {
        assert!(pictures.contains(&name), "{name} is not in {pictures:?}");
    }
}

/// 2 s before the trace the monitor starts; 100 mW idle and 600 mW while a CPU is busy.
fn power(marker_s: Option<f64>, follows: bool) -> PowerLog {
    let busy = |s: f64| {
        let at = |from: f64, to: f64| (from..to).contains(&s);
        at(5.0, 5.001) || at(5.1, 5.1769) || at(5.1775, 5.9865) || at(5.9875, 6.0875)
    };
    let mut text = "time_s,power_mw\n".to_owned();
    for i in 0..8_000 {
        let s = f64::from(i) / 1e3;
        let mw = if follows && busy(s + 1.0) {
            600.0
        } else {
            100.0
        };
        let mw = if follows {
            mw
        } else {
            100.0 + f64::from(i % 7)
        };
        let mark = if marker_s.is_some_and(|m| (m - s).abs() < 1e-4) {
            ",x"
        } else {
            ""
        };
        writeln!(text, "{s},{mw}{mark}").unwrap();
    }
    PowerLog::parse(text.as_bytes()).unwrap()
}

fn energy_of(text: &str, source: PowerSource) -> Result<Suite, SuiteError> {
    let mut suite = SuiteBuilder::default();
    let options = ReportOptions::default();
    suite.add(("lch.set", 1), report(text), &options, Some(&source))?;
    Ok(suite.finish())
}

#[test]
fn energy_by_correlation_marker_or_model() {
    let text = launch(810_000);
    // The window: 1.0875 s, of which 986.9 ms busy.
    let expected = 108.75 + 0.5 * 986.9;
    let by_curve = energy_of(&text, PowerSource::Log(power(None, true))).unwrap();
    let e = value(&by_curve, "lch.set", "energy");
    assert!((e.mean.unwrap() - expected).abs() < 6.0, "{e:?} {expected}");
    assert!(!e.model);
    // A power that does not follow the CPU is aligned by a marker only, and never guessed.
    let flat = energy_of(&text, PowerSource::Log(power(None, false)));
    let why = flat.unwrap_err().to_string();
    assert!(
        why.starts_with("the power log has no marker, and its power follows"),
        "{why}"
    );
    let mut marked = text.clone();
    mark(&mut marked, 6_080_000, "B|900|power_marker");
    mark(&mut marked, 6_080_100, "E|900");
    let by_marker = energy_of(&marked, PowerSource::Log(power(Some(5.08), false))).unwrap();
    let e = value(&by_marker, "lch.set", "energy").mean.unwrap();
    assert!((e - 0.103 * 1087.5).abs() < 1.0, "{e}");
    // 986.9 ms at 300 mW.
    let model = CpuPower::parse("khz,busy_mw\n787000,300\n300000,120\n".as_bytes()).unwrap();
    let by_model = energy_of(&text, PowerSource::Model(model)).unwrap();
    let e = value(&by_model, "lch.set", "energy");
    assert!((e.mean.unwrap() - 296.1).abs() < 0.5 && e.model, "{e:?}");
    let page = by_model.html("x");
    assert!(page.contains("energy (model)"));
}

#[test]
fn power_logs_that_do_not_cover_the_benchmark_are_refused() {
    let text = launch(810_000);
    let short = "time_s,power_mw,m\n0,100\n0.5,100,x\n1,100\n";
    let mut marked = text;
    mark(&mut marked, 5_080_000, "B|900|power_marker");
    mark(&mut marked, 5_080_100, "E|900");
    let e = energy_of(
        &marked,
        PowerSource::Log(PowerLog::parse(short.as_bytes()).unwrap()),
    );
    let why = e.unwrap_err().to_string();
    assert_eq!(why, "the power log does not cover the benchmark");
    for (text, why) in [
        ("", "line 1: the header is not"),
        ("time_s,power_mw\n1,x\n", "line 2: no number"),
        ("time_s,power_mw\n2,1\n1,1\n", "line 3: the time is before"),
        ("time_s,power_mw\n1,1,a\n2,1,b\n", "line 3: a second marker"),
        ("time_s,power_mw\n1,1\n", "fewer than two samples"),
        ("time_s,power_mw\n1,nan\n", "line 2: no number"),
    ] {
        let e = PowerLog::parse(text.as_bytes()).unwrap_err();
        assert!(e.starts_with(why), "{text:?}: {e}");
    }
    assert!(CpuPower::parse("khz,busy_mw\n".as_bytes()).is_err());
    assert!(CpuPower::parse("khz,busy_mw\n0,5\n".as_bytes()).is_err());
}

#[test]
fn power_logs_over_300_s_need_a_marker() {
    let long = "time_s,power_mw\n0,100\n301,100\n";
    let log = PowerLog::parse(long.as_bytes()).unwrap();
    let e = energy_of(&launch(810_000), PowerSource::Log(log)).unwrap_err();
    let why = "the power log is longer than 300 s: cut it, or mark it";
    assert_eq!(e.to_string(), why);
    let mut marked = launch(810_000);
    mark(&mut marked, 5_080_000, "B|900|power_marker");
    mark(&mut marked, 5_080_100, "E|900");
    let log = PowerLog::parse(&b"time_s,power_mw,m\n0,100\n150,100,x\n301,100\n"[..]).unwrap();
    let suite = energy_of(&marked, PowerSource::Log(log)).unwrap();
    let e = value(&suite, "lch.set", "energy").mean.unwrap();
    assert!((e - 108.75).abs() < 0.1, "{e}");
}

/// Files without an end, as of a device.
#[test]
fn endless_power_logs_are_refused() {
    use std::io::{BufReader, Read as _};
    let head = &b"time_s,power_mw\n"[..];
    let line = BufReader::new(head.chain(std::io::repeat(b'1')));
    let e = PowerLog::parse(line).unwrap_err();
    assert_eq!(e, "longer than 64 MiB: cut it");
    let rows = "1,1\n".repeat(4_000_001);
    let e = PowerLog::parse(head.chain(rows.as_bytes())).unwrap_err();
    assert_eq!(e, "line 4000002: more than 4000000 rows: cut it");
}

/// Section 5.2.2: 1805 ms between the frames of *navi*.
#[test]
fn idle_time_between_frames_stands_beside_the_published_one() {
    let mut t = "# tracer: nop\n#\n".to_owned();
    for frame in 0..10 {
        run(
            &mut t,
            5_000_000 + frame * 16_000,
            6_000,
            (910, "surfaceflinger"),
        );
    }
    let mut suite = SuiteBuilder::default();
    let options = ReportOptions::default();
    suite.add(("navi", 1), report(&t), &options, None).unwrap();
    let s = suite.finish();
    let row = value(&s, "navi", "frame pacing");
    assert_eq!((row.table, row.unit), ("Table 4", "ms"));
    // Nine pauses of 10 ms.
    assert_eq!((row.mean, row.published), (Some(90.0), Some(1805.0)));
}

fn claim<'s>(s: &'s Suite, what: &str) -> &'s mpbond_systrace::ClaimResult {
    s.claims.iter().find(|c| c.claim.what == what).unwrap()
}

/// Suspending: steps from the request to the sleep of the machine, which take `us` with 70 ms of
/// work of a kernel thread in polls of 10 ms.
fn suspend(out: &mut String, at: u64, us: u64, reached: bool) {
    let step = |out: &mut String, us: u64, text: &str| {
        let (s, us) = (us / 1_000_000, us % 1_000_000);
        writeln!(
            out,
            "     kworker/0:1-50    (   50) [000] ...1 {s}.{us:06}: suspend_resume: {text}"
        )
        .unwrap();
    };
    step(out, at, "suspend_enter[3] begin");
    step(out, at + 1_000, "freeze_processes[0] begin");
    step(out, at + 9_000, "freeze_processes[0] end");
    step(out, at + 9_000, "suspend_enter[3] end");
    step(out, at + 9_000, "dpm_suspend[2] begin");
    for poll in 0..7 {
        run(
            out,
            at + 10_000 + poll * 25_000,
            10_000,
            (50, "kworker/0:1"),
        );
    }
    step(out, at + us, "dpm_suspend[2] end");
    if reached {
        step(out, at + us, "machine_suspend[3] begin");
    }
}

#[test]
fn suspending_takes_200_ms_of_which_130_ms_are_idle() {
    let options = ReportOptions::default();
    let suite_of = |us: u64| {
        let mut t = "# tracer: nop\n#\n".to_owned();
        run(&mut t, 5_000_000, 100_000, SERVER);
        // Aborted before the machine sleeps: not counted.
        suspend(&mut t, 5_200_000, 900_000, false);
        suspend(&mut t, 6_100_000, us, true);
        run(&mut t, 7_500_000, 20_000, SERVER);
        let mut suite = SuiteBuilder::default();
        suite
            .add(("update", 1), report(&t), &options, None)
            .unwrap();
        suite.finish()
    };
    let s = suite_of(200_000);
    let row = value(&s, "update", "suspending");
    assert_eq!((row.table, row.unit), ("Section 5.2.1", "ms"));
    assert_eq!((row.mean, row.published), (Some(200.0), Some(200.0)));
    let row = value(&s, "update", "idle in suspending");
    assert_eq!((row.mean, row.published), (Some(130.0), Some(130.0)));
    for what in ["suspending", "idle in suspending"] {
        let c = claim(&s, what);
        assert_eq!((c.values, c.holds), (1, Some(true)), "{what}");
    }
    assert_eq!(claim(&s, "suspending").claim.limits(), "around 200 ms");
    // More than a quarter from the published value.
    let s = suite_of(255_000);
    let row = value(&s, "update", "suspending");
    assert_eq!(row.mean, Some(255.0));
    assert_eq!(claim(&s, "suspending").holds, Some(false));
    // A trace without suspending shows the published value alone.
    let mut suite = SuiteBuilder::default();
    let launch = report(&launch(810_000));
    suite.add(("palming", 1), launch, &options, None).unwrap();
    let s = suite.finish();
    let row = value(&s, "palming", "suspending");
    assert_eq!((row.mean, row.published), (None, Some(200.0)));
    assert_eq!(claim(&s, "suspending").holds, None);
}

#[test]
fn the_voice_ui_holds_a_launch_for_120_ms() {
    let options = ReportOptions::default();
    let mut t = include_str!("data/stalled_request.txt").to_owned();
    run(&mut t, 4_990_000, 1_000, READER);
    run(&mut t, 5_130_000, 20_000, APP);
    run(&mut t, 5_227_000, 5_000, APP);
    mark(&mut t, 5_126_500, "S|900|launching: com.android.settings|0");
    mark(&mut t, 5_226_500, "F|900|launching: com.android.settings|0");
    let mut suite = SuiteBuilder::default();
    suite
        .add(("lch.set", 1), report(&t), &options, None)
        .unwrap();
    let s = suite.finish();
    let of = |table: &str, what: &str| {
        let mut values = s.scenarios[0].values.iter();
        let found = values.find(|v| v.table == table && v.what == what);
        found.unwrap_or_else(|| panic!("no {what}")).clone()
    };
    let p1 = of("Table 1", "P1").mean.unwrap();
    assert!((p1 - 136.5).abs() < 0.01, "{p1}");
    // From the request, at 5.002290 s, to its reply, at 5.123410 s.
    let wait = of("Section 5.2.1", "voice UI hand-over");
    assert!((wait.mean.unwrap() - 121.12).abs() < 0.001, "{wait:?}");
    assert_eq!(wait.published, Some(120.0));
    let share = of("Table 4", "voice UI share of P1 + P2").mean.unwrap();
    assert!((share - 100.0 * 120.1 / 236.5).abs() < 0.5, "{share}");
    assert_eq!(claim(&s, "voice UI hand-over").holds, Some(true));
}

/// Every statement has a row, with the limits of the text.
#[test]
fn the_published_statements() {
    let s = SuiteBuilder::default().finish();
    let rows = s.claims.iter().map(|c| {
        assert_eq!((c.values, c.holds), (0, None));
        (c.claim.what, c.claim.limits())
    });
    let rows: Vec<(&str, String)> = rows.collect();
    for (what, limits) in [
        ("OS", "48 to 93 %"),
        ("top 5 functions", "at least 20 %, in most"),
        ("top 50 functions", "at least 50 %, in most"),
        ("Total", "at most 45.1 %"),
        ("setLightLocked", "at least 100 ms"),
        ("idle share", "at most 87 %"),
        ("explained", "at least 91 %"),
        ("voice UI share of P1 + P2", "at most 19 %"),
        ("voice UI hand-over", "around 120 ms"),
        ("suspending", "around 200 ms"),
        ("idle in suspending", "around 130 ms"),
        ("TLP", "at most 2.2"),
        ("TLP", "at least 1.44, in most"),
        ("CPI", "2 to 5"),
        ("L1 icache MPKI", "30 to 76, in most"),
        ("branch misprediction", "at most 28 %"),
    ] {
        assert!(
            rows.contains(&(what, limits.to_owned())),
            "{what}: {rows:?}"
        );
    }
    assert_eq!(rows.len(), 16);
}
