//! The command line of `mpbond trace`.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use mpbond_testing::{Need, Outcome, sample, write_script};
use serde_json::Value;

use crate::programs::LAB;

/// One CPU: a runs 250 of 1,000 ms, then b begins.
const SWITCHES: &str = "\
          <idle>-0     [000] d..2 100.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=1 next_prio=120
               a-1     [000] d..2 100.250000: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
          <idle>-0     [000] d..2 101.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=2 next_prio=120
";

/// A classic method trace of one call of 5 µs.
const METHODS: &[u8] = b"*version\n3\nclock=dual\nnum-method-calls=2\n*threads\n1\tmain\n*methods\n0x10\tcom/a/B\tc\t()V\tB.java\n*end\nSLOW\x03\x00\x20\x00\0\0\0\0\0\0\0\0\x0e\x00\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x10\0\0\0\x01\0\0\0\x01\0\0\0\x01\x00\x11\0\0\0\x06\0\0\0\x06\0\0\0";

fn trace(args: &[&str], input: &[u8]) -> Outcome {
    trace_with(args, input, &[]).1
}

/// Returns the id of the process, too.
fn trace_with(args: &[&str], input: &[u8], environment: &[(&str, &str)]) -> (u32, Outcome) {
    let mut child = LAB
        .command(["trace"])
        .args(args)
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id();
    // A program that fails on its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    (id, output.into())
}

fn ok(args: &[&str], input: &[u8]) -> String {
    let outcome = trace(args, input);
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    outcome.stdout
}

fn fails(args: &[&str], input: &[u8]) -> String {
    let outcome = trace(args, input);
    outcome.error(2).trim().to_owned()
}

fn json(args: &[&str], input: &[u8]) -> Value {
    serde_json::from_str(&ok(args, input)).unwrap()
}

#[test]
fn the_summary_has_the_promised_form() {
    let s = json(&["summary", "-", "--json"], SWITCHES.as_bytes());
    assert_eq!(s["format"], "ftrace-text");
    assert_eq!(s["events"]["sched_switch"], 3);
    assert_eq!(s["span_s"], 1.0);
    assert_eq!(s["cpus"][0]["cpu"], 0);
    assert_eq!(s["cpus"][0]["busy_percent"], 25.0);
    assert_eq!(s["concurrency_percent"][0], 75.0);
    assert_eq!(s["tlp"], 1.0);
    for null in ["methods", "samples", "incomplete"] {
        assert_eq!(s.get(null), Some(&Value::Null), "{null}");
    }
    let text = ok(&["summary", "-"], SWITCHES.as_bytes());
    assert!(text.contains("CPU 0         25.00 % busy"), "{text}");
}

#[test]
fn parts_and_report_agree() {
    let input = SWITCHES.as_bytes();
    let usage = json(&["usage", "-", "--json"], input);
    assert_eq!(usage["tasks"][0]["name"], "a");
    assert_eq!(usage["tasks"][0]["busy_s"], 0.25);
    let idle = json(&["idle", "-", "--json"], input);
    assert_eq!(idle["idle_s"], 0.75);
    let tlp = json(&["tlp", "-", "--json", "--window", "500ms"], input);
    assert_eq!(tlp["tlp"], 1.0);
    assert_eq!(tlp["sliding"].as_array().unwrap().len(), 1);
    let report = json(&["report", "-", "--json"], input);
    assert_eq!(report["usage"], usage);
    assert_eq!(report["idle"], idle);
    assert_eq!(report["processes"], tlp["processes"]);
    assert!(!report["findings"].as_array().unwrap().is_empty());
    let text = ok(&["report", "-"], input);
    assert!(
        text.starts_with("* The trace covers 1.000 s, with CPU utilization 25.0 %."),
        "{text}"
    );
}

#[test]
fn pages_and_tables_are_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (input, page, tables) = (at("launch.txt"), at("page.html"), at("tables"));
    std::fs::write(&input, SWITCHES).unwrap();
    let text = ok(&["report", &input, "--html", &page], b"");
    assert!(text.starts_with("* "), "{text}");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("<title>launch.txt</title>") && html.ends_with("</html>\n"));
    assert_eq!(ok(&["usage", &input, "--csv", &tables], b""), "");
    let csv = std::fs::read_to_string(Path::new(&tables).join("tasks.csv")).unwrap();
    assert_eq!(csv.lines().nth(1), Some("1,a,0.250000,100.00,1"), "{csv}");
}

