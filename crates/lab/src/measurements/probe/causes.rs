//! Parts of the delay that a runtime and the kernel add to a round trip (delay measurement paper,
//! section 5.8), by trace points beside a Java program: from its first reading of the clock to its
//! first socket call, the driver, the arrival of the answer, the wake-up, the return from the
//! kernel, and the second reading.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use mpbond_probe::Distribution;
use mpbond_systrace::{Event, NetPoint, Payload, Sink};
use serde::Deserialize;

use super::case::{Case, Clock, Program};
use super::cell::{AIR_RATE, BUS_RATE, FIRST, QUICK};
use super::program::{HTTP_PORT, command, has_java, java_answers};
use crate::error::{Doing, Result};
use crate::measurements::busy::{self, Busy, MAX_BUSY};
use crate::measurements::child;
use crate::measurements::outcome::Outcome;
use crate::report::SheetTable;

/// Parts of a round trip in their order, and their ends.
const PARTS: [(&str, &str); 7] = [
    ("runtime-out", "t_u^o to the first socket call"),
    ("preparing", "until the system call that sends"),
    ("kernel-out", "until net_dev_queue"),
    ("network", "until netif_receive_skb"),
    ("kernel-in", "until the wake-up"),
    ("waking", "until the system call that waited returns"),
    ("runtime-in", "until t_u^i"),
];
/// Places in [`PARTS`] of those outside of the kernel's path and the network, out and in.
const RUNTIME: [usize; 3] = [0, 1, 6];
const OUT: [usize; 3] = [0, 1, 2];
const IN: [usize; 3] = [4, 5, 6];
/// Statistics of each part.
const OF: [&str; 3] = ["mean", "median", "p99"];
/// System calls on sockets, and those that may be.
const SOCKET_CALLS: [libc::c_long; 8] = [
    libc::SYS_socket,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_write,
    libc::SYS_writev,
];
/// Maximum time from the arrival of a packet to the wake-up that it causes.
const MAX_WAKE_NS: u64 = 1_000_000;
/// Buffer of the kernel's tracer for each processor, MiB.
const BUFFER_MIB: &str = "64";

/// Parameters of the measurement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::measurements) struct Causes {
    /// Number of probes of each case.
    probes: u32,
    /// Round-trip time of the network.
    rtt_ms: u32,
    #[serde(rename = "case")]
    cases: Vec<Case>,
}

fn key(case: &str, part: &str, of: &str) -> String {
    format!("{case}: {part} {of}_us")
}

impl Causes {
    pub(in crate::measurements) fn check(&self) -> Result<(), String> {
        if !(1..=10_000).contains(&self.probes) || !(1..=1000).contains(&self.rtt_ms) {
            return Err("probes: 1 to 10000; rtt_ms: 1 to 1000".to_owned());
        }
        for case in &self.cases {
            let plain = case.bus.is_none() && case.hold.is_none() && case.trials.is_none();
            // The tracer's clock is that of System.nanoTime().
            let own = case.program == Program::Java && case.clock == Clock::Nano;
            if !plain || !own {
                let name = &case.name;
                return Err(format!(
                    "case \"{name}\": a Java program with the clock nano, without bus, hold and \
                     trials"
                ));
            }
            case.check()?;
        }
        match self.cases.is_empty() {
            true => Err("a case at least".to_owned()),
            false => Ok(()),
        }
    }

    pub(in crate::measurements) fn keys(&self) -> Vec<String> {
        let mut all = Vec::new();
        for case in &self.cases {
            for (part, _) in PARTS {
                all.extend(OF.map(|of| key(&case.name, part, of)));
            }
            all.push(key(&case.name, "asymmetry", "median"));
            let shares = ["runtime_share", "matched_share"];
            all.extend(shares.map(|share| format!("{}: {share}", case.name)));
        }
        all
    }

