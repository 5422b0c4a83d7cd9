//! Time of probes' packets in parts of the kernel (delay measurement paper, section 5.9 and Table
//! 6), while probes go over a chain of hosts: by trace points at the ends of the parts, and by
//! kprobes on the functions of Table 6, which a kernel may lack.

mod functions;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::{Doing, Result};
use crate::report::SheetTable;
use mpbond_units::duration_text;
use serde::Deserialize;

use self::functions::Times;
use super::busy::{self, Busy, MAX_BUSY};
use super::child;
use super::outcome::Outcome;

/// Probes in a short run.
const QUICK: u32 = 30;
const PORT: u16 = 80;
const SERVER: &str = "100.64.78.3";
/// First hop of the chain: played in user space, or a veth pair, whose driver calls netif_rx.
const PLAYED: &str = "bus:200 Mbit/s:0ms";
const WIRE: &str = "bus:wire";
/// Parts by their names in `mpbond trace net`, and the corresponding functions of the delay
/// measurement paper.
const PARTS: [(&str, &str); 5] = [
    ("queue", "dev_queue_xmit, until the driver is asked"),
    ("driver-out", "dev_queue_xmit, the driver"),
    (
        "stack",
        "netif_rx, ip_rcv, tcp_v4_rcv, tcp_ack, until the reader is woken",
    ),
    ("run-queue", "until it runs"),
    ("copy", "until it has the bytes (recvfrom)"),
];
/// Parts in which the kernel works instead of waiting for a processor.
const WORK: [&str; 3] = ["queue", "driver-out", "stack"];

/// Parameters of the measurement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kernel {
    /// Number of HTTP requests on an open connection.
    probes: u32,
    #[serde(with = "duration_text")]
    interval: Duration,
    /// Round-trip time of the network.
    rtt_ms: u32,
}

/// One part, in µs.
#[derive(Debug, PartialEq, Deserialize)]
struct Part {
    step: String,
    packets: u64,
    mean_us: f64,
    median_us: f64,
    p99_us: f64,
}

impl Kernel {
    pub(super) fn check(&self) -> Result<(), String> {
        if !(10..=10_000).contains(&self.probes) {
            return Err("probes: 10 to 10000".to_owned());
        }
        if !(1..=1000).contains(&self.interval.as_millis()) || !(1..=1000).contains(&self.rtt_ms) {
            return Err("interval and rtt_ms: 1 ms to 1 s".to_owned());
        }
        Ok(())
    }

    pub(super) fn keys(&self) -> Vec<String> {
        let names = PARTS.iter().map(|(name, _)| *name);
        let of = |name: &str| ["mean", "median", "p99"].map(|of| format!("{name} {of}_us"));
        let functions = functions::FUNCTIONS.iter().map(|(_, name, _)| *name);
        let all = names.chain(functions).flat_map(of);
        all.chain(["work mean_us".to_owned()]).collect()
    }

    pub(super) fn measure(&self, quick: bool) -> Result<Outcome> {
        let folder = tempfile::tempdir().doing("cannot make a temporary folder")?;
        let mut outcome = Outcome::default();
        let before = Busy::now();
        match self.parts(quick, folder.path()) {
            Ok(parts) => {
                let waited = busy::since(before).is_none_or(|busy| busy > MAX_BUSY);
                take_parts(&parts, waited, &mut outcome);
            }
            Err(why) => outcome.notes.push(format!("not measured: {why}")),
        }
        match self.functions(quick, folder.path()) {
            Ok(functions) => take_functions(&functions, &mut outcome),
            Err(why) => outcome.notes.push(format!(
                "functions of Table 6: not measurable on this host: {why}"
            )),
        }
        Ok(outcome)
    }

    fn parts(&self, quick: bool, folder: &Path) -> Result<Vec<Part>, String> {
        let own = own()?;
        let trace = folder.join("trace.txt").display().to_string();
        let recorded = child::traced()
            .args([&own, "trace", "record", "--events", "sched,net,tcp", "-o"])
            .args([&trace, "--", &own])
            .args(self.chain(&own, PLAYED, "http", quick))
            .stdin(Stdio::null())
            .output()
            .map_err(|e| e.to_string())?;
        if !recorded.status.success() {
            return Err(last_line(&recorded.stderr));
        }
        let told = Command::new(&own)
            .args(["trace", "net", &trace, "--json", "--quiet"])
            .stdin(Stdio::null())
            .output()
            .map_err(|e| e.to_string())?;
        if !told.status.success() {
            return Err(last_line(&told.stderr));
        }
        parts(&told.stdout)
    }

    fn functions(
        &self,
        quick: bool,
        folder: &Path,
    ) -> Result<BTreeMap<&'static str, Times>, String> {
        let own = own()?;
        functions::measure(&own, &self.chain(&own, WIRE, "syn http", quick), folder)
    }

    /// Arguments that run probes by some methods, one after the other, over a chain of hosts.
    fn chain(&self, own: &str, first: &str, methods: &str, quick: bool) -> Vec<String> {
        let probes = if quick { QUICK } else { self.probes };
        let half = f64::from(self.rtt_ms) / 2.0;
        let interval = self.interval.as_millis();
        let at = format!("2={own} probe-server --listen 0.0.0.0:{PORT}");
        // The sleep gives the server time to listen before the first probe.
        let script = format!(
            "sleep 0.5; for method in {methods}; do \"$0\" probe {SERVER}:{PORT} --method $method \
             --count {probes} --interval {interval}ms || exit; done"
        );
        let air = format!("air:54 Mbit/s:{half}ms");
        let all = ["lab", "chain", "--hop", first, "--hop", &air, "--at", &at];
        let all = all.into_iter().chain(["--", "/bin/sh", "-c", &script, own]);
        all.map(str::to_owned).collect()
    }
}

