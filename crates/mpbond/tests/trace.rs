//! `mpbond trace` as a person meets it.
#![allow(clippy::unwrap_used, clippy::panic)] // of tests

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// One CPU: a runs 250 of 1,000 ms, then b begins.
const SWITCHES: &str = "\
          <idle>-0     [000] d..2 100.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=1 next_prio=120
               a-1     [000] d..2 100.250000: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
          <idle>-0     [000] d..2 101.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=2 next_prio=120
";

struct Outcome {
    code: i32,
    stdout: String,
    stderr: String,
}

fn trace(args: &[&str], input: &[u8]) -> Outcome {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .arg("trace")
        .args(args)
        .env_remove("RUST_LOG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that fails on its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    Outcome {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn ok(args: &[&str], input: &[u8]) -> String {
    let outcome = trace(args, input);
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    outcome.stdout
}

fn fails(args: &[&str], input: &[u8]) -> String {
    let outcome = trace(args, input);
    assert_eq!(outcome.code, 2, "{args:?}: {}", outcome.stderr);
    assert_eq!(outcome.stdout, "", "{args:?}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    outcome.stderr.trim().to_owned()
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
        text.starts_with("* In 1.000 s the CPUs were busy 25.0 %"),
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
        "perf",
        "net",
    ] {
        let e = fails(&[command, &foreign], b"");
        let wanted = format!("mpbond: {foreign}: byte 0: no known trace format");
        assert!(e.starts_with(&wanted), "{command}: {e}");
    }
    let empty = at("empty", b"");
    assert!(fails(&["summary", &empty], b"").ends_with("the file is empty"));
    let missing = folder.path().join("missing").display().to_string();
    assert!(fails(&["report", &missing], b"").contains(&missing));
    let e = fails(&["summary", folder.path().to_str().unwrap()], b"");
    assert!(e.ends_with("a folder, not a trace"), "{e}");
    let rules = at("rules.toml", b"\n[[rule]]\ncause = 3\n");
    let e = fails(&["idle", "-", "--idle-rules", &rules], SWITCHES.as_bytes());
    assert!(e.starts_with(&format!("mpbond: {rules}: line 3: ")), "{e}");
    let e = fails(&["functions", "-"], SWITCHES.as_bytes());
    assert!(e.contains("no method trace"), "{e}");
    let e = fails(&["perf", "-"], SWITCHES.as_bytes());
    assert!(e.contains("no profiler samples"), "{e}");
}

/// What is cut is read as far as it goes, and told.
#[test]
fn a_cut_trace_is_told_of() {
    let cut = &SWITCHES.as_bytes()[..SWITCHES.len() - 30];
    let outcome = trace(&["usage", "-"], cut);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("not whole: "), "{}", outcome.stderr);
    let s = json(&["summary", "-", "--json"], cut);
    assert!(s["incomplete"].is_string(), "{s}");
}

/// The shared samples, each through the program.
#[test]
fn every_sample_is_reported_on() {
    let samples = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/samples"
    ));
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html").display().to_string();
    let mut seen = 0;
    for kind in ["systrace", "ftrace", "perfetto", "art-trace", "perf"] {
        let Ok(files) = std::fs::read_dir(samples.join(kind)) else {
            continue;
        };
        for file in files {
            let file = file.unwrap().path().display().to_string();
            let text = ok(&["report", &file, "--html", &page], b"");
            assert!(text.starts_with("* "), "{file}: {text}");
            let html = std::fs::read_to_string(&page).unwrap();
            assert!(html.ends_with("</html>\n"), "{file}");
            seen += 1;
        }
    }
    if seen == 0 {
        eprintln!("skipped: the shared samples are not here");
    }
}