    pub(in crate::measurements) fn measure(&self, quick: bool) -> Result<Outcome> {
        let folder = tempfile::tempdir().doing("cannot make a temporary folder")?;
        let mut outcome = Outcome::default();
        if !has_java() {
            outcome
                .notes
                .push("not measured: there is no java here".into());
            return Ok(outcome);
        }
        let mut table = SheetTable {
            title: "Parts of a round trip, us".to_owned(),
            note: "by trace points with stamps of whole us; preparing and runtime-in contain the \
                   system calls other than those that send and wait"
                .to_owned(),
            header: ["case", "part", "end", "probes", "mean", "median", "99 %"]
                .map(str::to_owned)
                .to_vec(),
            words: vec![0, 1, 2],
            ..SheetTable::default()
        };
        for case in &self.cases {
            let before = Busy::now();
            let (asked, all) = match self.once(case, quick, folder.path()) {
                Ok(found) => found,
                Err(why) => {
                    let note = format!("{}: not measured: {why}", case.name);
                    outcome.notes.push(note);
                    continue;
                }
            };
            let waited = busy::since(before).is_none_or(|busy| busy > MAX_BUSY);
            if waited {
                let note = format!("{}: the machine was busy: not judged", case.name);
                outcome.notes.push(note);
            }
            take(&mut table, &case.name, &all);
            let matched = all.len() as f64 / asked.max(1) as f64;
            let share = format!("{}: matched_share", case.name);
            outcome.figures.insert(share, Some(matched));
            if !waited {
                put(&mut outcome.figures, &case.name, &all);
            }
        }
        outcome.tables.push(table);
        Ok(outcome)
    }

    /// The number of probes, and the parts of those whose events are complete, in µs.
    fn once(
        &self,
        case: &Case,
        quick: bool,
        folder: &Path,
    ) -> Result<(usize, Vec<[f64; 7]>), String> {
        let probes = if quick { QUICK } else { self.probes } + FIRST as u32;
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let own = own.display().to_string();
        let trace = folder.join("trace.txt");
        let answers = folder.join("answers").display().to_string();
        let half = f64::from(self.rtt_ms) / 2.0;
        let mut recorded = child::traced();
        recorded
            .args([&own, "trace", "record", "--events", "sched,net,syscalls"])
            .args(["--buffer", BUFFER_MIB, "-o"])
            .arg(&trace)
            .args(["--", &own, "lab", "chain"])
            .args(["--hop", &format!("bus:{BUS_RATE}:0ms")])
            .args(["--hop", &format!("air:{AIR_RATE}:{half}ms")])
            .args([
                "--at",
                &format!("2={own} probe-server --listen 0.0.0.0:{HTTP_PORT}"),
            ])
            // The sleep gives the server time to listen before the first probe.
            .args(["--", "/bin/sh", "-c"])
            .args([
                "sleep 0.5; to=$1; shift; exec \"$@\" >\"$to\"",
                "sh",
                &answers,
            ])
            .args(command(case, probes, &own, folder)?);
        child::run(&mut recorded, &[0])?;
        let text = std::fs::read_to_string(&answers).map_err(|e| e.to_string())?;
        let asked = java_answers(&text, true);
        let mut points = Points::default();
        let file = File::open(&trace).map_err(|e| e.to_string())?;
        mpbond_systrace::read(file, &mut points).map_err(|e| e.to_string())?;
        let asked = asked.into_iter().skip(FIRST).flatten();
        let windows: Vec<(u64, u64)> = asked.filter_map(|a| a.unix_ns).collect();
        let thread = points.thread(&windows).ok_or("no packet of the program")?;
        let parts = windows.iter().filter_map(|w| points.split(thread, *w));
        Ok((windows.len(), parts.collect()))
    }
}

fn all(parts: &[[f64; 7]], of: impl Fn(&[f64; 7]) -> f64) -> Option<Distribution> {
    Distribution::of(parts.iter().map(of).collect())
}

fn sum(parts: &[f64; 7], of: &[usize]) -> f64 {
    of.iter().filter_map(|i| parts.get(*i)).sum()
}

/// The statistics in the order of [`OF`].
fn values(d: &Distribution) -> [f64; 3] {
    [d.mean, d.median, d.p99]
}

fn take(table: &mut SheetTable, case: &str, parts: &[[f64; 7]]) {
    for (i, (part, end)) in PARTS.into_iter().enumerate() {
        let Some(d) = all(parts, |p| sum(p, &[i])) else {
            continue;
        };
        let head = [case, part, end].map(str::to_owned).into_iter();
        let head = head.chain([d.count.to_string()]);
        let cells = values(&d).map(|us| format!("{us:.1}"));
        table.rows.push(head.chain(cells).collect());
    }
}

