//! `mpbond capture delay`: probes and their frames on the wire or on the air.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::io::{BufRead, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use mpbond_capture::delay::{OnWire, Protocol, WireClock, WireProbes, wire_probes};
use mpbond_command::{Failure, note, print};
use mpbond_probe::{
    Enclosing, Method, Pair, Probe, Summary, WireClockSkew, WireSource, set_wire_times,
};
use serde::Serialize;
use serde_json::json;

use super::files::{ended, open, write};
use crate::probe::table;

/// Maximum length of a line of `mpbond probe --json`, which has some hundred octets.
const MAX_LINE_BYTES: u64 = 64 << 10;
/// Maximum number of probes, as in a capture.
const MAX_PROBES: usize = 1 << 20;

/// Match probes with their frames on the wire or on the air.
///
/// A capture beside the path, such as a sniffer's, gives the delay of the network (d_n). With the
/// output of `mpbond probe --json` from the same time it gives the delay added by the phone: Δd =
/// d_u − d_n, Δd_k = d_k − d_n, Δd_u = d_u − d_k. Only differences are used, so the clocks need not
/// agree; their skew is derived from the probes and taken off d_n. Reads 802.11 (not encrypted),
/// Ethernet, cooked and raw IP; merge the captures of several sniffers by `mpbond capture merge`
/// first.
///
/// Without --probes it uses the capture alone: probes of `mpbond probe` by ICMP and UDP, and pings
/// of other programs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond probe 192.0.2.1 --count 100 --interval 10ms --json > probes.jsonl
  mpbond capture delay air.pcapng --probes probes.jsonl --svg delays.svg
  mpbond capture delay wireshark_dns+icmp.pcapng.gz")]
pub(crate) struct DelayArgs {
    /// The capture: pcap or pcapng, gzipped or not.
    #[arg(value_name = "CAPTURE")]
    capture: PathBuf,
    /// Output of `mpbond probe --json`.
    #[arg(long, value_name = "FILE")]
    probes: Option<PathBuf>,
    /// Print one line of JSON per probe, and one with the summary of each run.
    #[arg(long)]
    json: bool,
    /// Draw distribution functions and box plots.
    #[arg(long, value_name = "FILE", requires = "probes")]
    svg: Option<PathBuf>,
}

/// A probe, with the number of times that it was captured.
struct Matched {
    probe: Probe,
    seen: OnWire,
}

/// Probes of one run.
struct Run {
    /// Description: source and target.
    name: String,
    method: Method,
    probes: Vec<Matched>,
    /// Skew of the capture's clocks; without probes of `mpbond probe --json` it is not known.
    clocks: Vec<WireClockSkew>,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    probe: &'a Probe,
    delta_d_us: Option<f64>,
    delta_d_k_us: Option<f64>,
    delta_d_u_us: Option<f64>,
    /// Number of copies of it and of its answer in the capture.
    transmissions: Transmissions,
}

#[derive(Serialize)]
struct Transmissions {
    out: u32,
    #[serde(rename = "in")]
    back: u32,
}

impl DelayArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let wanted = match &self.probes {
            Some(path) => format!("the probes of {}", path.display()),
            None => "ICMP and UDP probes of `mpbond probe`, and pings of other programs".to_owned(),
        };
        let probes = self.probes.as_deref().map(read_probes).transpose()?;
        let locals = probes.iter().flatten().filter_map(|p| p.local);
        let ports: HashSet<u16> = locals.map(|local| local.port()).collect();
        let (name, from) = open(&self.capture)?;
        let seen = wire_probes(&name, from, &ports).map_err(Failure::input)?;
        let runs = match probes {
            Some(probes) => vec![matched(probes, &seen)],
            None => alone(&seen),
        };
        let mut out = String::new();
        for run in &runs {
            let summary = run.summary();
            let found = run.found();
            if self.json {
                for line in &run.probes {
                    let line = serde_json::to_string(&line.line()).map_err(Failure::run)?;
                    out.push_str(&(line + "\n"));
                }
                let repeated = run.repeated();
                let line = json!({
                    "summary": summary, "name": run.name, "found": found, "repeated": repeated,
                    "wire_clocks": run.clocks, "sealed": seen.sealed, "damaged": seen.damaged,
                    "incomplete": seen.incomplete,
                });
                out.push_str(&format!("{line}\n"));
            } else {
                out.push_str(&run.text(&summary));
            }
            if let Some(path) = &self.svg {
                let title = format!(
                    "Round-trip times and their overheads: {} in {name}",
                    run.name
                );
                write(path, summary.to_svg(&title).as_bytes())?;
            }
        }
        if !self.json {
            out.push_str(&notes(&seen));
        }
        print(&out)?;
        let none = runs.iter().all(|run| run.found() == 0);
        if none {
            note!(
                "mpbond capture delay: {name}: none of {} packets is a probe with its answer \
                 ({} encrypted, {} damaged frames); looked for {wanted}",
                seen.records,
                seen.sealed,
                seen.damaged
            );
        }
        let code = ended("delay", seen.incomplete.as_ref());
        Ok(if none { ExitCode::from(1) } else { code })
    }
}

