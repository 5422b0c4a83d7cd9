//! What a host adds to round trips (delay measurement paper, Tables 5 and 7, Figures 8 and 13): probes
//! of a native program and of a Java runtime through a bus that may sleep and a network behind it,
//! with the clocks of user, kernel (as tcpdump sees it) and air apart.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use mpbond_lab::report::SheetTable;
use mpbond_probe::Distribution;
use mpbond_sim::duration_text;
use serde::Deserialize;
use serde_json::Value;

use super::Outcome;
use super::tap::{Method, delays_us};
use crate::cli::failure::Failure;

const JAVA: &str = include_str!("Probe.java");
/// The first ones load classes, open connections and fill caches: they are left out.
const FIRST: usize = 3;
/// Probes where it is only to be seen that it works.
const QUICK: u32 = 8;
/// What an 802.11g network and an SDIO bus give: so fast that a probe takes no time on them.
const AIR_RATE: &str = "54 Mbit/s";
const BUS_RATE: &str = "200 Mbit/s";
const HTTP_PORT: u16 = 80;
/// Probes, links and a Java runtime that starts take a third of two processors at most.
const MAX_BUSY: f64 = 0.5;
/// Echo, as the paper's Inet ping; nobody is there.
const CLOSED_PORT: u16 = 7;

/// What is probed, and how.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Probes {
    /// Of each case, for each round trip.
    probes: u32,
    /// Round trips of the network.
    rtts_ms: Vec<u32>,
    #[serde(rename = "case")]
    cases: Vec<Case>,
}

/// One way to probe.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    program: Program,
    method: Method,
    #[serde(with = "duration_text")]
    interval: Duration,
    /// Profile of the bus; it never sleeps where there is none.
    bus: Option<String>,
    /// As `mpbond probe` has them.
    warm_up: Option<String>,
    background: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Program {
    /// `mpbond probe`.
    Native,
    /// Java's own classes.
    Java,
    /// `mpbond probe`, run by a Java program.
    JavaNative,
}

/// Mean, median and 99th percentile of each; all ms. The last is Δd_u by the kernel's own stamps,
/// which only a native program asks for.
const QUANTITIES: [&str; 4] = ["delta_d", "delta_d_u", "delta_d_k", "delta_d_u_stamps"];

fn key(case: &Case, rtt_ms: u32, quantity: &str, of: &str) -> String {
    format!("{} at {rtt_ms}: {quantity} {of}_ms", case.name)
}

/// Overheads of a case at a round trip, µs.
struct Cell {
    delta_d: Distribution,
    delta_d_u: Distribution,
    delta_d_k: Distribution,
    by_stamps: Option<Distribution>,
    /// What the network took.
    d_n: Distribution,
    lost: usize,
}

