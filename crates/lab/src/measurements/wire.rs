//! Difference between the kernel's timestamps and the wire: probes over a cable between two hosts,
//! with a tap at its other end, while other programs fill the processors of the probing host.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::error::{Doing, Result};
use crate::report::SheetTable;
use mpbond_probe::Distribution;
use mpbond_units::duration_text;
use serde::Deserialize;
use serde_json::Value;

use super::busy::{self, Busy};
use super::child;
use super::outcome::Outcome;

/// Number of first probes that are left out: they resolve addresses and open connections.
const FIRST: u64 = 3;
/// Probes of each case in a short run.
const QUICK: u32 = 20;
const PORT: u16 = 80;
const SERVER: &str = "100.64.78.3";

/// Parameters of the measurement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wires {
    /// Number of probes of each case.
    probes: u32,
    /// Round-trip time of the network behind the cable, ms.
    rtt_ms: u32,
    #[serde(rename = "case")]
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    method: Method,
    #[serde(with = "duration_text")]
    interval: Duration,
    /// Other programs at the probing host.
    #[serde(default)]
    load: Load,
}

/// Methods whose packets the kernel timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Method {
    Icmp,
    Udp,
    Http,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Load {
    /// No other programs.
    #[default]
    None,
    /// Four programs for each processor that compute without end.
    Compute,
    /// Four programs for each processor that call the kernel without end.
    Ask,
}

impl Load {
    const EACH: usize = 4;

    fn command(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Compute => Some("sh -c 'while :; do :; done'"),
            Self::Ask => Some("dd if=/dev/zero of=/dev/null bs=1 status=none"),
        }
    }
}

/// Statistics of |d_k − d_n|, of Δd_k and of Δd_u, in µs; two shares follow.
const DISTANCES: [&str; 4] = ["median", "p95", "p99", "max"];

impl Case {
    fn key(&self, figure: &str) -> String {
        format!("{}: {figure}", self.name)
    }
}

/// One probe, in µs.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Three {
    user: f64,
    kernel: f64,
    wire: f64,
}

/// The probes of a case.
struct Measured {
    all: Vec<Three>,
    /// Number of answered probes without a timestamp or without their packets in the capture.
    unmatched: u64,
    lost: u64,
    busy_share: Option<f64>,
}

impl Wires {
    pub(super) fn check(&self) -> Result<(), String> {
        if !(10..=100_000).contains(&self.probes) {
            return Err("probes: 10 to 100000".to_owned());
        }
        if !(1..=1000).contains(&self.rtt_ms) {
            return Err("rtt_ms: 1 to 1000".to_owned());
        }
        if self.cases.is_empty() {
            return Err("a case at least".to_owned());
        }
        let wrong = |c: &&Case| !(1..=10_000).contains(&c.interval.as_millis());
        match self.cases.iter().find(wrong) {
            Some(c) => Err(format!("case \"{}\": the interval is 1 ms to 10 s", c.name)),
            None => Ok(()),
        }
    }

    pub(super) fn keys(&self) -> Vec<String> {
        let mut all = Vec::new();
        for case in &self.cases {
            all.extend(DISTANCES.map(|of| case.key(&format!("distance {of}_us"))));
            all.extend(["median", "p99"].map(|of| case.key(&format!("delta_d_u {of}_us"))));
            all.extend(["matched_share", "busy_share"].map(|of| case.key(of)));
        }
        all
    }

    pub(super) fn measure(&self, quick: bool) -> Result<Outcome> {
        let folder = tempfile::tempdir().doing("cannot make a temporary folder")?;
        let mut outcome = Outcome::default();
        let mut table = SheetTable {
            title: "The kernel's round trip and the wire's, us".to_owned(),
            note: "distance: |d_k - d_n|, with d_k by SO_TIMESTAMPING and d_n by a tap at the \
                   cable's other end; Δd_u = d_u - d_k is what user space adds, which \
                    the load makes large"
                .to_owned(),
            header: [
                "case",
                "probes",
                "lost",
                "busy, %",
                "distance, median",
                "95 %",
                "99 %",
                "max",
                "d_k - d_n, median",
                "Δd_u, median",
                "99 %",
            ]
            .map(str::to_owned)
            .to_vec(),
            words: vec![0],
            ..SheetTable::default()
        };
        for case in &self.cases {
            let measured = match self.once(case, quick, folder.path()) {
                Ok(measured) => measured,
                Err(why) => {
                    let name = &case.name;
                    outcome.notes.push(format!("{name}: not measured: {why}"));
                    continue;
                }
            };
            let of = |pick: &dyn Fn(&Three) -> f64| {
                Distribution::of(measured.all.iter().map(pick).collect())
            };
            let parts = [
                of(&|t| (t.kernel - t.wire).abs()),
                of(&|t| t.kernel - t.wire),
                of(&|t| t.user - t.kernel),
            ];
            let [Some(distance), Some(signed), Some(user)] = parts else {
                let name = &case.name;
                outcome
                    .notes
                    .push(format!("{name}: no probe has both stamps"));
                continue;
            };
            let found = measured.all.len() as f64;
            let matched = found / (found + measured.unmatched as f64);
            let far = [distance.median, distance.p95, distance.p99, distance.max];
            let mut put = |figure: String, value: Option<f64>| {
                outcome.figures.insert(case.key(&figure), value);
            };
            for (of, us) in DISTANCES.into_iter().zip(far) {
                put(format!("distance {of}_us"), Some(us));
            }
            put("delta_d_u median_us".to_owned(), Some(user.median));
            put("delta_d_u p99_us".to_owned(), Some(user.p99));
            put("matched_share".to_owned(), Some(matched));
            put("busy_share".to_owned(), measured.busy_share);
            let busy = measured
                .busy_share
                .map_or("-".to_owned(), |b| format!("{:.0}", b * 100.0));
            let head = [
                case.name.clone(),
                measured.all.len().to_string(),
                measured.lost.to_string(),
                busy,
            ];
            let cells = far
                .into_iter()
                .chain([signed.median, user.median, user.p99]);
            let cells = cells.map(|us| format!("{us:.2}"));
            table.rows.push(head.into_iter().chain(cells).collect());
        }
        outcome.tables.push(table);
        Ok(outcome)
    }