/// All lines except the summary.
fn read_probes(path: &Path) -> Result<Vec<Probe>, Failure> {
    let (name, mut from) = open(path)?;
    let mut probes = Vec::new();
    for number in 1_u64.. {
        let wrong = |what: &str| Failure::input(format_args!("{name}: line {number}: {what}"));
        let mut line = String::new();
        let read = from
            .by_ref()
            .take(MAX_LINE_BYTES)
            .read_line(&mut line)
            .map_err(|e| wrong(&e.to_string()))?;
        if read == 0 {
            break;
        }
        if read as u64 == MAX_LINE_BYTES {
            return Err(wrong("longer than a probe's line"));
        }
        let line = line.trim();
        if line.is_empty() || line.starts_with("{\"summary\"") {
            continue;
        }
        let probe: Probe = serde_json::from_str(line)
            .map_err(|e| wrong(&format!("not a probe of `mpbond probe --json`: {e}")))?;
        if probes.len() >= MAX_PROBES {
            return Err(wrong(&format!("{MAX_PROBES} probes are the limit")));
        }
        probes.push(probe);
    }
    if probes.is_empty() {
        return Err(Failure::input(format_args!("{name}: no probes in it")));
    }
    Ok(probes)
}

/// Probes with timestamps of the wire.
fn matched(probes: Vec<Probe>, seen: &WireProbes) -> Run {
    let method = probes.first().map_or(Method::Icmp, |p| p.method);
    let mut on_wire: HashMap<u32, OnWire> = HashMap::new();
    // Probes from one port are in the capture in the order of their numbers. Lost ones have no
    // known port: an HTTP connection ends with a lost probe.
    let mut by_local: BTreeMap<SocketAddr, Vec<u32>> = BTreeMap::new();
    for probe in probes.iter().filter(|p| !p.duplicate) {
        if let Some(local) = probe.local {
            by_local.entry(local).or_default().push(probe.seq);
        }
        if let Some(found) = numbered(probe, seen) {
            on_wire.insert(probe.seq, found);
        }
    }
    for (local, mut numbers) in by_local {
        numbers.sort_unstable();
        for (nth, seq) in numbers.into_iter().enumerate() {
            let found = match method {
                Method::Http => seen.request(local, nth),
                Method::Tls => seen.hello(local, nth),
                _ => seen.handshake(local, nth),
            };
            on_wire.extend(found.map(|found| (seq, found)));
        }
    }
    let found = |probe: &Probe| on_wire.get(&probe.seq).copied().unwrap_or_default();
    let mut probes = probes;
    let clocks = set_wire_times(&mut probes, |probe| wire(&found(probe)));
    let probes = probes.into_iter().map(|probe| Matched {
        seen: found(&probe),
        probe,
    });
    Run {
        name: format!("{} probes", method.name()),
        method,
        probes: probes.collect(),
        clocks,
    }
}

fn numbered(probe: &Probe, seen: &WireProbes) -> Option<OnWire> {
    let protocol = match probe.method {
        Method::Icmp => Protocol::Icmp,
        Method::Udp => Protocol::Udp,
        _ => return None,
    };
    let key = (protocol, probe.run?, probe.seq);
    seen.numbered.get(&key).copied()
}

/// Times on the wire, and the number of their clock: 0 is the capture's, the radios' follow.
fn wire(seen: &OnWire) -> Option<(Pair<WireSource>, u32)> {
    let times = seen.times()?;
    let clock = times
        .radio
        .map_or(0, |interface| interface.saturating_add(1));
    let pair = Pair {
        source: match times.clock {
            WireClock::Capture => WireSource::Capture,
            WireClock::Tsft => WireSource::Tsft,
        },
        out_ns: times.out_ns,
        in_ns: times.in_ns,
    };
    Some((pair, clock))
}

/// Results from the capture alone.
fn alone(seen: &WireProbes) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut last = None;
    for ((protocol, id, seq), on_wire) in &seen.numbered {
        let method = match protocol {
            Protocol::Icmp => Method::Icmp,
            Protocol::Udp => Method::Udp,
        };
        if last.replace((protocol, id)) != Some((protocol, id)) {
            runs.push(Run::new(
                format!("run {id:016x} by {}", method.name()),
                method,
            ));
        }
        if let Some(run) = runs.last_mut() {
            let mut probe = Probe::of_wire(*seq, method, wire(on_wire).map(|w| w.0));
            probe.run = Some(*id);
            run.probes.push(Matched {
                probe,
                seen: *on_wire,
            });
        }
    }
    let mut last: Option<(&IpAddr, &IpAddr, &u16)> = None;
    for ((asks, asked, identifier, seq), on_wire) in &seen.pings {
        if last.replace((asks, asked, identifier)) != Some((asks, asked, identifier)) {
            runs.push(Run::new(
                format!("pings from {asks} to {asked}, identifier {identifier}"),
                Method::Icmp,
            ));
        }
        if let Some(run) = runs.last_mut() {
            run.probes.push(Matched {
                probe: Probe::of_wire(u32::from(*seq), Method::Icmp, wire(on_wire).map(|w| w.0)),
                seen: *on_wire,
            });
        }
    }
    runs
}