impl Probes {
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=100_000).contains(&self.probes) {
            return Err("probes: 1 to 100000".to_owned());
        }
        if self.rtts_ms.is_empty() || self.rtts_ms.iter().any(|r| *r == 0 || *r > 1000) {
            return Err("rtts_ms: some of 1 to 1000".to_owned());
        }
        if self.cases.is_empty() {
            return Err("a case at least".to_owned());
        }
        for case in &self.cases {
            let wrong = |why: &str| Err(format!("case \"{}\": {why}", case.name));
            if !(1..=10_000).contains(&case.interval.as_millis()) {
                return wrong("the interval is 1 ms to 10 s");
            }
            match (case.program, case.method) {
                (Program::Java, Method::Icmp | Method::Syn) => {
                    return wrong("a Java program makes rst and http alone");
                }
                (Program::Java, _) if case.warm_up.is_some() || case.background.is_some() => {
                    return wrong("warm_up and background are of `mpbond probe`");
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn keys(&self) -> Vec<String> {
        let mut all = Vec::new();
        for case in &self.cases {
            for rtt in &self.rtts_ms {
                for quantity in QUANTITIES {
                    all.extend(["mean", "median", "p99"].map(|of| key(case, *rtt, quantity, of)));
                }
            }
        }
        all
    }

    pub(super) fn measure(&self, quick: bool) -> Result<Outcome, Failure> {
        let folder = tempfile::tempdir().map_err(Failure::run)?;
        let java = has_java();
        let mut outcome = Outcome::default();
        let header = |more: &[&str]| {
            let own = ["case", "RTT, ms", "probes"].into_iter();
            own.chain(more.iter().copied()).map(str::to_owned).collect()
        };
        let mut means = SheetTable {
            title: "Overheads, mean ± 95 %, ms".to_owned(),
            note:
                "Δd = d_u - d_n, Δd_u = d_u - d_k, Δd_k = d_k - d_n (equations 1 to 3); d_k by a \
                   capture at the host's device, d_n by one behind the bus"
                    .to_owned(),
            header: header(&["lost", "d_n", "Δd", "Δd_u", "Δd_k"]),
            words: vec![0],
            ..SheetTable::default()
        };
        let mut boxes = SheetTable {
            title: "Overheads, quartiles, ms".to_owned(),
            note: "25 %, median, 75 % (Figure 8's boxes), and the 99th percentile of Δd_u; by stamps: \
                   with the kernel's own, which a native program asks for"
                .to_owned(),
            header: header(&["Δd_u", "Δd_u 99 %", "Δd_k", "Δd_u by stamps", "99 %"]),
            words: vec![0],
            ..SheetTable::default()
        };
        for case in &self.cases {
            if case.program != Program::Native && !java {
                let name = &case.name;
                outcome
                    .notes
                    .push(format!("{name}: not measured, there is no java here"));
                continue;
            }
            // The shortest and the longest are enough to see that it works.
            let ends = [self.rtts_ms.first(), self.rtts_ms.last()];
            let some = |rtt: &&u32| !quick || ends.contains(&Some(*rtt));
            for rtt in self.rtts_ms.iter().filter(some) {
                let before = busy_and_all();
                let cell = match self.cell(case, *rtt, quick, folder.path()) {
                    Ok(cell) => cell,
                    Err(why) => {
                        let name = &case.name;
                        outcome
                            .notes
                            .push(format!("{name} at {rtt} ms: not measured: {why}"));
                        continue;
                    }
                };
                // What user space took says nothing where it had to wait for others. The taps have
                // real-time priority, and say themselves when they were late.
                let busy = busy_since(before);
                let waited = busy.is_none_or(|b| b > MAX_BUSY);
                if waited {
                    let busy = busy.unwrap_or(1.0) * 100.0;
                    outcome.notes.push(format!(
                        "{} at {rtt} ms: the machine was {busy:.0} % busy: Δd and Δd_u are not judged",
                        case.name
                    ));
                }
                let named = |more: Vec<String>| {
                    let n = cell.d_n.count.to_string();
                    let own = [case.name.clone(), rtt.to_string(), n];
                    own.into_iter().chain(more).collect::<Vec<_>>()
                };
                means.rows.push(named(vec![
                    cell.lost.to_string(),
                    mean(&cell.d_n),
                    mean(&cell.delta_d),
                    mean(&cell.delta_d_u),
                    mean(&cell.delta_d_k),
                ]));
                let p99 = |d: &Distribution| format!("{:.3}", d.p99 / 1e3);
                let stamps = cell.by_stamps.as_ref();
                boxes.rows.push(named(vec![
                    quartiles(&cell.delta_d_u),
                    p99(&cell.delta_d_u),
                    quartiles(&cell.delta_d_k),
                    stamps.map_or("-".to_owned(), quartiles),
                    stamps.map_or("-".to_owned(), p99),
                ]));
                let all = [&cell.delta_d, &cell.delta_d_u, &cell.delta_d_k].map(Some);
                let all = all.into_iter().chain([stamps]);
                for (quantity, d) in QUANTITIES.into_iter().zip(all) {
                    let Some(d) = d else { continue };
                    if waited && quantity != "delta_d_k" {
                        continue;
                    }
                    for (of, us) in [("mean", d.mean), ("median", d.median), ("p99", d.p99)] {
                        let key = key(case, *rtt, quantity, of);
                        outcome.figures.insert(key, Some(us / 1e3));
                    }
                }
            }
        }
        outcome.tables = vec![means, boxes];
        Ok(outcome)
    }

    fn cell(&self, case: &Case, rtt_ms: u32, quick: bool, folder: &Path) -> Result<Cell, String> {
        let probes = if quick { QUICK } else { self.probes } + FIRST as u32;
        let taps = folder.join("taps");
        let _ = std::fs::remove_dir_all(&taps);
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let own = own.display().to_string();
        let half = f64::from(rtt_ms) / 2.0;
        let mut bus = format!("bus:{BUS_RATE}:0ms");
        if let Some(profile) = &case.bus {
            bus += &format!(":{profile}");
        }
        let mut command = Command::new(&own);
        command
            .args(["lab", "chain", "--hop", &bus])
            .args(["--hop", &format!("air:{AIR_RATE}:{half}ms")])
            .args(["--pcap", &taps.display().to_string()])
            .args([
                "--at",
                &format!("2={own} probe-server --listen 0.0.0.0:{HTTP_PORT}"),
            ])
            .arg("--")
            // It listens before the first probe: a shell waits for it.
            .args(["/bin/sh", "-c", "sleep 0.5; exec \"$@\"", "sh"])
            .args(self.program(case, probes, &own, folder)?)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let output = command.output().map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(0) => {}
            Some(4) => return Err("the machine was too busy".to_owned()),
            _ => return Err(said.lines().last().unwrap_or("it failed").to_owned()),
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (d_u, stamps) = if case.program == Program::Java {
            (java_delays(&text), Vec::new())
        } else {
            native_delays(&text)
        };
        let d_k = delays_us(&taps.join("bus.pcap"), case.method)?;
        let d_n = delays_us(&taps.join("air.pcap"), case.method)?;
        let lost = d_u.iter().filter(|d| d.is_none()).count();
        let d_u: Vec<f64> = d_u.into_iter().flatten().collect();
        if d_u.len() != d_k.len() || d_k.len() != d_n.len() || d_u.len() <= FIRST {
            return Err(format!(
                "{} answers by the user, {} by the kernel, {} in the air",
                d_u.len(),
                d_k.len(),
                d_n.len()
            ));
        }
        let of = |pick: &dyn Fn(f64, f64, f64) -> f64| {
            let all = d_u.iter().zip(&d_k).zip(&d_n).skip(FIRST);
            let values = all.map(|((u, k), n)| pick(*u, *k, *n)).collect();
            Distribution::of(values).ok_or_else(|| "no answers".to_owned())
        };
        Ok(Cell {
            delta_d: of(&|u, _, n| u - n)?,
            delta_d_u: of(&|u, k, _| u - k)?,
            delta_d_k: of(&|_, k, n| k - n)?,
            by_stamps: Distribution::of(stamps.into_iter().skip(FIRST).collect()),
            d_n: of(&|_, _, n| n)?,
            lost,
        })
    }

    fn program(
        &self,
        case: &Case,
        probes: u32,
        own: &str,
        folder: &Path,
    ) -> Result<Vec<String>, String> {
        const HOST: &str = "100.64.78.3";
        let port = match case.method {
            Method::Rst => CLOSED_PORT,
            _ => HTTP_PORT,
        };
        let interval = format!("{}ms", case.interval.as_millis());
        let mut native: Vec<String> = [
            own,
            "probe",
            &match case.method {
                Method::Icmp => HOST.to_owned(),
                _ => format!("{HOST}:{port}"),
            },
            "--method",
            case.method.name(),
            "--count",
            &probes.to_string(),
            "--interval",
            &interval,
            "--json",
        ]
        .map(str::to_owned)
        .to_vec();
        for (option, value) in [
            ("--warm-up", &case.warm_up),
            ("--background", &case.background),
        ] {
            if let Some(value) = value {
                native.extend([option.to_owned(), value.clone()]);
            }
        }
        if case.program == Program::Native {
            return Ok(native);
        }
        let file = folder.join("Probe.java");
        std::fs::write(&file, JAVA).map_err(|e| e.to_string())?;
        // Who may send ICMP is asked for it by isReachable: an app may not.
        let may_not = ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"];
        let mut java: Vec<String> = Vec::new();
        if case.program == Program::Java {
            java.extend(may_not.map(str::to_owned));
        }
        java.extend(["java".to_owned(), file.display().to_string()]);
        if case.program == Program::JavaNative {
            java.push("exec".to_owned());
            java.extend(native);
            return Ok(java);
        }
        let (port, probes) = (port.to_string(), probes.to_string());
        let interval = case.interval.as_millis().to_string();
        java.extend([case.method.name(), HOST, &port, &probes, &interval].map(str::to_owned));
        Ok(java)
    }
}

/// Time that processors worked, and all their time, since the machine began; in ticks.
fn busy_and_all() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .flat_map(str::parse)
        .take(8)
        .collect();
    let idle = ticks.get(3)? + ticks.get(4)?;
    let all: u64 = ticks.iter().sum();
    Some((all.checked_sub(idle)?, all))
}

fn busy_since(before: Option<(u64, u64)>) -> Option<f64> {
    let ((busy, all), (busy_before, all_before)) = (busy_and_all()?, before?);
    let passed = all.checked_sub(all_before).filter(|p| *p > 0)?;
    Some(busy.checked_sub(busy_before)? as f64 / passed as f64)
}

fn has_java() -> bool {
    let asked = Command::new("java")
        .arg("-version")
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|s| s.success())
}

