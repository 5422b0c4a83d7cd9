//! The command lines of `mpbond capture` and `mpbond probe`: the examples of the help work on the
//! samples, JSON has its form, bad input gives one line.

use std::path::Path;
use std::process::Output;

use mpbond_testing::{Outcome, sample};
use serde_json::Value;

use crate::programs::LAB;

fn mpbond(folder: &Path, args: &[&str]) -> Output {
    LAB.command(args).current_dir(folder).output().unwrap()
}

fn json(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_bluetooth_log_is_reported_and_drawn() {
    let Some(folder) = sample("btsnoop") else {
        return;
    };
    let file = "a2dp_motog2013_lghbs730.btsnoop.log";
    let r = json(&mpbond(&folder, &["capture", "bt", file, "--json"]));
    assert_eq!(r["records"], 3674);
    assert_eq!(r["commands"]["exit_sniff"], 5);
    assert_eq!(r["mode_changes"][0]["mode"], "sniff");
    assert_eq!(r["mode_changes"][0]["interval_slots"], 800);
    assert_eq!(r["incomplete"], Value::Null);
    let link = &r["links"][0];
    assert!(link["handle"].is_u64() && link["dwell_s"]["sniff"].is_f64());
    assert!(link["undesired_sniff"][0]["start_s"].is_f64());

    let out = tempfile::tempdir().unwrap();
    let svg = out.path().join("modes.svg");
    let told = mpbond(
        &folder,
        &["capture", "bt", file, "--svg", svg.to_str().unwrap()],
    );
    assert_eq!(told.status.code(), Some(0));
    assert!(
        String::from_utf8(told.stdout)
            .unwrap()
            .contains("10 mode changes")
    );
    assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg"));
}

/// The whole records are reported, and the report is marked as incomplete.
#[test]
fn a_truncated_log_is_reported_with_a_warning() {
    let Some(folder) = sample("btsnoop") else {
        return;
    };
    let whole = std::fs::read(folder.join("chsmartbulb_spp.btsnoop.log")).unwrap();
    let out = tempfile::tempdir().unwrap();
    std::fs::write(out.path().join("cut.log"), &whole[..whole.len() - 3]).unwrap();
    let told = mpbond(out.path(), &["capture", "bt", "cut.log", "--json"]);
    assert_eq!(told.status.code(), Some(1));
    let r: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(r["records"], 698);
    assert!(
        r["incomplete"]
            .as_str()
            .unwrap()
            .starts_with("cut.log: offset ")
    );
}

#[test]
fn sniffers_are_merged() {
    let Some(folder) = sample("wifi") else {
        return;
    };
    let out = tempfile::tempdir().unwrap();
    let merged = out.path().join("merged.pcapng");
    let merged = merged.to_str().unwrap();
    let (a, b) = ("derived_wltrace_s0.pcap", "derived_wltrace_s1.pcap");
    let r = json(&mpbond(
        &folder,
        &["capture", "merge", a, b, "-o", merged, "--json"],
    ));
    assert_eq!(r["merged_frames"], 313);
    assert!(r["completeness"].as_f64().unwrap() > 0.9);
    for field in ["offset_us", "skew_ppm", "residual_median_us"] {
        assert!(r["inputs"][1][field].is_f64(), "{field}");
    }
    assert!(std::fs::metadata(merged).unwrap().len() > 40_000);
}

#[test]
fn delays_and_phases_are_split() {
    let out = tempfile::tempdir().unwrap();
    let states =
        "time_s,interface,state\n0,bt,connected\n5,bt,off\n7,wifi,available\n8,wifi,connected\n";
    std::fs::write(out.path().join("states.csv"), states).unwrap();
    let app = "time_s,interface,app_bytes\n4,bt,10\n8.5,wifi,10\n";
    std::fs::write(out.path().join("app.csv"), app).unwrap();
    let args = [
        "capture",
        "owd",
        "--states",
        "states.csv",
        "--app-bytes",
        "app.csv",
        "--json",
    ];
    let r = json(&mpbond(out.path(), &args));
    for (phase, s) in [("p1_s", 1.0), ("p2_s", 2.0), ("p3_s", 1.0), ("p4_s", 0.5)] {
        assert_eq!(r["phases"][phase], s, "{phase}");
    }
    let Some(folder) = sample("tcp") else { return };
    let file = "zeek_206_example_b.pcap";
    let r = json(&mpbond(
        &folder,
        &[
            "capture", "owd", "--server", file, "--phone", file, "--json",
        ],
    ));
    let bare = json(&mpbond(&folder, &["capture", "owd", file, file, "--json"]));
    assert_eq!(bare, r);
    // At the proxy, long after the phone: the third from the right.
    let proxy = out.path().join("proxy.csv");
    let log = "time_s,event,bytes\n2000000000,read,1000\n2000000001,sent,1000\n";
    std::fs::write(&proxy, log).unwrap();
    let proxy = proxy.to_str().unwrap();
    let places = [
        "capture", "owd", "--server", file, "--phone", file, "--proxy", proxy, "--json",
    ];
    let by_option = json(&mpbond(&folder, &places));
    assert_eq!(by_option["segments"]["d3"]["max_s"], 1.0);
    let bare = ["capture", "owd", proxy, file, file, "--json"];
    assert_eq!(json(&mpbond(&folder, &bare)), by_option);
    let watch = ["capture", "owd", proxy, proxy, file, file];
    let line = Outcome::from(mpbond(&folder, &watch)).error(2);
    assert!(line.contains("proxy.csv: offset 0"), "{line}");
    // The same capture at both places: no delay, and no doubt about the clocks beyond the 1 µs to
    // which its stamps are rounded, and somewhat more at the ends.
    assert!(r["segments"]["d1"]["max_s"].as_f64().unwrap().abs() < 1e-6);
    assert_eq!(r["segments"]["d4"], Value::Null);
    assert!((0.99..2.0).contains(&r["clock_error_us"].as_f64().unwrap()));
    for key in ["skew_ppm", "offset_us", "offset_error_us"] {
        assert!(r["clock"][key].is_f64(), "{key}: {}", r["clock"]);
        // Of each direction in each segment, as in the output of `probe`.
        let segment = &r["clock"]["segments"][0];
        assert_eq!(segment["out"][key], r["clock"][key]);
        assert!(segment["in"][key].is_f64(), "{key}: {segment}");
    }
}

#[test]
fn pings_in_a_capture_have_their_delays() {
    let Some(folder) = sample("tcp") else { return };
    let args = ["capture", "delay", "wireshark_dns+icmp.pcapng.gz", "--json"];
    let output = mpbond(&folder, &args);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let probes: Vec<_> = lines.iter().filter(|l| l["method"].is_string()).collect();
    assert_eq!(probes.len(), 12, "echo requests, by the samples' README");
    assert!(probes.iter().all(|p| p["d_u_us"].is_null()));
    let summaries: Vec<_> = lines.iter().filter(|l| l["summary"].is_object()).collect();
    let found: u64 = summaries.iter().filter_map(|s| s["found"].as_u64()).sum();
    let answered = probes.iter().filter(|p| p["d_n_us"].is_f64()).count();
    assert!(found > 0 && found == answered as u64);
    let told = mpbond(&folder, &args[..3]);
    assert!(
        String::from_utf8(told.stdout)
            .unwrap()
            .contains("pings from")
    );
}

/// A capture without a packet: the error names the file and what was looked for.
#[test]
fn a_capture_without_probes_says_what_was_looked_for() {
    let out = tempfile::tempdir().unwrap();
    let header = [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65535, 101];
    let header: Vec<u8> = header.iter().flat_map(|f| f.to_le_bytes()).collect();
    std::fs::write(out.path().join("empty.pcap"), header).unwrap();
    let probe = r#"{"seq":0,"method":"icmp","d_u_us":1.0,"d_k_us":null,"d_n_us":null,"#;
    let probe = format!(
        "{probe}{}",
        r#""stamps":{"user":null,"kernel":null,"wire":null},"#
    );
    let probe = format!("{probe}{}", r#""lost":false,"duplicate":false}"#);
    std::fs::write(out.path().join("p.jsonl"), probe).unwrap();
    for (args, wanted) in [
        (&[][..], "pings of other programs"),
        (&["--json"], "pings of other programs"),
        (&["--probes", "p.jsonl"], "the probes of p.jsonl"),
    ] {
        let args = [&["capture", "delay", "empty.pcap"], args].concat();
        let output = mpbond(out.path(), &args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(
            errors.starts_with("mpbond capture delay: empty.pcap: none of 0 packets"),
            "{args:?}: {errors}"
        );
        assert!(errors.contains(wanted), "{args:?}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn probes_are_lines_of_json_and_a_summary() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let args = [
        "probe", &host, "--method", "syn", "-c", "5", "-i", "1ms", "--json",
    ];
    let output = mpbond(Path::new("/"), &args);
    assert_eq!(output.status.code(), Some(0));
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 6);
    for (i, line) in lines.iter().take(5).enumerate() {
        assert_eq!((&line["seq"], &line["method"]), (&i.into(), &"syn".into()));
        assert!(line["d_u_us"].as_f64().unwrap() >= line["d_k_us"].as_f64().unwrap() - 1.0);
        assert_eq!(
            (&line["d_n_us"], &line["lost"]),
            (&Value::Null, &false.into())
        );
        assert_eq!(line["stamps"]["user"]["source"], "clock_gettime");
        let local = line["local"].as_str().unwrap();
        assert!(local.starts_with("127.0.0.1:"), "{local}");
    }
    assert_eq!(lines[5]["summary"]["sent"], 5);
}

/// The files among `words` that a sample has, and whether there are others.
fn files_of(words: &[&str], folder: &Path) -> (usize, usize) {
    let extensions = ["log", "pcap", "pcapng", "gz", "csv", "jsonl", "cfa", "pklg"];
    let mut counts = (0, 0);
    let mut written = false;
    for word in words {
        let is_file = word
            .rsplit_once('.')
            .is_some_and(|(_, e)| extensions.contains(&e));
        if is_file && !written {
            match folder.join(word).exists() {
                true => counts.0 += 1,
                false => counts.1 += 1,
            }
        }
        written = matches!(*word, "-o" | "--output" | "--svg");
    }
    counts
}

/// Every command of `capture` shows an example that works on a sample, and works.
#[test]
fn the_examples_of_the_help_work_on_the_samples() {
    for (command, own) in [
        ("bt", "btsnoop"),
        ("merge", "wifi"),
        ("owd", "tcp"),
        ("delay", "tcp"),
    ] {
        let Some(folder) = sample(own) else { return };
        let help = mpbond(&folder, &["capture", command, "--help"]);
        let help = String::from_utf8(help.stdout).unwrap();
        let (_, examples) = help.split_once("Examples:").unwrap();
        let mut works = 0;
        for line in examples.replace("\\\n", " ").lines() {
            // What other programs make of it is theirs.
            let line = line.split('|').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let ["mpbond", args @ ..] = words.as_slice() else {
                continue;
            };
            let (there, missing) = files_of(args, &folder);
            if there == 0 || missing > 0 {
                continue;
            }
            // Results go elsewhere.
            let out = tempfile::tempdir().unwrap();
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = std::fs::canonicalize(entry.unwrap().path()).unwrap();
                let name = path.file_name().unwrap();
                std::os::unix::fs::symlink(&path, out.path().join(name)).unwrap();
            }
            let output = mpbond(out.path(), args);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{line}: {errors}");
            assert!(output.stdout.len() > 100, "{line}");
            works += 1;
        }
        assert!(works > 0, "capture {command}: no example works on a sample");
    }
}

#[test]
fn bad_input_gives_one_line() {
    let out = tempfile::tempdir().unwrap();
    std::fs::write(
        out.path().join("text"),
        "nothing of that kind, and long enough to look at",
    )
    .unwrap();
    for (args, words) in [
        (&["capture", "bt", "missing"][..], "missing"),
        (&["capture", "bt", "text"], "text: offset 0"),
        (&["capture", "merge", "text", "text"], "text: offset 0"),
        (&["capture", "owd", "--server", "text"], "text: offset 0"),
        (&["capture", "owd"], "nothing to compare"),
        (
            &["capture", "owd", "--phone", "a"],
            "--phone without --server",
        ),
        (&["capture", "owd", "text"], "FILES are two to four places"),
        (
            &["capture", "owd", "a", "b", "c", "d", "e"],
            "FILES are two to four places, not 5",
        ),
        (
            &["capture", "owd", "a", "b", "--phone", "c"],
            "FILES together with --server",
        ),
        // The server's is the last, and read first; then the phone's, the proxy's, the watch's.
        (&["capture", "owd", "a", "b", "c", "text"], "text: offset 0"),
        (&["capture", "delay", "text"], "text: offset 0"),
        (
            &["capture", "delay", "text", "--probes", "text"],
            "text: line 1: not a probe",
        ),
        (&["probe", "127.0.0.1", "-i", "0.1ms"], "1 ms"),
        (&["probe", "127.0.0.1:70000"], "127.0.0.1:70000"),
    ] {
        let line = Outcome::from(mpbond(out.path(), args)).error(2);
        assert!(line.starts_with("mpbond-lab: "), "{args:?}: {line}");
        assert!(line.contains(words), "{args:?}: {line}");
    }
}