#[test]
#[cfg(feature = "sqlite")]
fn questions_in_sql() {
    let input = SWITCHES.as_bytes();
    let sql = "SELECT task, sum(end - start) / 1000000 AS ms FROM run GROUP BY task ORDER BY task";
    let answer = json(&["query", "-", sql, "--json"], input);
    assert_eq!(answer["columns"], serde_json::json!(["task", "ms"]));
    assert_eq!(answer["rows"], serde_json::json!([[0, 750], [1, 250]]));
    let text = ok(&["query", "-", sql], input);
    assert!(text.contains("task ms"), "{text}");
    assert!(ok(&["query", "--schema"], b"").contains("CREATE TABLE run"));
    let e = fails(&["query", "-", "SELECT nonsense"], input);
    assert!(e.contains("SQL: no such column: nonsense"), "{e}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.sqlite").display().to_string();
    assert_eq!(ok(&["query", "-", "--save", &file], input), "");
    assert!(
        std::fs::read(&file)
            .unwrap()
            .starts_with(b"SQLite format 3")
    );
}

#[test]
#[cfg(feature = "parquet")]
fn tables_as_parquet() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("tables").display().to_string();
    assert_eq!(
        ok(&["query", "-", "--parquet", &out], SWITCHES.as_bytes()),
        ""
    );
    let file = std::fs::read(Path::new(&out).join("run.parquet")).unwrap();
    assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
}

#[test]
fn bad_input_is_one_line_with_file_and_place() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let foreign = at("notes.txt", b"nothing of the kind\n");
    for command in [
        "summary",
        "report",
        "usage",
        "tlp",
        "idle",
        "functions",
        "spans",
        "perf",
        "net",
    ] {
        let e = fails(&[command, &foreign], b"");
        let wanted = format!("mpbond-lab: {foreign}: byte 0: no known trace format");
        assert!(e.starts_with(&wanted), "{command}: {e}");
    }
    let empty = at("empty", b"");
    assert!(fails(&["summary", &empty], b"").ends_with("empty file"));
    let missing = folder.path().join("missing").display().to_string();
    assert!(fails(&["report", &missing], b"").contains(&missing));
    let e = fails(&["summary", folder.path().to_str().unwrap()], b"");
    assert!(e.ends_with("a folder, not a trace"), "{e}");
    let rules = at("rules.toml", b"\n[[rule]]\ncause = 3\n");
    let e = fails(&["idle", "-", "--idle-rules", &rules], SWITCHES.as_bytes());
    assert!(
        e.starts_with(&format!("mpbond-lab: {rules}: line 3: ")),
        "{e}"
    );
    let e = fails(&["functions", "-"], SWITCHES.as_bytes());
    assert!(e.contains("no calls and no samples in it"), "{e}");
    let e = fails(&["spans", "-"], SWITCHES.as_bytes());
    assert!(e.contains("no section in it"), "{e}");
    let samples = "a 1/2 [000] 1.5: 10 cycles:\n\t7f00 work+0x1 (/bin/a)\n\n";
    let e = fails(
        &["functions", "-", "--event", "page-faults"],
        samples.as_bytes(),
    );
    assert!(
        e.ends_with("no samples of page-faults in it, only of cycles"),
        "{e}"
    );
    let e = fails(&["perf", "-"], SWITCHES.as_bytes());
    assert!(e.contains("no profiler samples"), "{e}");
}

/// A truncated trace is read up to its last whole line, and reported as incomplete.
#[test]
fn a_truncated_trace_is_read_with_a_warning() {
    let cut = &SWITCHES.as_bytes()[..SWITCHES.len() - 30];
    let outcome = trace(&["usage", "-"], cut);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("not whole: "), "{}", outcome.stderr);
    let s = json(&["summary", "-", "--json"], cut);
    assert!(s["incomplete"].is_string(), "{s}");
}

/// A trace recorded by this machine's kernel can be read; a missing permission is reported.
#[test]
fn this_machine_records_itself() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.txt").display().to_string();
    let groups = "sched,irq,timer,net";
    let args = ["record", "-o", &file, "--events", groups, "--buffer", "4"];
    let args: Vec<&str> = args
        .iter()
        .chain(&["--", "sleep", "0.2"])
        .copied()
        .collect();
    let (id, outcome) = trace_with(&args, b"", &[]);
    if outcome.code == 3 {
        assert!(outcome.stderr.contains("tracer"), "{}", outcome.stderr);
        Need::Tracer.is_missing(outcome.stderr.trim());
        return;
    }
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let s = json(&["summary", &file, "--json"], b"");
    assert!(s["events"]["sched_switch"].as_u64().unwrap() > 0, "{s}");
    assert!(s["span_s"].as_f64().unwrap() > 0.15, "{s}");
    let usage = json(&["usage", &file, "--json"], b"");
    let tasks = usage["tasks"].as_array().unwrap().iter();
    let names: Vec<&str> = tasks.map(|t| t["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"sleep"), "{names:?}");
    for root in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
        let Ok(left) = std::fs::read_dir(format!("{root}/instances")) else {
            continue;
        };
        let own = format!("mpbond-{id}");
        assert!(
            left.flatten().all(|f| f.file_name() != *own),
            "{own} is left"
        );
    }
    // A program that fails makes the record fail, but not vanish.
    let args = ["record", "-o", &file, "--events", "sched", "--", "false"];
    let outcome = trace(&args, b"");
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stderr.contains("false ended with"),
        "{}",
        outcome.stderr
    );
    assert!(json(&["summary", &file, "--json"], b"")["span_s"].is_number());
}

