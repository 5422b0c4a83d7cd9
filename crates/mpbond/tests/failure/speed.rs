//! `mpbond speed` over links of known rates, in namespaces of the test's own.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::apart::Apart;
use crate::daemons::until;
use mpbond_testing::has_tbf;
use mpbond_testing::namespaces::{is_called_for, play, sh};

/// Rates of the links in Mbit/s, towards the primary and away from it.
const OWN: [f64; 2] = [8.0, 4.0];
const PIPE: [f64; 2] = [5.0, 20.0];
const HS: [f64; 2] = [20.0, 3.0];

/// Part of a link's rate that is measured. An idle machine measures 0.94 to 0.96, the payload; a
/// busy one less, and none more than there is.
const PART: std::ops::Range<f64> = 0.55..1.02;

#[test]
fn the_speed_of_each_path_and_pipe_is_measured_and_the_bottleneck_named() {
    if has_tbf() {
        play("-Urnm", "speed::role");
    }
}

#[test]
fn a_speed_test_that_is_interrupted_stops_at_once() {
    if has_tbf() {
        play("-Urnm", "speed::role_interrupted");
    }
}

#[test]
fn a_speed_test_moves_no_more_than_a_cap_leaves() {
    if has_tbf() {
        play("-Urnm", "speed::role_capped");
    }
}

/// A line of shell that limits an interface. Each packet is one of the wire.
fn limit(interface: &str, mbps: f64) -> String {
    format!(
        "ip link set {interface} gso_max_segs 1; \
         tc qdisc add dev {interface} root tbf rate {mbps}mbit burst 8kb latency 200ms"
    )
}

/// Links of these rates, with a helper.
pub fn shaped() -> Apart {
    let apart = Apart::with_helper();
    sh(&limit("far0", OWN[0]));
    apart.run_there(&limit("near0", OWN[1]));
    apart.helper_runs(&format!("sh -ec \"{}\"", limit("pipe1", PIPE[0])));
    apart.run_there(&limit("pipe0", PIPE[1]));
    sh(&limit("hs0", HS[0]));
    apart.helper_runs(&format!("sh -ec \"{}\"", limit("hs1", HS[1])));
    apart
}

fn command(apart: &Apart, more: &str) -> String {
    let (mpbond, config) = (
        env!("CARGO_BIN_EXE_mpbond"),
        apart.bond.file("primary.toml"),
    );
    format!("{mpbond} speed {more} --config {}", config.display())
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = shaped();
    let file = apart.bond.file("proxy.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("resume_for = \"5s\"\n{text}")).unwrap();
    let _proxy = apart.bond.start("proxy");
    let _helper = apart.start_helper();
    // The primary that runs is idle.
    let _primary = apart.start_primary();
    apart.bond.joined(2);
    let said = apart.run_there(&command(&apart, "--json --seconds 3"));
    let all: Value = serde_json::from_str(&said).unwrap();
    let through = [PIPE[0].min(HS[0]), PIPE[1].min(HS[1])];
    let expected = [
        ("own", "path", OWN),
        ("helper", "helper", through),
        ("helper", "pipe", PIPE),
    ];
    for (measured, (name, kind, rates)) in all.as_array().unwrap().iter().zip(expected) {
        assert_eq!(measured["name"], name, "{said}");
        assert_eq!(measured["kind"], kind, "{said}");
        for (key, rate) in ["down_mbps", "up_mbps"].iter().zip(rates) {
            let part = measured[key].as_f64().unwrap() / rate;
            eprintln!("figure: {name}, {kind}, {key}: {part:.2} of {rate} Mbit/s");
            assert!(PART.contains(&part), "{name} {kind} {key}: {part} {said}");
        }
    }
    assert_eq!(all.as_array().unwrap().len(), 3, "{said}");
    let said = apart.run_there(&command(&apart, "helper --seconds 1"));
    // Of the pipe's 20 Mbit/s away from the primary, 3 are used.
    let is_named = |line: &str| line.starts_with("helper: ") && line.contains("helper's own link");
    assert!(said.lines().any(is_named), "{said}");
    // Nothing of the tests is left. A session whose last bytes wait at a helper is not closed by
    // the test, which resets its connection: the proxy ends it when it has been alone for long
    // enough.
    until("the sessions of the tests are closed", || {
        apart.bond.status("proxy").unwrap().sessions.len() == 1
    });
}

/// Octets that this host has sent to the primary.
fn sent() -> u64 {
    let said = sh("ip -j -s link show far0");
    let links: Value = serde_json::from_str(&said).unwrap();
    links[0]["stats64"]["tx"]["bytes"].as_u64().unwrap()
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_interrupted() {
    if !is_called_for() {
        return;
    }
    let apart = shaped();
    let _proxy = apart.bond.start("proxy");
    let test = Command::new("nsenter")
        .args(["-t", &apart.pid().to_string(), "-n", "sh", "-c"])
        // A shell that runs tests in the background may have them ignore the signal.
        .arg(format!(
            "exec env --default-signal=INT {}",
            command(&apart, "own --seconds 20")
        ))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut test = test.unwrap();
    until("the test runs", || sent() > 500_000);
    kill(Pid::from_raw(test.id() as i32), Signal::SIGINT).unwrap();
    assert!(!test.wait().unwrap().success());
    // What waits in the queue of the link, and then nothing.
    until("nothing moves any more", || {
        let before = sent();
        sleep(Duration::from_millis(300));
        sent() - before < 3_000
    });
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_capped() {
    if !is_called_for() {
        return;
    }
    let apart = shaped();
    let file = apart.bond.file("primary.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("policy = \"policy.toml\"\n{text}")).unwrap();
    let cap = |bytes: &str| {
        let cap = format!("cap = {{ bytes = \"{bytes}\", zone = \"UTC\" }}");
        let policy = format!("[[link]]\nname = \"own\"\n{cap}\n");
        std::fs::write(apart.bond.file("policy.toml"), policy).unwrap();
    };
    let measure = |more: &str| {
        let line = format!("{} || true", command(&apart, &format!("--json own {more}")));
        let said = apart.run_there(&line);
        let mut all: Value = serde_json::from_str(&said).unwrap();
        all[0].take()
    };
    let _proxy = apart.bond.start("proxy");
    // 6 s at 8 Mbit/s are 6 MB; half of 90 % of the cap may come down.
    cap("8 MB");
    let before = sent();
    let measured = measure("--seconds 4");
    let down = measured["down_mbps"].as_f64().unwrap() / OWN[0];
    assert!(PART.contains(&down), "{measured}");
    let moved = sent() - before;
    assert!((3_600_000..4_600_000).contains(&moved), "{moved}");
    // By the account of a primary that runs.
    cap("100 kB");
    let _primary = apart.start_primary();
    apart.bond.joined(1);
    let measured = measure("--seconds 1 --over-cap");
    assert!(measured["down_mbps"].as_f64().is_some(), "{measured}");
    let before = sent();
    let error = measure("--seconds 1")["error"].to_string();
    assert!(
        error.contains("its cap of 100 kB is used up until "),
        "{error}"
    );
    assert!(error.contains("--over-cap"), "{error}");
    let moved = sent() - before;
    assert!(moved < 100_000, "{moved}");
}
