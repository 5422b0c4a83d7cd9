//! The report of a long trace: times from a key to the picture that it changes.
//!
//! A measurement, which needs minutes and room for 1 GB (`TMPDIR`):
//! `cargo test -p mpbond-lab-cli --test reports -- --ignored --nocapture long_trace`

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Instant;

use mpbond_testing::browser::Page;
use mpbond_testing::{Need, sample};
use serde_json::Value;

use crate::{LAB, SHOW, browse_as_it_is};

/// Recording of a phone with four processors, 9 s.
const SAMPLE: &str = "perfetto/ms_cpu_sampling_not_scoped.pftrace";
const BYTES: usize = 1_000_000_000;
const EVENTS: u64 = 10_000_000;
const MAX_MS: f64 = 100.0;

/// Fields of a Perfetto trace that have a time, as paths of field numbers: of a packet, of an
/// ftrace event in its bundle, of a reading of a clock.
const TIMES: [&[u64]; 3] = [&[1, 8], &[1, 1, 2, 1], &[1, 6, 1, 2]];

/// In the page: waits for the picture after each key, and notes how long it took since the key, and
/// the longest task of at least 50 ms.
const MEASURE: &str = "window.times = []; window.longest = 0; \
    addEventListener('keydown', e => requestAnimationFrame(() => requestAnimationFrame(() => \
      times.push([e.key, performance.now() - e.timeStamp]))), true); \
    new PerformanceObserver(list => list.getEntries().forEach(e => { \
      window.longest = Math.max(window.longest, e.duration); })).observe({ type: 'longtask' });";

fn varint(from: &[u8], at: &mut usize) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = from[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

fn put_varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Copies a message of protobuf with all its times increased.
fn later(message: &[u8], path: &mut Vec<u64>, by_ns: u64, to: &mut Vec<u8>) {
    let mut at = 0;
    while at < message.len() {
        let key = varint(message, &mut at);
        put_varint(key, to);
        path.push(key >> 3);
        match key & 7 {
            0 => {
                let value = varint(message, &mut at);
                let is_time = TIMES.contains(&path.as_slice());
                put_varint(if is_time { value + by_ns } else { value }, to);
            }
            2 => {
                let length = varint(message, &mut at) as usize;
                let part = &message[at..at + length];
                at += length;
                if TIMES.iter().any(|time| time.starts_with(path)) {
                    let mut inner = Vec::with_capacity(length + 64);
                    later(part, path, by_ns, &mut inner);
                    put_varint(inner.len() as u64, to);
                    to.extend(inner);
                } else {
                    put_varint(length as u64, to);
                    to.extend_from_slice(part);
                }
            }
            kind => {
                let length = if kind == 1 { 8 } else { 4 };
                to.extend_from_slice(&message[at..at + length]);
                at += length;
            }
        }
        path.pop();
    }
}

/// Writes a recording of 1 GB: the sample again and again, each time later. Returns its length.
fn write_long(recorded: &[u8], span_ns: u64, file: &Path) -> usize {
    let mut to = BufWriter::new(File::create(file).unwrap());
    let (mut written, mut by_ns) = (0, 0);
    while written < BYTES {
        let mut block = Vec::with_capacity(recorded.len() * 2);
        later(recorded, &mut Vec::new(), by_ns, &mut block);
        to.write_all(&block).unwrap();
        written += block.len();
        by_ns += span_ns;
    }
    to.flush().unwrap();
    written
}

fn summary(file: &str) -> Value {
    serde_json::from_str(&LAB.ok(&["trace", "summary", file, "--json"])).unwrap()
}

/// Presses a key, and waits until its time is known.
fn press(page: &mut Page, key: &str) {
    let before = page.eval("times.length");
    page.press(key);
    page.until(&format!("times.length > {before}"));
}

#[test]
#[ignore = "a measurement: see the top of this file"]
fn a_long_trace_is_zoomed_and_searched_in_100_ms() {
    let Some(recorded) = sample(SAMPLE) else {
        return Need::Samples.is_missing(SAMPLE);
    };
    browse_as_it_is(|page, folder| {
        let [file, html] = ["long.pftrace", "long.html"].map(|n| folder.join(n));
        let [trace, out] = [&file, &html].map(|path| path.to_str().unwrap());
        let span_s = summary(recorded.to_str().unwrap())["span_s"].clone();
        let span_ns = (span_s.as_f64().unwrap() * 1e9) as u64 + 1_000_000;
        let bytes = write_long(&std::fs::read(recorded).unwrap(), span_ns, &file);
        let counts = summary(trace)["events"].clone();
        let events = counts.as_object().unwrap().values();
        let events: u64 = events.map(|n| n.as_u64().unwrap()).sum();
        assert!(events >= EVENTS, "{events}");
        let start = Instant::now();
        LAB.ok(&["trace", "report", trace, "--html", out]);
        let report = start.elapsed();
        let size = std::fs::metadata(&html).unwrap().len();
        page.resize(1280, 900);
        page.run_first(MEASURE);
        let start = Instant::now();
        page.open(&html);
        let (report, open) = (report.as_secs_f64(), start.elapsed().as_secs_f64());
        println!(
            "{bytes} bytes, {events} events: report in {report:.1} s, {size} bytes, opened in \
             {open:.2} s"
        );
        page.click("#timeline");
        page.eval("window.longest = 0");
        for round in 0..3 {
            for key in ["w", "w", "w", "w", "d", "d", "a", "s", "s", "0", "/"] {
                press(page, key);
            }
            for key in ["s", "u", "r", "f", "Enter", "Enter", "Escape"] {
                press(page, key);
            }
            page.click("#timeline");
            press(page, "0");
            // The legend follows after a pause.
            page.eval("new Promise(done => setTimeout(done, 500))");
            if let Some(folder) = std::env::var_os(SHOW).filter(|_| round == 0) {
                page.save_picture(&Path::new(&folder).join("long.png"));
            }
        }
        let times = page.eval("times");
        let mut worst: f64 = 0.0;
        for time in times.as_array().unwrap() {
            let ms = time[1].as_f64().unwrap();
            println!("{:>8} {ms:6.1} ms", time[0].as_str().unwrap());
            worst = worst.max(ms);
        }
        let script = page.eval("window.longest");
        println!("longest: {worst:.1} ms; longest task of the page: {script} ms");
        assert!(worst < MAX_MS, "{worst} ms");
    });
}