fn own() -> Result<String, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    Ok(own.display().to_string())
}

/// Adds the table of the parts, and their figures if the packets have not waited for a processor.
fn take_parts(parts: &[Part], waited: bool, outcome: &mut Outcome) {
    let mut figures = BTreeMap::new();
    let mut table = SheetTable {
        title: "A packet's time in the kernel, us".to_owned(),
        note: "by trace points with stamps of whole us, at all hosts of the chain; whatever \
               else this machine sends is in it. run-queue and copy are of readers, some of \
               which the links are"
            .to_owned(),
        header: ["part", "functions", "packets", "mean", "median", "99 %"]
            .map(str::to_owned)
            .to_vec(),
        words: vec![0, 1],
        ..SheetTable::default()
    };
    for (name, functions) in PARTS {
        let Some(part) = parts.iter().find(|p| p.step == name) else {
            continue;
        };
        let all = [part.mean_us, part.median_us, part.p99_us];
        for (of, us) in ["mean", "median", "p99"].into_iter().zip(all) {
            figures.insert(format!("{name} {of}_us"), Some(us));
        }
        let head = [name, functions].map(str::to_owned).into_iter();
        let head = head.chain([part.packets.to_string()]);
        let cells = all.map(|us| format!("{us:.2}"));
        table.rows.push(head.chain(cells).collect());
    }
    outcome.tables.push(table);
    if waited {
        let note = "packets by trace points: the machine was busy: not judged";
        outcome.notes.push(note.to_owned());
        return;
    }
    let mean = |name: &&str| figures.get(&format!("{name} mean_us"));
    let work: Option<Vec<f64>> = WORK.iter().map(|name| mean(name).copied()?).collect();
    let work = work.map(|all| all.iter().sum());
    figures.insert("work mean_us".to_owned(), work);
    outcome.figures.extend(figures);
}

/// Adds the figures and the table of the functions.
fn take_functions(functions: &BTreeMap<&'static str, Times>, outcome: &mut Outcome) {
    let mut table = SheetTable {
        title: "Functions of Table 6, us".to_owned(),
        note:
            "by kprobes at entry and return, with stamps of whole us, at all hosts of the chain; a \
               function contains those that it calls, and the kprobes on them"
                .to_owned(),
        header: ["function", "system call", "calls", "mean", "median", "99 %"]
            .map(str::to_owned)
            .to_vec(),
        words: vec![0, 1],
        ..SheetTable::default()
    };
    for (call, name, _) in functions::FUNCTIONS {
        let Some(times) = functions.get(name) else {
            let note = format!("{name}: no call, or no kprobe possible");
            outcome.notes.push(note);
            continue;
        };
        let all = [times.mean, times.median, times.p99];
        for (of, us) in ["mean", "median", "p99"].into_iter().zip(all) {
            outcome.figures.insert(format!("{name} {of}_us"), Some(us));
        }
        let head = [name.to_owned(), call.to_owned(), times.calls.to_string()];
        let cells = all.map(|us| format!("{us:.1}"));
        table.rows.push(head.into_iter().chain(cells).collect());
    }
    outcome.tables.push(table);
    if let Some(processor) = functions::emulated() {
        outcome.notes.push(format!(
            "functions of Table 6: the processor is emulated ({processor}): compare them with each \
             other, not with the published times"
        ));
    }
}

/// The parts in the output of `mpbond trace net --json`.
fn parts(json: &[u8]) -> Result<Vec<Part>, String> {
    let all: Vec<Part> =
        serde_json::from_slice(json).map_err(|e| format!("mpbond trace net: {e}"))?;
    match all.is_empty() {
        true => Err("the trace has no packets".to_owned()),
        false => Ok(all),
    }
}

fn last_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    said.lines().last().unwrap_or("it failed").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read() {
        let json = b"[{\"step\":\"queue\",\"packets\":3,\"mean_us\":0.5,\"median_us\":0.0,\
                     \"p99_us\":1.0,\"max_us\":9.0,\"percent\":1.0}]";
        let queue = Part {
            step: "queue".to_owned(),
            packets: 3,
            mean_us: 0.5,
            median_us: 0.0,
            p99_us: 1.0,
        };
        assert_eq!(parts(json), Ok(vec![queue]));
        assert!(parts(b"[]").is_err() && parts(b"{}").is_err());
    }

    #[test]
    fn packets_that_wait_for_a_processor_are_not_judged() {
        let part = |step: &str| Part {
            step: step.to_owned(),
            packets: 3,
            mean_us: 1.5,
            median_us: 115.0,
            p99_us: 1.0,
        };
        let all = WORK.map(part);
        for (waited, work) in [(false, Some(&Some(4.5))), (true, None)] {
            let mut outcome = Outcome::default();
            take_parts(&all, waited, &mut outcome);
            assert_eq!(outcome.figures.get("work mean_us"), work);
            assert_eq!(outcome.figures.is_empty(), waited);
            assert_eq!(outcome.notes.len(), usize::from(waited));
            assert_eq!(outcome.tables[0].rows.len(), 3);
        }
    }
}