impl Matched {
    fn line(&self) -> Line<'_> {
        let p = &self.probe;
        let minus = |a: Option<f64>, b: Option<f64>| Some(a? - b?);
        Line {
            probe: p,
            delta_d_us: minus(p.d_u_us, p.d_n_us),
            delta_d_k_us: minus(p.d_k_us, p.d_n_us),
            delta_d_u_us: minus(p.d_u_us, p.d_k_us),
            transmissions: Transmissions {
                out: self.seen.questions,
                back: self.seen.answers,
            },
        }
    }
}

impl Run {
    fn new(name: String, method: Method) -> Self {
        Self {
            name,
            method,
            probes: Vec::new(),
            clocks: Vec::new(),
        }
    }

    fn summary(&self) -> Summary {
        Summary::of(self.method, self.probes.iter().map(|m| m.probe))
    }

    /// Number of probes with a delay on the wire.
    fn found(&self) -> usize {
        let found = |m: &&Matched| {
            let by_capture = |w: Pair<WireSource>| w.source != WireSource::Hardware;
            m.probe.stamps.wire.is_some_and(by_capture)
        };
        self.probes.iter().filter(found).count()
    }

    /// Number of probes captured more than once, in either direction.
    fn repeated(&self) -> usize {
        let more = |m: &&Matched| m.seen.questions > 1 || m.seen.answers > 1;
        self.probes.iter().filter(more).count()
    }

    fn text(&self, summary: &Summary) -> String {
        let mut out = format!(
            "{}: {} sent, {} lost; {} with their answers in the capture",
            self.name,
            summary.sent,
            summary.lost,
            self.found()
        );
        if self.repeated() > 0 {
            let _ = write!(out, ", {} seen more than once", self.repeated());
        }
        out.push('\n');
        out += &table(summary);
        for clock in &self.clocks {
            out += &clock_text(clock);
        }
        if self.clocks.is_empty() && self.found() > 0 {
            out += "the capture's clock is not compared: d_n may be wrong by 200 ppm of itself\n";
        }
        out
    }
}

fn clock_text(clock: &WireClockSkew) -> String {
    let mut out = String::new();
    let name = match clock.clock {
        0 => "the capture's clock".to_owned(),
        radio => format!("the radio's clock of interface {}", radio - 1),
    };
    let error_us = clock.d_n_error_us.unwrap_or_default();
    let by = match clock.stamps {
        Some(Enclosing::Kernel) => "kernel's",
        Some(Enclosing::User) => "user's",
        None => {
            let _ = writeln!(
                out,
                "{name} is not compared, for want of the host's stamps: d_n may be wrong by 200 \
                 ppm of itself, {error_us:.2} us"
            );
            return out;
        }
    };
    if let (Some(skew), Some(error)) = (clock.skew_ppm, clock.skew_error_ppm) {
        let _ = write!(
            out,
            "{name} against the {by} stamps: {skew:+.2} ± {error:.2} ppm; "
        );
        let _ = match &clock.difference_us {
            Some(d) => writeln!(
                out,
                "taken off d_n: ΔD {:+.2} us (mean); d_n is known to ± {error_us:.2} us",
                d.mean
            ),
            None => writeln!(
                out,
                "too vague to be taken off: d_n may be wrong by 200 ppm of itself, {error_us:.2} us"
            ),
        };
    }
    if clock.drifted {
        let _ = writeln!(
            out,
            "note: no line relates {name} to the {by} stamps: a clock was set, or its rate changed"
        );
    }
    if clock.crossed > 0 {
        let _ = writeln!(
            out,
            "note: {} probes were on the wire before they left, or after their answers came, by \
             the {by} stamps; their d_n is not corrected",
            clock.crossed
        );
    }
    out
}

fn notes(seen: &WireProbes) -> String {
    let mut out = String::new();
    let mut note = |count: u64, what: &str| {
        if count > 0 {
            let _ = writeln!(out, "note: {count} {what}");
        }
    };
    note(
        seen.sealed,
        "frames are encrypted, and what they hold does not show",
    );
    note(seen.damaged, "frames came damaged, and are left out");
    note(
        seen.beyond,
        "packets of more probes than can be kept are left out",
    );
    out
}
