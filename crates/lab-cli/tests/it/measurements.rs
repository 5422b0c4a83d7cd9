//! Experiments without transfers: they are run, stored, listed and reported like the others.

use std::path::Path;
use std::process::Output;

use mpbond_testing::{Need, Outcome};
use serde_json::Value;

use crate::programs::LAB;

fn mpbond(folder: &Path, args: &[&str]) -> Output {
    LAB.command(args).current_dir(folder).output().unwrap()
}

const SLEEPS: &str = r#"
measure = "probe"
name = "sleeps"
title = "A bus that sleeps, and one that does not"
probes = 4
rtts_ms = [20]
pictures = ["parts", "series"]

[[case]]
name = "asleep"
program = "native"
method = "http"
interval = "100ms"
bus = "bus-broadcom"

[[case]]
name = "awake"
program = "native"
method = "rst"
interval = "20ms"

# The request wakes it, which takes 12 ms; the reply comes before it sleeps again.
[[check]]
of = "asleep at 20: delta_d_k median_ms"
at_least = 11.0
at_most = 20.0

[[check]]
of = "awake at 20: delta_d_k median_ms"
at_most = 8.0

[[paper]]
figure = "Figure 8"
of = "asleep at 20: delta_d_k median_ms"
what = "Δd_k"
published = "some ms"
"#;

/// Over a chain of hosts, with captures at two of them.
#[test]
fn a_bus_that_sleeps_is_seen_and_reported() {
    let out = tempfile::tempdir().unwrap();
    std::fs::write(out.path().join("sleeps.toml"), SLEEPS).unwrap();
    let args = ["lab", "run", "sleeps.toml", "--json", "sleeps.json"];
    let run = mpbond(out.path(), &args);
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let errors = String::from_utf8_lossy(&run.stderr).into_owned();
    let read = || std::fs::read_to_string(out.path().join("sleeps.json")).unwrap();
    if run.status.code() == Some(4) {
        let record: Value = serde_json::from_str(&read()).unwrap();
        Need::Idle.is_missing(&record["notes"]);
        return;
    }
    assert_eq!(run.status.code(), Some(0), "{text}{errors}");
    assert!(
        text.contains("Published figures") && text.ends_with("asserts hold\n"),
        "{text}"
    );
    let record: Value = serde_json::from_str(&read()).unwrap();
    assert_eq!(record["measure"], "probe");
    assert_eq!(record["checks"].as_array().unwrap().len(), 2);
    assert_eq!(record["tables"][0]["rows"].as_array().unwrap().len(), 2);
    let pictures = record["pictures"].as_array().unwrap();
    assert_eq!(pictures.len(), 2);
    for (picture, words) in pictures.iter().zip(["asleep, 20 ms", "Δd (ms)"]) {
        let svg = picture.as_str().unwrap();
        assert!(svg.starts_with("<svg") && svg.contains(words), "{svg}");
    }

    let report = mpbond(
        out.path(),
        &["lab", "report", "sleeps.json", "--html", "all.html"],
    );
    assert_eq!(report.status.code(), Some(0));
    let page = std::fs::read_to_string(out.path().join("all.html")).unwrap();
    assert!(page.contains("sleeps: A bus that sleeps") && page.contains("Figure 8"));
    let list = mpbond(out.path(), &["lab", "list", "."]);
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.contains("sleeps.toml  A bus that sleeps"), "{list}");
}

