//! Hardware counters, through the program perf: a group that is sampled together, so that ratios
//! are of the same code (MobiSys '16 paper, section 4, *Microarchitectural behaviors*).

use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Counters of the MobiSys '16 paper's Figure 6, most important first. All ratios need the first
/// two.
const EVENTS: [&str; 10] = [
    "cycles",
    "instructions",
    "branches",
    "branch-misses",
    "L1-icache-load-misses",
    "L1-dcache-load-misses",
    "LLC-loads",
    "LLC-load-misses",
    "iTLB-load-misses",
    "dTLB-load-misses",
];

/// Counters of this machine; an error where those needed for ratios are missing.
pub(crate) fn available() -> Result<Vec<&'static str>, String> {
    let mut there = Vec::new();
    let mut said = String::new();
    for event in EVENTS {
        let output = Command::new("perf")
            .args(["stat", "-x,", "-e", event, "--", "true"])
            .env("LC_ALL", "C")
            .output()
            .map_err(|e| format!("perf cannot be run ({e}); Debian has it in linux-perf"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        // "1234,,cycles,…" where it counts, "<not supported>,,cycles,…" where it does not.
        let counts = text.lines().any(|l| {
            l.contains(event)
                && l.split(',')
                    .next()
                    .is_some_and(|n| n.parse::<u64>().is_ok())
        });
        if output.status.success() && counts {
            there.push(event);
        } else if said.is_empty() {
            said = text
                .lines()
                .find(|l| !l.trim().is_empty())
                .unwrap_or("")
                .trim()
                .to_owned();
        }
    }
    for needed in &EVENTS[..2] {
        if !there.contains(needed) {
            return Err(format!(
                "perf counts no {needed} here (most virtual machines have no hardware counters, and kernel.perf_event_paranoid may forbid them): {said}"
            ));
        }
    }
    Ok(there)
}

/// perf, sampling all CPUs; stopped when dropped.
#[derive(Debug)]
pub(crate) struct Sampler(Child);

impl Sampler {
    pub(crate) fn start(file: &Path, events: &[&str]) -> Result<Self, String> {
        let group = format!("{{{}}}:S", events.join(","));
        Command::new("perf")
            .args(["record", "--quiet", "--all-cpus", "-k", "mono", "-e"])
            .args([&group, "-o"])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map(Self)
            .map_err(|e| format!("perf cannot be run: {e}"))
    }

    /// Waits until its file is complete.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        self.interrupt();
        let status = self.0.wait().map_err(|e| format!("perf: {e}"))?;
        match status.code() {
            // It may report that it ended by the signal.
            Some(0 | 130) | None => Ok(()),
            Some(code) => Err(format!("perf record ended with code {code}")),
        }
    }

    /// Signal on which it completes its file.
    fn interrupt(&mut self) {
        if let (Ok(None), Ok(pid)) = (self.0.try_wait(), i32::try_from(self.0.id())) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGINT);
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.interrupt();
    }
}