    fn once(&self, case: &Case, quick: bool, folder: &Path) -> Result<Measured, String> {
        let probes = if quick { QUICK } else { self.probes } + FIRST as u32;
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let own = own.display().to_string();
        let taps = folder.join("taps");
        let lines = folder.join("probes.jsonl");
        let _ = std::fs::remove_dir_all(&taps);
        let (target, method) = match case.method {
            Method::Icmp => (SERVER.to_owned(), "icmp"),
            Method::Udp => (format!("{SERVER}:{PORT}"), "udp"),
            Method::Http => (format!("{SERVER}:{PORT}"), "http"),
        };
        let mut command = Command::new(&own);
        command
            .args(["lab", "chain", "--hop", "cable:wire"])
            .args([
                "--hop",
                &format!("net:100 Mbit/s:{}ms", f64::from(self.rtt_ms) / 2.0),
            ])
            .args(["--taps", &taps.display().to_string()])
            .args([
                "--at",
                &format!("2={own} probe-server --listen 0.0.0.0:{PORT}"),
            ]);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        if let Some(what) = case.load.command() {
            for _ in 0..processors * Load::EACH {
                command.args(["--at", &format!("0={what}")]);
            }
        }
        command
            .arg("--")
            // The sleep gives the server time to listen before the first probe.
            .args(["/bin/sh", "-c", "sleep 1; exec \"$@\"", "sh"])
            .args([own.as_str(), "probe", &target, "--method", method, "--json"])
            .args(["--count", &probes.to_string()])
            .args(["--interval", &format!("{}ms", case.interval.as_millis())]);
        let before = Busy::now();
        // Exit code 4: the network behind the cable was late, which affects both clocks equally.
        let ended = child::run(&mut command, &[0, 1, 4])?;
        let busy_share = busy::since(before);
        if ended.code == 1 {
            return Err("no probe was answered".to_owned());
        }
        std::fs::write(&lines, &ended.stdout).map_err(|e| e.to_string())?;
        let mut matching = Command::new(&own);
        matching
            .args(["capture", "delay", "--json"])
            .arg(taps.join("cable-b.pcap"))
            .arg("--probes")
            .arg(&lines);
        let matched = child::run(&mut matching, &[0])?;
        let mut measured = matched_probes(&matched.stdout);
        measured.busy_share = busy_share;
        Ok(measured)
    }
}

/// The probes in the output of `mpbond capture delay --json`, without the first ones.
fn matched_probes(text: &str) -> Measured {
    let mut measured = Measured {
        all: Vec::new(),
        unmatched: 0,
        lost: 0,
        busy_share: None,
    };
    let lines = text
        .lines()
        .filter_map(|l| serde_json::from_str::<Value>(l).ok());
    for line in lines {
        let Some(seq) = line.get("seq").and_then(Value::as_u64) else {
            continue;
        };
        if seq < FIRST {
            continue;
        }
        let us = |of: &str| line.get(of)?.as_f64();
        if line.get("lost").and_then(Value::as_bool) == Some(true) {
            measured.lost += 1;
            continue;
        }
        match (us("d_u_us"), us("d_k_us"), us("d_n_us")) {
            (Some(user), Some(kernel), Some(wire)) => {
                measured.all.push(Three { user, kernel, wire })
            }
            _ => measured.unmatched += 1,
        }
    }
    measured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_without_a_stamp_count_against_it() {
        let text = "{\"seq\":0,\"d_u_us\":9.0,\"d_k_us\":8.0,\"d_n_us\":7.0,\"lost\":false}\n\
                    {\"seq\":3,\"d_u_us\":30.0,\"d_k_us\":20.5,\"d_n_us\":20.0,\"lost\":false}\n\
                    {\"seq\":4,\"d_u_us\":30.0,\"d_k_us\":null,\"d_n_us\":20.0,\"lost\":false}\n\
                    {\"seq\":5,\"d_u_us\":null,\"d_k_us\":null,\"d_n_us\":null,\"lost\":true}\n\
                    {\"summary\":{}}\n";
        let m = matched_probes(text);
        let one = Three {
            user: 30.0,
            kernel: 20.5,
            wire: 20.0,
        };
        assert_eq!((m.all, m.unmatched, m.lost), (vec![one], 1, 1));
    }
}