/// Stored results are used instead of measuring again.
#[test]
fn a_row_goes_on_where_it_was() {
    let out = tempfile::tempdir().unwrap();
    let row = "measure = \"merge\"\nname = \"m\"\ntitle = \"t\"\nseeds = 1\nseconds = 3.0\nloss = 0.1\n\
               jitter_us = 4.0\nskews_ppm = [15.0]\n[[check]]\nof = \"exactly_once_share\"\n\
               at_least = 0.99\n";
    std::fs::write(out.path().join("m.toml"), row).unwrap();
    let args = [
        "lab", "run", "m.toml", "--json", "m.json", "--resume", "m.jsonl", "-q",
    ];
    let dates = [0, 1].map(|_| {
        let run = mpbond(out.path(), &args);
        assert_eq!(run.status.code(), Some(0));
        let text = std::fs::read_to_string(out.path().join("m.json")).unwrap();
        let record: Value = serde_json::from_str(&text).unwrap();
        // So that another measurement has another date.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        record["date"].as_str().unwrap().to_owned()
    });
    assert_eq!(dates[0], dates[1]);
}

/// An interruption loses the repetition that runs; another call goes on after those before it.
#[test]
fn processor_time_goes_on_where_it_was_interrupted() {
    let out = tempfile::tempdir().unwrap();
    let row = "measure = \"cpu\"\nname = \"m\"\ntitle = \"t\"\nseconds = 1\nrepetitions = 1000\n\
               [[scheme]]\nname = \"little\"\nduty = 0.01\n";
    std::fs::write(out.path().join("m.toml"), row).unwrap();
    let lines = || {
        let text = std::fs::read_to_string(out.path().join("m.jsonl"));
        text.unwrap_or_default().lines().count()
    };
    let run = ["lab", "run", "m.toml", "--resume", "m.jsonl", "-q"];
    let mut command = LAB.command(run);
    let mut child = command.current_dir(out.path()).spawn().unwrap();
    let start = std::time::Instant::now();
    while lines() == 0 {
        assert_eq!(
            child.try_wait().unwrap(),
            None,
            "it ended before a repetition"
        );
        assert!(start.elapsed() < std::time::Duration::from_secs(120));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    // SIGINT is ignored where the tests run in the background of a shell.
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(!child.wait().unwrap().success());
    let kept = lines();

    let more = (kept + 1).to_string();
    let further = ["--repetitions", &more, "--further", "0", "--json", "m.json"];
    let again = mpbond(out.path(), &[&run[..], &further].concat());
    let errors = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(0), "{errors}");
    assert_eq!(lines(), kept + 1);
    let text = std::fs::read_to_string(out.path().join("m.json")).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    let undisturbed = record["tables"][0]["rows"][1][1].as_str().unwrap();
    assert!(
        undisturbed.ends_with(&format!(" of {more}")),
        "{undisturbed}"
    );
}

#[test]
fn errors_in_files_and_hops_are_one_line() {
    let out = tempfile::tempdir().unwrap();
    std::fs::write(
        out.path().join("x.toml"),
        "measure = \"x\"\nname = \"x\"\ntitle = \"t\"\n",
    )
    .unwrap();
    let merge = "measure = \"merge\"\nname = \"m\"\ntitle = \"t\"\nseeds = 1\nseconds = 3.0\n\
                 loss = 0.1\njitter_us = 4.0\nskews_ppm = [15.0]\n";
    std::fs::write(out.path().join("m.toml"), merge).unwrap();
    let hop = |hop| ["lab", "chain", "--hop", hop, "--", "true"];
    for (args, words) in [
        (
            &["lab", "run", "x.toml"][..],
            "x.toml: there is no measure \"x\"",
        ),
        (
            &["lab", "run", "m.toml", "--part", "1/2"],
            "m.toml: a measurement without transfers runs as a whole",
        ),
        (&hop("UPPER:1 Mbit/s:1ms"), "small letters"),
        (&hop("a:1 Mbit/s:1ms:no-radio"), "no-radio"),
        (
            &[
                "lab",
                "chain",
                "--hop",
                "a:1 Mbit/s:1ms",
                "--at",
                "9=true",
                "--",
                "true",
            ],
            "no host 9",
        ),
    ] {
        let line = Outcome::from(mpbond(out.path(), args)).error(2);
        assert!(line.starts_with("mpbond-lab: "), "{args:?}: {line}");
        assert!(line.contains(words), "{args:?}: {line}");
    }
}
