//! CPU time of sample traces.

use mpbond_systrace::{
    ClassRules, CpuUsage, ProcessParallelism, Summary, TaskClass, Trace, TraceBuilder, open, read,
};

use super::{near, sample};

pub(super) fn trace(name: &str) -> Option<Trace> {
    let mut builder = TraceBuilder::default();
    read(open(&sample(name)?).unwrap(), &mut builder).unwrap();
    Some(builder.finish())
}

/// CPU totals by task add up to the busy shares of the summary.
#[test]
fn totals_agree_with_the_summary() {
    for name in [
        "systrace/catapult_android_systrace.html",
        "systrace/trappy_surfaceflinger.html",
        "ftrace/lisa_trace.txt",
        "ftrace/lisa_sched_load.trace.dat.gz",
        "perfetto/derived_compact_sched_cpu_sampling.pftrace",
    ] {
        let Some(t) = trace(name) else { continue };
        let runs = t.runs();
        let usage = CpuUsage::of(&t, &runs, &ClassRules::shipped()).unwrap();
        let summary = Summary::of(open(&sample(name).unwrap()).unwrap()).unwrap();
        let busy: f64 = summary.cpus.iter().map(|c| c.busy_percent).sum();
        for rows in [&usage.tasks, &usage.processes, &usage.classes] {
            let sum: f64 = rows.iter().map(|r| r.busy_s).sum();
            near(sum, busy / 100.0 * summary.span_s, 1e-6);
        }
        near(
            t.concurrency().unwrap().tlp().unwrap(),
            summary.tlp.unwrap(),
            1e-9,
        );
        for p in ProcessParallelism::of(&t, &runs) {
            assert!(p.tlp >= 1.0 && p.active_s <= summary.span_s + 1e-9, "{p:?}");
            near(p.share_percent.iter().sum(), 100.0, 1e-6);
        }
    }
}

#[test]
fn processes_of_a_launch_are_named() {
    let Some(t) = trace("systrace/gracker_xiaomi_launcher.html.zip") else {
        return;
    };
    let usage = CpuUsage::of(&t, &t.runs(), &ClassRules::shipped()).unwrap();
    let find = |name: &str| usage.processes.iter().find(|p| p.name == name);
    assert_eq!(find("system_server").unwrap().class, TaskClass::Daemon);
    assert_eq!(find("com.miui.home").unwrap().class, TaskClass::App);
    let class = |c| usage.classes.iter().find(|u| u.class == c).unwrap();
    assert!(class(TaskClass::Kernel).percent_of_busy > 1.0);
    assert!(
        usage
            .classes
            .iter()
            .find(|u| u.class == TaskClass::Unknown)
            .is_none_or(|u| u.percent_of_busy < 15.0),
        "{:?}",
        usage.classes
    );
    assert!(usage.frequencies.iter().any(|f| f.khz == 1_708_800));
    assert!(!t.slices.is_empty() && !t.binder.is_empty());
    assert!(t.sliding_tlp(100_000_000).len() > 30);
}