/// User's delays, µs; `None` for a lost probe.
fn java_delays(text: &str) -> Vec<Option<f64>> {
    text.lines()
        .map(|line| {
            let (out, came) = line.split_once(' ')?;
            let (out, came): (i64, i64) = (out.parse().ok()?, came.trim().parse().ok()?);
            Some(came.checked_sub(out)? as f64 / 1e3)
        })
        .collect()
}

/// The same, and Δd_u by the kernel's stamps where there are any.
fn native_delays(text: &str) -> (Vec<Option<f64>>, Vec<f64>) {
    let lines = text
        .lines()
        .filter_map(|l| serde_json::from_str::<Value>(l).ok());
    let us = |l: &Value, of: &str| l.get(of)?.as_f64();
    let (mut d_u, mut stamps) = (Vec::new(), Vec::new());
    for line in lines.filter(|l| l.get("seq").is_some()) {
        let user = us(&line, "d_u_us");
        stamps.extend(user.zip(us(&line, "d_k_us")).map(|(u, k)| u - k));
        d_u.push(user);
    }
    (d_u, stamps)
}

fn mean(d: &Distribution) -> String {
    let half = d
        .mean_ci95
        .map_or(String::new(), |h| format!(" ± {:.3}", h / 1e3));
    format!("{:.3}{half}", d.mean / 1e3)
}

fn quartiles(d: &Distribution) -> String {
    let [a, b, c] = [d.p25, d.median, d.p75].map(|us| us / 1e3);
    format!("{a:.3} {b:.3} {c:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_print_is_read() {
        let java = java_delays("100000 350000\nlost\n-5000 5000\nx y\n");
        assert_eq!(java, [Some(250.0), None, Some(10.0), None]);
        let native = "{\"seq\":0,\"d_u_us\":12.5,\"d_k_us\":10.0}\n{\"seq\":1,\"d_u_us\":null}\n\
                      {\"summary\":{}}\n";
        let expected = (vec![Some(12.5), None], vec![2.5]);
        assert_eq!(native_delays(native), expected);
    }
}
