//! A slow and obvious computation of busy shares and concurrency, independent
//! of the library's: it keeps every switch and asks for every interval which
//! CPUs are busy by looking at all of them.

use std::collections::BTreeMap;

use mpbond_systrace::{Event, Payload, Sink, Summary, open, read};

use super::{near, sample};

#[derive(Default)]
struct Switches(BTreeMap<u32, Vec<(u64, bool, bool)>>);

impl Sink for Switches {
    fn event(&mut self, event: &Event<'_>) {
        if let Payload::Switch(s) = event.payload {
            let before = s
                .prev_pid
                .map_or(!s.prev_state.is_runnable() || s.next_pid == 0, |p| p != 0);
            self.0.entry(event.cpu).or_default().push((
                event.time.as_nanos(),
                before,
                s.next_pid != 0,
            ));
        }
    }
}

/// Busy seconds by CPU and seconds by number of busy CPUs.
fn slow(switches: &Switches) -> (BTreeMap<u32, f64>, Vec<f64>) {
    let mut times: Vec<u64> = switches.0.values().flatten().map(|s| s.0).collect();
    times.sort_unstable();
    times.dedup();
    let mut levels = vec![0.0; switches.0.len() + 1];
    let mut busy: BTreeMap<u32, f64> = switches.0.keys().map(|c| (*c, 0.0)).collect();
    for pair in times.windows(2) {
        let length = (pair[1] - pair[0]) as f64 / 1e9;
        let mut running = 0;
        for (cpu, list) in &switches.0 {
            let state = list
                .iter()
                .filter(|s| s.0 <= pair[0])
                .max_by_key(|s| s.0)
                .map_or(list[0].1, |s| s.2);
            if state {
                running += 1;
                *busy.get_mut(cpu).unwrap() += length;
            }
        }
        levels[running] += length;
    }
    (busy, levels)
}

#[test]
fn every_sample_with_switches_agrees_with_the_slow_computation() {
    // Quadratic: the large files are covered by their stated facts, and the
    // slow path would take minutes on them.
    for name in [
        "systrace/catapult_android_systrace.txt",
        "systrace/trappy_surfaceflinger.html",
        "systrace/perfetto_sched_blocked.systrace",
        "ftrace/lisa_trace.txt",
        "ftrace/lisa_sched_load.trace-cmd-report.txt",
    ] {
        let Some(path) = sample(name) else { continue };
        let mut switches = Switches::default();
        read(open(&path).unwrap(), &mut switches).unwrap();
        let (busy, levels) = slow(&switches);
        let span: f64 = levels.iter().sum();
        let s = Summary::of(open(&path).unwrap()).unwrap();
        near(s.span_s, span, 1e-6);
        for (cpu, seconds) in busy {
            let found = s.cpus.iter().find(|c| c.cpu == cpu).unwrap();
            near(found.busy_percent, 100.0 * seconds / span, 1e-6);
        }
        let weighted: f64 = levels.iter().enumerate().map(|(i, l)| i as f64 * l).sum();
        near(s.tlp.unwrap(), weighted / (span - levels[0]), 1e-9);
        for (i, level) in levels.iter().enumerate() {
            near(s.concurrency_percent[i], 100.0 * level / span, 1e-6);
        }
    }
}
