//! Memory of the console while a page shows many streams.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::console::Console;
use crate::daemon::{Daemon, primary, stream};

const STREAMS: u64 = 10_000;

/// Answers that are shown.
const FRAMES: usize = 5;

/// Maximum of the memory at any time.
const MAX_KB: u64 = 20 << 10;

/// A number of kB in the status of the console's process.
fn kb(console: &Console, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", console.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.unwrap().split_whitespace().next();
    number.unwrap().parse().unwrap()
}

#[test]
fn a_page_with_ten_thousand_streams_takes_less_than_20_mib() {
    // Made once: each answer has some megabytes.
    let streams: Vec<_> = (0..STREAMS)
        .map(|n| {
            let shares = [("wifi", 1_000_000 + n, 517), ("phone", 700_000, 200 + n)];
            let mut stream = stream(n, &format!("host{n}.example.org:443"), "bulk", &shares);
            stream["rule"] = json!("a rule of the policy");
            let name = format!("org.example.App{}", n % 50);
            stream["application"] = json!({ "name": name, "certainty": "guessed", "uid": 1000 });
            stream
        })
        .collect();
    let streams = json!(streams);
    let daemon = Daemon::start(move |t| {
        let paths = [
            ("wifi", "path", "up", 1e6 * t, 1e4 * t),
            ("phone", "helper", "up", 5e5 * t, 0.0),
        ];
        let mut value = primary(t, &paths);
        value["sessions"][0]["streams_open"] = STREAMS.into();
        value["transfers"] = streams.clone();
        value
    });
    let console = Console::start(daemon.place());
    let mut page = console.connect();
    let head = format!(
        "GET /stream HTTP/1.1\r\nHost: localhost:{}\r\n{}\r\n",
        console.port,
        console.bearer()
    );
    page.write_all(head.as_bytes()).unwrap();
    let (mut block, mut text, mut frames) = (vec![0; 1 << 16], String::new(), 0);
    let deadline = Instant::now() + Duration::from_secs(120);
    while frames < FRAMES {
        assert!(Instant::now() < deadline, "{frames} frames");
        let octets = page.read(&mut block).unwrap();
        assert_ne!(octets, 0, "it ends after {frames} frames");
        text.push_str(&String::from_utf8_lossy(&block[..octets]));
        while let Some((line, rest)) = text.split_once('\n') {
            frames += usize::from(line.contains("\"sample\":{"));
            text = rest.to_owned();
        }
    }
    let (now, peak) = (kb(&console, "VmRSS:"), kb(&console, "VmHWM:"));
    println!("figure: console with {STREAMS} streams: {now} kB, at its peak {peak} kB");
    assert!(peak < MAX_KB, "{peak} kB");
}
