//! The command lines of `mpbond traffic send` and `receive`, and an experiment that measures the
//! cost of such transfers.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ExitStatus, Stdio};

use mpbond_testing::Need;
use mpbond_testing::namespaces::{is_called_for, play, sh};
use serde_json::Value;

use crate::programs::{LAB, lab_in, refusal};

/// A host `far` at the other end of a cable: it says its number, and begins when it is asked.
const FAR: &str = "echo $$; read _; ip addr add fe80::2/64 dev far nodad; ip link set far up; \
                   exec \"$0\" traffic compare --listen '[::]:7008'";

/// It ends with the test.
struct Far(Child);

impl Far {
    fn end(&mut self) -> (ExitStatus, String) {
        let mut errors = String::new();
        let mut pipe = self.0.stderr.take().unwrap();
        pipe.read_to_string(&mut errors).unwrap();
        (self.0.wait().unwrap(), errors)
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Packets that the interface `near` has sent.
fn sent_packets() -> u64 {
    let all = std::fs::read_to_string("/proc/net/dev").unwrap();
    let mut lines = all.lines().map(str::trim);
    let numbers = lines.find_map(|line| line.strip_prefix("near:")).unwrap();
    numbers.split_whitespace().nth(9).unwrap().parse().unwrap()
}

#[test]
fn a_file_is_sent_by_one_copy() {
    let folder = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(folder.path().join("from"), &content).unwrap();
    let receive = "traffic receive --listen 127.0.0.1:0 --file into --copy one --json";
    let receive: Vec<&str> = receive.split(' ').collect();
    let mut receiver = lab_in(folder.path(), &receive)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(receiver.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let first: Value = serde_json::from_str(&line).unwrap();
    let address = first["listening"].as_str().unwrap();
    let send = "--bytes 300kB --file from --copy one --json";
    let mut arguments = vec!["traffic", "send", address];
    arguments.extend(send.split(' '));
    let sent = lab_in(folder.path(), &arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&sent.stderr);
    assert_eq!(sent.status.code(), Some(0), "{errors}");
    let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(receiver.wait().unwrap().success());
    let received: Value = serde_json::from_str(&rest).unwrap();
    assert_eq!(sent["bytes"], 300_000);
    assert_eq!(received["bytes"], 300_000);
    assert!(std::fs::read(folder.path().join("into")).unwrap() == content);
}

#[test]
fn wrong_options_of_transfers_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, words) in [
        ("traffic send 127.0.0.1", "a number of bytes or a time"),
        (
            "traffic send 127.0.0.1 --bytes 1kB --datagrams gso",
            "need the transport udp:BYTES",
        ),
        ("traffic send 127.0.0.1:x --bytes 1kB", "127.0.0.1:x"),
        (
            "traffic receive --listen 127.0.0.1:0 --transport udp:100 --datagrams sendmmsg",
            "a receiver takes single datagrams",
        ),
        ("traffic compare", "the other device is missing"),
        ("traffic compare 127.0.0.1 --tick 6ms", "1 to 5 ms"),
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let output = lab_in(folder.path(), &arguments).output().unwrap();
        let why = refusal(&output);
        assert!(why.contains(words), "{why}");
    }
    for of_clap in [
        "traffic send 127.0.0.1 --bytes 1kB --copy one",
        "traffic compare --listen 127.0.0.1:0 --rate 1Mbit/s",
    ] {
        let arguments: Vec<&str> = of_clap.split(' ').collect();
        let output = lab_in(folder.path(), &arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn a_relay_prints_json_only() {
    let folder = tempfile::tempdir().unwrap();
    // The sender ends without data, so that the receiver gets none.
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = receiver.local_addr().unwrap().to_string();
    let relay = "traffic relay --listen 127.0.0.1:0 --json --to";
    let relay: Vec<&str> = relay.split(' ').chain([to.as_str()]).collect();
    let mut relay = lab_in(folder.path(), &relay)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(relay.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let sender = TcpStream::connect(first["listening"].as_str().unwrap()).unwrap();
    drop(sender);
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(rest.len(), 1, "{rest:?}");
    let result: Value = serde_json::from_str(&rest[0]).unwrap();
    assert_eq!(result["bytes"], 0);
    assert!(relay.wait().unwrap().success());
}

#[test]
fn both_ends_of_a_comparison_measure_transfers_over_tcp_and_frames() {
    play("-Urn", "plain::role_of_a_comparison");
}

#[test]
#[ignore = "run by the test above"]
fn role_of_a_comparison() {
    if !is_called_for() {
        return;
    }
    let far = std::process::Command::new("unshare")
        .args(["-n", "--kill-child", "sh", "-ec", FAR])
        .arg(LAB.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut far = Far(far);
    let mut lines = BufReader::new(far.0.stdout.take().unwrap()).lines();
    let id = lines.next().unwrap().unwrap();
    // The cable is there as long as the namespace, and longer than its program.
    let _namespace = File::open(format!("/proc/{id}/ns/net")).unwrap();
    sh(&format!(
        "ip link add near type veth peer name far; ip link set far netns {id}
        ip addr add fe80::1/64 dev near nodad; ip link set near up"
    ));
    far.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    let is_idle = |errors: String| {
        let busy = errors.contains("too busy to calibrate") || errors.contains("without taskset");
        if busy {
            Need::Idle.is_missing(errors);
        }
        !busy
    };
    let Some(Ok(ready)) = lines.next() else {
        assert!(!is_idle(far.end().1));
        return;
    };
    assert!(ready.ends_with("at [::]:7008"), "{ready}");
    let before = sent_packets();
    // A link-local address: both transfers need its scope.
    let arguments = "traffic compare fe80::2%near --duration 500ms --repetitions 2 --json";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let near = LAB.command(&arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&near.stderr).into_owned();
    if !is_idle(errors.clone()) {
        return;
    }
    // 4: too busy to judge, as both ends are one machine.
    assert!(matches!(near.status.code(), Some(0 | 4)), "{errors}");
    let result: Value = serde_json::from_slice(&near.stdout).unwrap();
    assert_eq!(result["repetitions"].as_array().unwrap().len(), 2);
    assert!(result["repetitions"][1]["l2_s"].is_f64(), "{result}");
    // Twice half a second at 24 Mbit/s, over TCP a packet for each tick.
    let frames = sent_packets() - before;
    assert!(frames > 3_000_000 / 1500 * 3 / 4, "{frames} frames");
    let (status, errors) = far.end();
    assert!(status.success(), "{errors}");
}

const COSTS: &str = r#"
measure = "cpu"
name = "costs"
title = "What transfers cost"
seconds = 1
repetitions = 1
rates = ["4 Mbit/s"]

[[scheme]]
name = "files"
transfer = { copy = "one", relay = { copy = "one", tick = "5ms" } }
logger = true

[[scheme]]
name = "datagrams"
transfer = { transport = "udp:1472", datagrams = "gso" }

[[compare]]
name = "less"
of = "datagrams"
with = "files"

# A busy machine sends late, and then what it should have sent.
[[check]]
of = "files, 4 Mbit/s: arrived_mbps"
at_least = 0.5

[[check]]
of = "datagrams, 4 Mbit/s: arrived_mbps"
at_least = 0.5

[[paper]]
figure = "Figure 5"
of = "less, 4 Mbit/s: saving_share"
what = "saved"
published = "something"
"#;

#[test]
fn an_experiment_measures_what_transfers_cost() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("costs.toml"), COSTS).unwrap();
    let arguments = ["lab", "run", "costs.toml", "--json", "costs.json"];
    let output = lab_in(folder.path(), &arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let record = std::fs::read(folder.path().join("costs.json"));
    let record = record.unwrap_or_else(|e| panic!("{e}: {text}{errors}"));
    let record: Value = serde_json::from_slice(&record).unwrap();
    let notes = record["notes"].to_string();
    let lacking = ["was too busy to calibrate", "run it without taskset"];
    if lacking.iter().any(|words| notes.contains(words)) {
        Need::Idle.is_missing(notes);
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{text}{errors}{notes}");
    let of_json = |cells: &Value| -> Vec<String> {
        let cells = cells.as_array().unwrap().iter();
        cells
            .map(|cell| cell.as_str().unwrap().to_owned())
            .collect()
    };
    let table = &record["tables"][0];
    let header = of_json(&table["header"]);
    let rows = table["rows"].as_array().unwrap().iter();
    let rows: Vec<Vec<String>> = rows.map(of_json).collect();
    let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, ["none", "files, 4 Mbit/s", "datagrams, 4 Mbit/s"]);
    assert!(rows.iter().all(|row| row.len() == header.len()), "{text}");
    // Nothing arrives in the run without a load; the checks bound what arrives in the others.
    let rate = header.iter().position(|name| name == "Mbit/s").unwrap();
    assert_eq!(rows[0][rate], "-");
    let arrived = rows[1..].iter().map(|row| row[rate].parse().unwrap());
    let arrived: Vec<f64> = arrived.collect();
    assert!(arrived.iter().all(|mbps| *mbps >= 0.5), "{arrived:?}");
}
