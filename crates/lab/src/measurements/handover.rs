//! Phases of handovers from Bluetooth to WiFi (Wear OS paper, section 6.3): the old network is
//! silent (P1), it is gone (P2), the new one exists (P3), it carries data (P4), with the camera's
//! traffic. The logs of `mpbond traffic` are split into phases as a phone's would be.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;

use crate::error::{Doing, Result};
use crate::report::SheetTable;
use mpbond_capture::delay::{Phases, phases};
use serde::Deserialize;
use serde_json::Value;

use super::child;
use super::outcome::Outcome;

/// Hosts and links; the script makes the changes.
const HOSTS: &str = include_str!("handover.toml");
/// Changes of the host's networks.
const SCRIPT: &str = include_str!("handover.sh");
/// Time with traffic before the first phase.
const BEFORE_S: f64 = 3.0;
/// Time after the last phase, for the application to notice it and for traffic to continue.
const AFTER_S: f64 = 8.0;

/// Means over the repetitions: each measured phase, the largest difference from the played phases,
/// and the gap in the application's data.
pub(super) const KEYS: [&str; 7] = [
    "p1_s",
    "p2_s",
    "p3_s",
    "p4_s",
    "gap_s",
    "worst_error_s",
    "missing_share",
];

/// Parameters of the measurement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Handover {
    repetitions: u32,
    /// Duration of P1: connected, without data.
    p1_s: f64,
    /// Duration of P2: no network.
    p2_s: f64,
    /// Duration of P3: a new network without an address.
    p3_s: f64,
    /// `mpbond traffic client --stall`.
    stall_s: f64,
}

impl Handover {
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=100).contains(&self.repetitions) {
            return Err("repetitions: 1 to 100".to_owned());
        }
        let spans = [self.p1_s, self.p2_s, self.p3_s, self.stall_s];
        if spans.iter().any(|s| !(0.5..=120.0).contains(s)) {
            return Err("phases and stall take 0.5 to 120 s".to_owned());
        }
        Ok(())
    }

    pub(super) fn measure(&self, quick: bool) -> Result<Outcome> {
        let folder = tempfile::tempdir().doing("cannot make a temporary folder")?;
        let faster = if quick { 5.0 } else { 1.0 };
        let played = [self.p1_s, self.p2_s, self.p3_s].map(|s| (s / faster).max(0.5));
        let mut table = SheetTable {
            title: "Each handover, s".to_owned(),
            note: "from the logs of `mpbond traffic client` (--states, --app-bytes), by `mpbond \
                   capture owd`; the gap is the application's"
                .to_owned(),
            header: ["repetition", "P1", "P2", "P3", "P4", "gap", "missing"]
                .map(str::to_owned)
                .to_vec(),
            ..SheetTable::default()
        };
        let mut outcome = Outcome::default();
        let mut all = Vec::new();
        let count = if quick { 1 } else { self.repetitions };
        for n in 1..=count {
            match self.once(played, folder.path()) {
                Ok((p, gap_s, missing)) => {
                    let cells = [p.p1_s, p.p2_s, p.p3_s, p.p4_s, gap_s].map(|s| format!("{s:.3}"));
                    let cells = [n.to_string()].into_iter().chain(cells);
                    table
                        .rows
                        .push(cells.chain([missing.to_string()]).collect());
                    all.push((p, gap_s, missing));
                }
                Err(why) => outcome
                    .notes
                    .push(format!("repetition {n}: not measured: {why}")),
            }
        }
        outcome.tables.push(table);
        // A mean over some of the repetitions would be another quantity.
        if all.len() < count as usize {
            return Ok(outcome);
        }
        let mean = |pick: &dyn Fn(&(Phases, f64, u64)) -> f64| {
            Some(all.iter().map(pick).sum::<f64>() / all.len() as f64)
        };
        let error = |p: &Phases| {
            let pairs = [p.p1_s, p.p2_s, p.p3_s].into_iter().zip(played);
            pairs
                .map(|(found, was)| (found - was).abs())
                .fold(0.0, f64::max)
        };
        let values = [
            mean(&|a| a.0.p1_s),
            mean(&|a| a.0.p2_s),
            mean(&|a| a.0.p3_s),
            mean(&|a| a.0.p4_s),
            mean(&|a| a.1),
            Some(all.iter().map(|a| error(&a.0)).fold(0.0, f64::max)),
            mean(&|a| if a.2 > 0 { 1.0 } else { 0.0 }),
        ];
        outcome.figures = KEYS.map(str::to_owned).into_iter().zip(values).collect();
        Ok(outcome)
    }

    /// The phases, the application's longest gap, and the number of lost chunks.
    fn once(&self, played: [f64; 3], folder: &Path) -> Result<(Phases, f64, u64), String> {
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let own = own.display().to_string();
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            let done = std::fs::write(&path, text).map_err(|e| e.to_string());
            done.map(|()| path.display().to_string())
        };
        let hosts = write("handover.toml", HOSTS)?;
        let script = write("handover.sh", SCRIPT)?;
        let duration = BEFORE_S + played.iter().sum::<f64>() + AFTER_S;
        let place = |name: &str| folder.join(name).display().to_string();
        let (states, app) = (place("states.csv"), place("app.csv"));
        let mut command = Command::new(&own);
        command
            .args(["lab", "shell", &hosts, "primary"])
            .args([
                "--at",
                &format!("origin={own} traffic server --listen 0.0.0.0:7008"),
            ])
            .args(["--", "/bin/sh", &script])
            .args([BEFORE_S, played[0], played[1], played[2]].map(|s| s.to_string()))
            .args([
                &own,
                "traffic",
                "client",
                "198.51.100.1",
                "--workload",
                "chunks",
            ])
            .args(["--duration", &format!("{duration}s")])
            .args(["--stall", &format!("{}s", self.stall_s), "--json"])
            .args(["--states", &states, "--app-bytes", &app]);
        let ended = child::run(&mut command, &[0, 1])?;
        let last = ended.stdout.lines().last().unwrap_or_default();
        let summary: Value = serde_json::from_str(last).map_err(|_| ended.stderr)?;
        let down = &summary["summary"]["down"];
        let gap_s = down["gaps"]["longest_s"]
            .as_f64()
            .ok_or("the output has no gaps")?;
        let missing = down["missing"].as_u64().ok_or("the run has no end")?;
        let open = |path: &str| {
            let file = File::open(path).map_err(|e| format!("{path}: {e}"));
            file.map(BufReader::new)
        };
        let report = phases((&states, open(&states)?), (&app, open(&app)?));
        let report = report.map_err(|e| e.to_string())?;
        match report.handovers.as_slice() {
            [one] => Ok((one.phases, gap_s, missing)),
            other => Err(format!("{} handovers instead of one", other.len())),
        }
    }
}