/// A substitute for adb that logs its arguments, and answers like a small watch.
#[test]
fn a_scenario_is_played_on_a_device() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let bin = at("bin");
    std::fs::create_dir(&bin).unwrap();
    let (log, answer) = (at("log"), at("answer"));
    let (methods, samples, root) = (at("methods"), at("samples"), at("root"));
    // The file of the calls grows until the fourth look at it.
    let polls = at("polls");
    std::fs::write(&methods, METHODS).unwrap();
    let sampled = "system_server\t900 [000] 5.0:\t\t300 cpu-cycles:\n\t 1 f (x)\n\n";
    std::fs::write(&samples, sampled).unwrap();
    std::fs::write(&answer, format!("TRACE:\n{SWITCHES}")).unwrap();
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {log}\ncase \"$*\" in\n*get-state) echo device;;\n*'wm size') echo 'Physical size: 400x400'; echo 'Override size: 321x320';;\n*atrace*) sleep 2; cat {answer};;\n*'ls -l'*) echo >> {polls}; [ $(wc -l < {polls}) -lt 4 ] && wc -l < {polls} || echo 4;;\n*'exec-out cat /data/local/tmp/mpbond-methods'*) [ $(wc -l < {polls}) -ge 6 ] && cat {methods};;\n*report-sample*) cat {samples};;\n*'su 0'*) touch {root};;\n*'grep -H'*) if [ -e {root} ]; then echo cpu1/online:1; else echo cpu1/online:0; fi;;\nesac\n"
    );
    write_script(format!("{bin}/adb"), &script);
    let scenarios = at("mine.toml");
    let text = "[[scenario]]\nname = \"tap\"\ncategory = \"x\"\ndescription = \"y\"\nrecord_s = 1\nprepare = [{ key = \"WAKEUP\" }]\nsteps = [{ tap = [0.5, 0.5] }, { wait_ms = 10 }, { swipe = [0.0, 0.0, 1.0, 1.0, 100] }]\n";
    std::fs::write(&scenarios, text).unwrap();
    let out = at("runs");
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let args = [
        "record",
        "--adb",
        "--serial",
        "w1",
        "--scenarios",
        &scenarios,
        "--scenario",
        "tap",
        "--repeat",
        "1",
        "--methods",
        "system_server",
        "--simpleperf",
        "--cores",
        "all",
        "-o",
        &out,
    ];
    let (_, outcome) = trace_with(&args, b"", &[("PATH", &path)]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("tap-1.atrace: 3 events in 1.000 s"),
        "{}",
        outcome.stdout
    );
    for line in ["tap-1.trace: 2 events", "tap-1.simpleperf: 1 samples"] {
        assert!(outcome.stdout.contains(line), "{}", outcome.stdout);
    }
    let said = std::fs::read_to_string(&log).unwrap();
    let said: Vec<&str> = said
        .lines()
        .map(|l| l.trim_start_matches("-s w1 "))
        .collect();
    let groups = "--group cpu-cycles,instructions,raw-l1-icache-refill,raw-l1-dcache-refill,\
                  raw-itlb-refill --group raw-br-pred,raw-br-mis-pred,raw-l2-dcache,\
                  raw-l2-dcache-refill";
    let perf = format!("simpleperf record -a {groups} --duration 1 -o");
    // In this order; the recorders run at the same time as the calls that follow their start.
    for begin in [
        "get-state",
        "shell cd /sys/devices/system/cpu; grep -H . cpu[0-9]*/online",
        "shell su 0 sh -c 'echo 1 > /sys/devices/system/cpu/cpu1/online'",
        "shell wm size",
        "shell input keyevent WAKEUP",
        "exec-out atrace -z -b 32768 -t 3 sched ",
        "shell am profile start system_server /data/local/tmp/mpbond-methods.trace",
        "shell input tap 160 160",
        "shell input swipe 0 0 320 319 100",
        "shell am profile stop system_server",
        "shell [ -s /data/local/tmp/mpbond-methods.trace ] && ls -l ",
        "exec-out cat /data/local/tmp/mpbond-methods.trace",
        "shell rm -f /data/local/tmp/mpbond-methods.trace",
        "exec-out simpleperf report-sample --protobuf",
        "shell rm -f /data/local/tmp/mpbond-perf.data",
        "shell su 0 sh -c 'echo 0 > /sys/devices/system/cpu/cpu1/online'",
    ]
    .windows(2)
    {
        let place = |begin: &str| said.iter().position(|l| l.starts_with(begin));
        assert!(
            place(begin[0]).is_some(),
            "{} is not in {said:#?}",
            begin[0]
        );
        assert!(place(begin[0]) < place(begin[1]), "{begin:?} in {said:#?}");
    }
    assert!(said.iter().any(|l| l.contains(&perf)), "{said:#?}");
    // The recordings are those of a suite.
    let suite = json(&["suite", &out, "--json"], b"");
    assert_eq!(suite["scenarios"][0]["name"], "tap");
    let e = fails(&["suite", &bin], b"");
    assert!(e.contains("no recording in it"), "{e}");
    // A second recording of a kind, and a second power log, are refused.
    let folder = Path::new(&out);
    std::fs::copy(folder.join("tap-1.trace"), folder.join("tap-1.v2.trace")).unwrap();
    let second = trace(&["suite", &out], b"");
    let why = "tap-1.v2.trace: a second method trace of the same repetition; remove one, or give it \
               a number of its own\n";
    assert!(
        second.code == 2 && second.stderr.ends_with(why),
        "{}",
        second.stderr
    );
    std::fs::remove_file(folder.join("tap-1.v2.trace")).unwrap();
    for name in ["tap-1.a.csv", "tap-1.b.csv"] {
        std::fs::write(folder.join(name), "time_s,power_mw\n0,1\n1,1\n").unwrap();
    }
    let e = fails(&["suite", &out], b"");
    assert!(e.contains("tap-1.b.csv: a second power log"), "{e}");
    // Nothing known of that name; no device; no adb.
    let e = fails(&["record", "--adb", "--scenario", "nap", "-o", &out], b"");
    assert!(
        e.contains("no scenario \"nap\"; there are update, notif"),
        "{e}"
    );
    let (_, none) = trace_with(
        &["record", "--adb", "-d", "1s", "-o", &out],
        b"",
        &[("PATH", "/nonexistent")],
    );
    assert_eq!(none.code, 3, "{}", none.stderr);
    assert!(none.stderr.contains("adb cannot be run"), "{}", none.stderr);
    assert_eq!(ok(&["record", "--list-scenarios"], b"").lines().count(), 15);
}

