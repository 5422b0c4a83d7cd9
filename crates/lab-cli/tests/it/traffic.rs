//! The command line of `mpbond traffic`: a server that is killed and started again, logs that
//! `mpbond capture owd` reads, bad input in one line.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use mpbond_testing::free_address;
use serde_json::Value;

use crate::programs::LAB;

fn mpbond(folder: &Path, args: &[&str]) -> Command {
    let mut command = LAB.command(args);
    command.current_dir(folder);
    command
}

/// Killed when it goes out of scope.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn server(listen: SocketAddr) -> Server {
    let mut child = mpbond(
        Path::new("/"),
        &["traffic", "server", "--listen", &listen.to_string()],
    )
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains("sends and takes traffic at"), "{line}");
    Server(child)
}

fn lines(output: &Output) -> Vec<Value> {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(parsed).collect()
}

fn parsed(line: impl AsRef<str>) -> Value {
    serde_json::from_str(line.as_ref()).unwrap()
}

/// The camera of the Wear OS paper's section 6.2, while its server is killed and restarted.
#[test]
fn a_killed_server_is_a_gap_and_no_loss() {
    let out = tempfile::tempdir().unwrap();
    let address = free_address();
    let first = server(address);
    let args = [
        "traffic",
        "client",
        &address.to_string(),
        "--workload",
        "chunks",
        "--every",
        "20ms",
        "--duration",
        "2s",
        "--direction",
        "both",
        "--json",
        "--svg",
        "run.svg",
        "--app-bytes",
        "app.csv",
        "--states",
        "states.csv",
    ];
    let mut client = mpbond(out.path(), &args)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(client.stdout.take().unwrap())
        .lines()
        .map(|line| parsed(line.unwrap()));
    let mut all: Vec<Value> = said.by_ref().take(50).collect();
    assert_eq!(all.len(), 50, "{all:?}");
    drop(first);
    std::thread::sleep(Duration::from_millis(1_000));
    let _second = server(address);
    all.extend(said);
    assert!(client.wait().unwrap().success(), "{all:?}");
    let s = &all.last().unwrap()["summary"];
    assert_eq!(s["connections"], 2, "{s}");
    for direction in ["down", "up"] {
        let d = &s[direction];
        assert_eq!((&d["records"], &d["missing"]), (&100.into(), &0.into()));
        assert!(d["gaps"]["longest_s"].as_f64().unwrap() >= 0.55, "{d}");
        let gaps = d["gaps"]["list"].as_array().unwrap();
        assert!(gaps.iter().any(|gap| gap["reconnected"] == true), "{d}");
        assert!(d["delay_ms"]["median"].is_f64());
    }
    let segments = s["clock"]["segments"].as_array().unwrap();
    assert!(!segments.is_empty(), "{s}");
    for direction in ["out", "in"] {
        for key in ["skew_ppm", "offset_us", "offset_error_us"] {
            assert!(
                segments[0][direction][key].is_f64(),
                "{direction} {key}: {s}"
            );
        }
    }
    let told = |event: &str| all.iter().filter(|l| l["event"] == event).count();
    assert_eq!(
        (told("record"), told("connected"), told("lost")),
        (200, 2, 1)
    );
    let svg = std::fs::read_to_string(out.path().join("run.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("fill=\"#f4c7c3\""));
    let app = std::fs::read_to_string(out.path().join("app.csv")).unwrap();
    assert_eq!(app.lines().count(), 201);
    assert!(app.lines().last().unwrap().ends_with(",lo,3000"), "{app}");
    // No handover: it was one interface all the time. That the logs are read is enough.
    let owd = [
        "capture",
        "owd",
        "--states",
        "states.csv",
        "--app-bytes",
        "app.csv",
        "--json",
    ];
    let phases = lines(&mpbond(out.path(), &owd).output().unwrap());
    assert_eq!(phases[0]["phases"], Value::Null);
}

#[test]
fn the_report_of_a_run_has_all_figures() {
    let server_address = free_address();
    let _server = server(server_address);
    let args = [
        "traffic",
        "client",
        &server_address.to_string(),
        "--duration",
        "200ms",
        "--direction",
        "up",
    ];
    let output = mpbond(Path::new("/"), &args).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.starts_with("up: ") && text.contains("; all of them"),
        "{text}"
    );
    assert!(text.contains("one-way delay, ms") && text.contains("no gaps over 0.500 s"));
}

#[test]
fn bad_input_gives_one_line() {
    for (args, code, words) in [
        (&["a:b"][..], 2, "a:b: not HOST"),
        (
            &["127.0.0.1", "--workload", "cbr", "--rate", "1 bit/s"],
            2,
            "3 kbit/s",
        ),
        (
            &["127.0.0.1", "--workload", "chunks", "--chunk", "5"],
            2,
            "48 to 65536",
        ),
        (&["127.0.0.1", "--duration", "100000s"], 2, "to a day"),
        (&["127.0.0.1:1"], 1, "127.0.0.1:1: the traffic server: "),
        (&["x", "--socks5", "127.0.0.1:1"], 1, "refused"),
    ] {
        let args = [&["traffic", "client"], args].concat();
        let line = LAB.fails(&args, code);
        assert!(line.contains(words), "{args:?}: {line}");
    }
}