fn put(figures: &mut BTreeMap<String, Option<f64>>, case: &str, parts: &[[f64; 7]]) {
    for (i, (part, _)) in PARTS.into_iter().enumerate() {
        let Some(d) = all(parts, |p| sum(p, &[i])) else {
            continue;
        };
        for (of, us) in OF.into_iter().zip(values(&d)) {
            figures.insert(key(case, part, of), Some(us));
        }
    }
    let differences = all(parts, |p| sum(p, &OUT) - sum(p, &IN));
    let median = differences.map(|d| d.median);
    figures.insert(key(case, "asymmetry", "median"), median);
    let total = |of: &[usize]| parts.iter().map(|p| sum(p, of)).sum::<f64>();
    let added = total(&OUT) + total(&IN);
    let share = (added > 0.0).then(|| total(&RUNTIME) / added);
    figures.insert(format!("{case}: runtime_share"), share);
}

/// Trace points, in time order, in ns.
#[derive(Debug, Default)]
struct Points {
    /// System calls: time, thread, number.
    calls: Vec<(u64, u32, libc::c_long)>,
    /// `net_dev_queue`: time, thread.
    queued: Vec<(u64, u32)>,
    /// `netif_receive_skb`: time, processor.
    received: Vec<(u64, u32)>,
    /// Wake-ups: time, processor, woken thread.
    woken: Vec<(u64, u32, u32)>,
    /// Returns of system calls: time, thread. Not the task switches: some kernels of virtual
    /// machines record none from the idle task of a processor.
    returned: Vec<(u64, u32)>,
}

impl Sink for Points {
    fn event(&mut self, event: &Event<'_>) {
        let at = event.time.as_nanos();
        match event.payload {
            Payload::Other(_) if event.name == "sys_exit" => self.returned.push((at, event.tid)),
            Payload::Other(text) if event.name == "sys_enter" => {
                if let Some(number) = system_call(text) {
                    self.calls.push((at, event.tid, number));
                }
            }
            Payload::Net { point, .. } => match point {
                NetPoint::Queue => self.queued.push((at, event.tid)),
                NetPoint::Receive => self.received.push((at, event.cpu)),
                _ => {}
            },
            Payload::Wake(wake) => self.woken.push((at, event.cpu, wake.pid)),
            _ => {}
        }
    }
}

/// Number of the system call in `NR 42 (…)`.
fn system_call(text: &[u8]) -> Option<libc::c_long> {
    let text = std::str::from_utf8(text).ok()?.strip_prefix("NR ")?;
    text.split(' ').next()?.parse().ok()
}

/// The part of a list from `from` to `to`, in ns.
fn between<T>(list: &[T], at: impl Fn(&T) -> u64, (from, to): (u64, u64)) -> &[T] {
    let first = list.partition_point(|e| at(e) < from);
    let end = list.partition_point(|e| at(e) <= to);
    list.get(first..end).unwrap_or_default()
}

impl Points {
    /// The thread that sends first in most of the round trips.
    fn thread(&self, windows: &[(u64, u64)]) -> Option<u32> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for window in windows {
            if let Some((_, thread)) = between(&self.queued, |q| q.0, *window).first() {
                *counts.entry(*thread).or_default() += 1;
            }
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        most.map(|(thread, _)| thread)
    }

    /// The parts of one round trip, in µs; `None` if an event is missing.
    fn split(&self, thread: u32, (out, back): (u64, u64)) -> Option<[f64; 7]> {
        let calls = between(&self.calls, |c| c.0, (out, back));
        let mut own = calls.iter().filter(|c| c.1 == thread);
        let first = own.find(|c| SOCKET_CALLS.contains(&c.2))?.0;
        let mut queued = between(&self.queued, |q| q.0, (first, back)).iter();
        let queued = queued.find(|q| q.1 == thread)?.0;
        let sending = between(calls, |c| c.0, (first, queued)).iter();
        let sending = sending.rev().find(|c| c.1 == thread)?.0;
        // The last wake-up by a packet: the first packets may be acknowledgements.
        let woken = between(&self.woken, |w| w.0, (queued, back)).iter().rev();
        let (received, woken) = woken
            .filter(|w| w.2 == thread)
            .find_map(|w| Some((self.arrival(w.0, w.1, queued)?, w.0)))?;
        let mut returned = between(&self.returned, |r| r.0, (woken, back)).iter();
        let returned = returned.find(|r| r.1 == thread)?.0;
        let points = [out, first, sending, queued, received, woken, returned, back];
        let mut parts = [0.0; 7];
        for (part, ends) in parts.iter_mut().zip(points.windows(2)) {
            let [from, to] = ends else { return None };
            *part = to.checked_sub(*from)? as f64 / 1e3;
        }
        Some(parts)
    }