/// One core refuses to come online, and then the profiler of methods to start.
#[test]
fn a_device_is_restored_after_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (log, tried, adb) = (at("log"), at("tried"), at("adb"));
    let write = |cores: &str| {
        let script = format!(
            "#!/bin/sh\necho \"$@\" >> {log}\ncase \"$*\" in\n*get-state) echo device;;\n*'wm size') echo 'Physical size: 400x400';;\n*'echo 1 >'*) touch {tried};;\n*'grep -H'*) {cores};;\n*atrace*|*'simpleperf record'*) exec sleep 600;;\n*'profile start'*) echo refused >&2; exit 1;;\nesac\n"
        );
        write_script(&adb, &script);
    };
    let path = format!(
        "{}:{}",
        folder.path().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let out = at("runs");
    let args = "record --adb --scenario lch.set --repeat 1 --simpleperf --methods a --cores all -o";
    let args: Vec<&str> = args.split(' ').chain([out.as_str()]).collect();
    let record = || trace_with(&args, b"", &[("PATH", &path)]).1;
    let last = || {
        let said = std::fs::read_to_string(&log).unwrap();
        said.lines().last().unwrap_or_default().to_owned()
    };
    write(&format!(
        "echo cpu2/online:0; [ -e {tried} ] || echo cpu1/online:0"
    ));
    let outcome = record();
    let e = outcome.error(3);
    assert!(e.contains("the device keeps cpu2 offline"), "{e}");
    let both = "echo 0 > /sys/devices/system/cpu/cpu2/online; \
                echo 0 > /sys/devices/system/cpu/cpu1/online";
    assert_eq!(last(), format!("shell su 0 sh -c '{both}'"));
    // The recorders, which would take ten minutes, are ended.
    std::fs::remove_file(&tried).unwrap();
    write(&format!("[ -e {tried} ] || echo cpu1/online:0"));
    let began = std::time::Instant::now();
    let outcome = record();
    let e = outcome.stderr;
    assert_eq!(outcome.code, 1, "{e}");
    assert!(e.contains("am profile start a"), "{e}");
    assert!(e.contains("refused"), "{e}");
    assert!(began.elapsed().as_secs() < 300, "{:?}", began.elapsed());
    assert!(last().ends_with("'echo 0 > /sys/devices/system/cpu/cpu1/online'"));
}

