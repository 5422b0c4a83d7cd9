//! Time of probes' packets in parts of the kernel (delay measurement paper, section 5.9 and Table
//! 6), by trace points, while probes go over a chain of hosts. The paper used kprobes, which a
//! kernel may lack; trace points exist at the ends of the same parts.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::{Doing, Result};
use crate::report::SheetTable;
use mpbond_units::duration_text;
use serde::Deserialize;

use super::outcome::Outcome;

/// Probes in a short run.
const QUICK: u32 = 30;
const PORT: u16 = 80;
const SERVER: &str = "100.64.78.3";
/// Parts by their names in `mpbond trace net`, and the corresponding functions of the paper.
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
        names
            .flat_map(of)
            .chain(["work mean_us".to_owned()])
            .collect()
    }

    pub(super) fn measure(&self, quick: bool) -> Result<Outcome> {
        let folder = tempfile::tempdir().doing("cannot make a temporary folder")?;
        let mut outcome = Outcome::default();
        let parts = match self.once(quick, folder.path()) {
            Ok(parts) => parts,
            Err(why) => {
                outcome.notes.push(format!("not measured: {why}"));
                return Ok(outcome);
            }
        };
        let mut table = SheetTable {
            title: "A packet's time in the kernel, us".to_owned(),
            note: "by trace points with stamps of whole us, at all hosts of the chain; whatever \
                   else this machine sends is in it. run-queue and copy are of readers, some of \
                   which the links are"
                .to_owned(),
            header: [
                "part",
                "of the paper's",
                "packets",
                "mean",
                "median",
                "99 %",
            ]
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
                outcome.figures.insert(format!("{name} {of}_us"), Some(us));
            }
            let head = [name, functions].map(str::to_owned).into_iter();
            let head = head.chain([part.packets.to_string()]);
            let cells = all.map(|us| format!("{us:.2}"));
            table.rows.push(head.chain(cells).collect());
        }
        outcome.tables.push(table);
        let mean = |name: &&str| outcome.figures.get(&format!("{name} mean_us"));
        let work: Option<Vec<f64>> = WORK.iter().map(|name| mean(name).copied()?).collect();
        let work = work.map(|all| all.iter().sum());
        outcome.figures.insert("work mean_us".to_owned(), work);
        Ok(outcome)
    }

    fn once(&self, quick: bool, folder: &Path) -> Result<Vec<Part>, String> {
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let own = own.display().to_string();
        let probes = if quick { QUICK } else { self.probes }.to_string();
        let trace = folder.join("trace.txt").display().to_string();
        let half = f64::from(self.rtt_ms) / 2.0;
        let recorded = Command::new(&own)
            .args(["trace", "record", "--events", "sched,net,tcp", "-o", &trace])
            .args(["--", &own, "lab", "chain"])
            .args(["--hop", "bus:200 Mbit/s:0ms"])
            .args(["--hop", &format!("air:54 Mbit/s:{half}ms")])
            .args([
                "--at",
                &format!("2={own} probe-server --listen 0.0.0.0:{PORT}"),
            ])
            // The sleep gives the server time to listen before the first probe.
            .args(["--", "/bin/sh", "-c", "sleep 0.5; exec \"$@\"", "sh"])
            .args([&own, "probe", &format!("{SERVER}:{PORT}"), "--method"])
            .args(["http", "--count", &probes, "--interval"])
            .arg(format!("{}ms", self.interval.as_millis()))
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
}