    /// The arrival of the packet that caused a wake-up on this processor.
    fn arrival(&self, woken: u64, cpu: u32, after: u64) -> Option<u64> {
        let from = after.max(woken.saturating_sub(MAX_WAKE_NS));
        let near = between(&self.received, |r| r.0, (from, woken)).iter();
        near.rev().find(|r| r.1 == cpu).map(|r| r.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round trip from 10.000100 to 10.021000 s by thread 7, computed by hand. An acknowledgement
    /// wakes another thread, and a call of thread 8 does not count.
    const TRACE: &str = "\
 java-7 [000] ..... 10.000050: sys_enter: NR 1 (1, 0, 0, 0, 0, 0)
 java-7 [000] ..... 10.000120: sys_enter: NR 202 (1, 0, 0, 0, 0, 0)
 java-7 [000] ..... 10.000300: sys_enter: NR 41 (2, 1, 0, 0, 0, 0)
 other-8 [001] ..... 10.000310: sys_enter: NR 42 (2, 1, 0, 0, 0, 0)
 java-7 [000] ..... 10.000450: sys_enter: NR 42 (5, 0, 0, 0, 0, 0)
 java-7 [000] ..... 10.000480: net_dev_queue: dev=bus skbaddr=0xa1 len=60
 link-9 [001] ..... 10.010000: netif_receive_skb: dev=bus skbaddr=0xa2 len=60
 link-9 [001] d.... 10.010010: sched_wakeup: comm=other pid=8 prio=120 target_cpu=000
 link-9 [001] ..... 10.020480: netif_receive_skb: dev=bus skbaddr=0xa3 len=60
 link-9 [001] d.... 10.020490: sched_waking: comm=java pid=7 prio=120 target_cpu=000
 link-9 [001] d.... 10.020500: sched_wakeup: comm=java pid=7 prio=120 target_cpu=000
 other-8 [001] ..... 10.020510: sys_exit: NR 42 = 0
 java-7 [000] ..... 10.020540: sys_exit: NR 7 = 1
 java-7 [000] ..... 10.020900: sys_enter: NR 3 (5, 0, 0, 0, 0, 0)
";

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_round_trip_is_split_at_the_trace_points() {
        let mut points = Points::default();
        mpbond_systrace::read(TRACE.as_bytes(), &mut points).unwrap();
        let window = (10_000_100_000, 10_021_000_000);
        assert_eq!(points.thread(&[window]), Some(7));
        let parts = points.split(7, window).unwrap();
        let wanted = [200.0, 150.0, 30.0, 20_000.0, 20.0, 40.0, 460.0];
        assert_eq!(parts, wanted);
        // Without its wake-up, or before its first packet, it is not split.
        assert_eq!(points.split(7, (10_000_100_000, 10_020_485_000)), None);
        assert_eq!(points.split(8, window), None);
        let mut figures = BTreeMap::new();
        put(&mut figures, "a", &[parts, parts]);
        assert_eq!(figures["a: runtime-in median_us"], Some(460.0));
        assert_eq!(figures["a: asymmetry median_us"], Some(380.0 - 520.0));
        assert_eq!(figures["a: runtime_share"], Some(810.0 / 900.0));
    }

    #[test]
    fn cases_that_cannot_be_traced_are_refused() {
        let text = "probes = 5\nrtt_ms = 20\n[[case]]\nname = \"a\"\nprogram = \"java\"\nmethod = \
                    \"rst\"\ninterval = \"50ms\"\n";
        let causes = |text: &str| toml::from_str::<Causes>(text).unwrap();
        assert_eq!(causes(text).check(), Ok(()));
        assert_eq!(causes(text).keys().len(), 7 * 3 + 3);
        for (from, to, words) in [
            (
                "program = \"java\"",
                "program = \"native\"",
                "a Java program",
            ),
            ("interval", "clock = \"wall\"\ninterval", "the clock nano"),
            ("\"rst\"", "\"icmp\"", "syn, rst and http alone"),
            ("probes = 5", "probes = 0", "probes: 1"),
        ] {
            let why = causes(&text.replacen(from, to, 1)).check().unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
