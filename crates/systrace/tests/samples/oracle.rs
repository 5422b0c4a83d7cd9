//! A simple and slow computation of busy shares and concurrency, independent of the library's: it
//! stores every switch and examines all CPUs between any two switches.

use std::collections::BTreeMap;

use mpbond_systrace::{Event, Payload, Sink, Summary, TaskState, open, read};

use super::{near, sample};

#[derive(Default)]
struct Switches(BTreeMap<u32, Vec<(u64, bool, bool)>>);

impl Sink for Switches {
    fn event(&mut self, event: &Event<'_>) {
        if let Payload::Switch(s) = event.payload {
            let before = match s.prev_pid {
                Some(pid) => pid != 0,
                // Compact form: idle is switched out as runnable, in favour of a task.
                None => s.prev_state != TaskState::RUNNABLE || s.next_pid == 0,
            };
            self.0.entry(event.cpu).or_default().push((
                event.time.as_nanos(),
                before,
                s.next_pid != 0,
            ));
        }
    }
}

/// Busy seconds by CPU and seconds by number of busy CPUs: walks from switch to
/// switch and looks at every CPU each time.
fn slow(switches: &Switches) -> (BTreeMap<u32, f64>, Vec<f64>) {
    let mut all: Vec<(u64, usize, bool)> = Vec::new();
    let mut state = Vec::new();
    for (i, list) in switches.0.values().enumerate() {
        all.extend(list.iter().map(|s| (s.0, i, s.2)));
        state.push(list[0].1);
    }
    all.sort_by_key(|s| s.0);
    let mut levels = vec![0.0; state.len() + 1];
    let mut busy = vec![0.0; state.len()];
    let mut now = all[0].0;
    for (t, cpu, after) in all {
        let length = (t - now) as f64 / 1e9;
        levels[state.iter().filter(|b| **b).count()] += length;
        for (total, busy) in busy.iter_mut().zip(&state) {
            if *busy {
                *total += length;
            }
        }
        now = t;
        state[cpu] = after;
    }
    (switches.0.keys().copied().zip(busy).collect(), levels)
}

#[test]
fn every_sample_with_switches_agrees_with_the_slow_computation() {
    for name in [
        "systrace/catapult_android_systrace.html",
        "systrace/catapult_android_systrace.txt",
        "systrace/trappy_surfaceflinger.html",
        "systrace/gracker_xiaomi_launcher.html.zip",
        "systrace/gracker_wangzherongyao.html.zip",
        "systrace/perfetto_sched_blocked.systrace",
        "ftrace/lisa_sched_load.trace.dat.gz",
        "perfetto/ms_cpu_sampling_not_scoped.pftrace",
        "perfetto/derived_compact_sched_cpu_sampling.pftrace",
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