/// An artificial stall is reported with all threads involved; a trace without one has no stall.
#[test]
fn a_planted_stall_is_named() {
    let stall = include_bytes!("../../../systrace/tests/data/stalled_request.txt");
    let text = ok(&["idle", "-"], stall);
    let line = text.lines().find(|l| l.starts_with("* ")).unwrap();
    for part in [
        "voice UI hand-over",
        "clockwork (700)",
        "Binder_2 (315)",
        "mediaserver",
        "setOutputDevice",
        "120.",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    let report = json(&["report", "-", "--json"], stall);
    assert_eq!(report["idle"]["findings"].as_array().unwrap().len(), 1);
    let none = json(&["idle", "-", "--json"], SWITCHES.as_bytes());
    assert_eq!(none["findings"], serde_json::json!([]));
}

/// The shared samples, each through the program.
#[test]
fn every_sample_is_reported_on() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html").display().to_string();
    let mut seen = 0;
    for kind in ["systrace", "ftrace", "perfetto", "art-trace", "perf"] {
        let Some(samples) = sample(kind) else {
            return;
        };
        let files = std::fs::read_dir(samples).unwrap();
        for file in files {
            let file = file.unwrap().path().display().to_string();
            let text = ok(&["report", &file, "--html", &page], b"");
            assert!(text.starts_with("* "), "{file}: {text}");
            let html = std::fs::read_to_string(&page).unwrap();
            assert!(html.ends_with("</html>\n"), "{file}");
            seen += 1;
        }
    }
    assert!(seen > 0, "no samples");
}

/// The JSON form that scripts depend on.
#[test]
fn findings_of_a_stall_without_binder_events() {
    let stored = include_str!("../../../systrace/tests/data/stalled_request.txt");
    let lines = stored.lines().filter(|l| !l.contains("binder_transaction"));
    let text: String = lines.flat_map(|l| [l, "\n"]).collect();
    let idle = json(&["idle", "-", "--json"], text.as_bytes());
    let findings = idle["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let f = &findings[0];
    assert_eq!((&f["process"], &f["thread"]), (&700.into(), &700.into()));
    assert_eq!(f["function"], "setOutputDevice");
    assert_eq!(f["cause"], "voice UI hand-over");
    let about = |name: &str, expected: f64| (f[name].as_f64().unwrap() - expected).abs() < 1e-3;
    assert!(
        about("duration_s", 0.120) && about("start_s", 5.0027),
        "{f}"
    );
    let share = idle["explained_share"].as_f64().unwrap();
    assert!((0.9..=1.0).contains(&share), "{share}");
}

#[test]
fn files_that_are_no_method_traces_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.txt");
    std::fs::write(&file, SWITCHES).unwrap();
    let path = file.to_str().unwrap();
    let error = fails(&["idle", "-", "--methods", path], SWITCHES.as_bytes());
    assert!(error.ends_with("other.txt: no calls in it"), "{error}");
    let error = fails(&["calibrate", path], &[]);
    assert!(
        error.contains("other.txt: 0 calls of one function"),
        "{error}"
    );
}

#[test]
fn overhead_has_fractions_of_a_microsecond() {
    let Some(path) = sample("art-trace/jag_dalvik_dmtrace.trace") else {
        return;
    };
    let path = path.to_str().unwrap();
    let times = |overhead: &str| {
        let args = ["functions", path, "--json", "--overhead", overhead];
        json(&args, &[])["traces"][0].clone()
    };
    let total = |t: &Value| {
        let list = t["functions"].as_array().unwrap().iter();
        list.map(|f| f["inclusive_ns"].as_u64().unwrap())
            .sum::<u64>()
    };
    let (none, some, more) = (times("0us"), times("900ns"), times("2.5us"));
    assert!(total(&none) > total(&some) && total(&some) > total(&more));
    assert!(total(&more) > total(&times("3us")));
    assert_eq!(none["clamped"]["ns"], 0);
    assert!(more["clamped"]["ns"].as_u64().unwrap() > 0);
}
