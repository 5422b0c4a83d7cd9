//! A synthetic stall is found and attributed; without a stall there are no findings.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod join;
mod script;
mod stalls;

use mpbond_systrace::{IdleReport, IdleRules, Trace, TraceBuilder, open, read};

use script::{NOISE, SERVER, SERVER_THREAD, SHELL, Script};

/// The shell requests a service to close the audio input; the service sleeps for `stall_ms` before
/// it replies. With binder events, or with userspace markers only.
fn launch(stall_ms: u64, binder: bool) -> String {
    let mut s = Script::new();
    s.run(SERVER);
    s.after(100).sleep();
    s.after(50).run(SHELL);
    s.after(2_000);
    s.mark("B|700|launchApp");
    s.after(100);
    if binder {
        s.line(
            "binder_transaction: transaction=91 dest_node=4 dest_proc=310 dest_thread=0 \
        reply=0 flags=0x10 code=0x7",
        );
    } else {
        s.mark("B|700|ipc:AudioSystem.stopInput");
    }
    s.after(10).wake(SERVER_THREAD);
    s.after(5).switch(SERVER_THREAD, "S");
    if binder {
        s.after(5)
            .line("binder_transaction_received: transaction=91");
    }
    s.after(50).mark("B|310|setOutputDevice");
    s.after(300).sleep();
    // The stall, broken up by unrelated work.
    let step = stall_ms * 1_000 / 4;
    for _ in 0..3 {
        s.after(step).noise();
    }
    s.after(step).run(SERVER_THREAD);
    s.after(200).mark("E|310");
    if binder {
        s.after(5).line(
            "binder_transaction: transaction=92 dest_node=0 dest_proc=700 \
        dest_thread=700 reply=1 flags=0x0 code=0x0",
        );
    }
    s.after(5).wake(SHELL);
    s.after(5).switch(SHELL, "S");
    if binder {
        s.after(5)
            .line("binder_transaction_received: transaction=92");
    } else {
        s.after(5).mark("E|700");
    }
    s.after(3_000).mark("E|700");
    s.after(10).sleep();
    // A device interrupt now and then.
    for _ in 0..5 {
        s.after(40_000).noise();
    }
    s.text
}

fn trace(text: &str) -> Trace {
    let mut builder = TraceBuilder::default();
    read(text.as_bytes(), &mut builder).unwrap();
    builder.finish()
}

fn report(text: &str, rules: &IdleRules) -> IdleReport {
    let t = trace(text);
    IdleReport::of(&t, &t.runs(), rules).unwrap()
}

/// The trace that documents and other tests use is this very one.
#[test]
fn the_stored_trace_is_the_generated_one() {
    let stored = include_str!("../data/stalled_request.txt");
    assert_eq!(stored, launch(120, true).replace("mixer", "mediaserver"));
}

#[test]
fn a_stalled_request_is_found_and_named() {
    for binder in [true, false] {
        let r = report(&launch(120, binder), &IdleRules::shipped());
        assert_eq!(r.findings.len(), 1, "{:#?}", r.findings);
        let f = &r.findings[0];
        assert_eq!(f.cause, "stalled service request");
        assert_eq!((f.process, f.thread), (SHELL, SHELL));
        assert_eq!(f.thread_name, "clockwork");
        assert_eq!(f.server, Some(SERVER_THREAD));
        assert_eq!(f.server_names, ["Binder_2", "mixer"]);
        assert_eq!(f.function.as_deref(), Some("setOutputDevice"));
        assert_eq!(f.episodes, 4);
        assert!((f.idle_ms - 120.0).abs() < 1.0, "{}", f.idle_ms);
        // 5 s + 2.29 ms: the request is sent.
        assert_eq!(f.start_ns, 5_002_290_000);
        for part in [
            "clockwork",
            "Binder_2",
            "mixer",
            "setOutputDevice",
            "from 0.0023 s",
        ] {
            assert!(f.text.contains(part), "{part} is not in: {}", f.text);
        }
        let row = r.causes.iter().find(|c| c.anomaly).unwrap();
        assert_eq!(row.episodes, 4);
    }
}

#[test]
fn the_voice_ui_stall_of_section_5_2_1() {
    let text = launch(120, true).replace("mixer", "mediaserver");
    let r = report(&text, &IdleRules::shipped());
    assert_eq!(r.findings.len(), 1);
    assert_eq!(r.findings[0].cause, "voice UI hand-over");
    assert!(r.findings[0].text.contains("setOutputDevice"));
}

#[test]
fn a_long_poll_is_no_stall() {
    let text = launch(120, true).replace("setOutputDevice", "HIDL::ISensors::poll::server");
    assert_eq!(report(&text, &IdleRules::shipped()).findings, vec![]);
}

#[test]
fn a_fast_reply_is_no_anomaly() {
    for binder in [true, false] {
        let r = report(&launch(4, binder), &IdleRules::shipped());
        assert_eq!(r.findings, vec![]);
        assert!(r.idle_percent > 50.0);
    }
}

#[test]
fn suspects_and_quanta_are_given() {
    let r = report(&launch(120, true), &IdleRules::shipped());
    let longest = r.details.iter().find(|d| !d.ipc.is_empty()).unwrap();
    assert!(longest.ipc[0].server_slept);
    assert!(longest.ipc[0].idle_share > 0.9);
    let end = r.details.iter().rfind(|d| !d.ipc.is_empty()).unwrap();
    let server = end
        .suspects
        .iter()
        .find(|s| s.task == SERVER_THREAD)
        .unwrap();
    assert!(server.before.unwrap().1 <= end.start_ns && server.after.0 >= end.end_ns);
    assert!(end.suspects.iter().any(|s| s.task == SHELL));
}

#[test]
fn storage_and_power_management_causes() {
    let mut s = Script::new();
    s.run(SHELL);
    s.after(100)
        .line("block_rq_issue: 8,0 R 4096 () 800 + 8 [clockwork]");
    s.after(10).switch(0, "D");
    s.after(9_000)
        .line("block_rq_complete: 8,0 R () 800 + 8 [0]");
    s.run(SHELL);
    s.after(10).line("suspend_resume: dpm_suspend[2] begin");
    s.after(10).sleep();
    s.after(30_000).run(SHELL);
    s.after(10).line("suspend_resume: dpm_suspend[2] end");
    s.after(10).sleep();
    s.after(50_000).run(SERVER);
    s.after(100).sleep();
    s.after(20_000).run(NOISE);
    s.after(100).sleep();
    let r = report(&s.text, &IdleRules::shipped());
    let ms = |cause: &str| {
        r.causes
            .iter()
            .find(|c| c.cause == cause)
            .map_or(0.0, |c| (c.idle_s * 1e3).round())
    };
    assert_eq!(ms("storage I/O"), 9.0);
    assert_eq!(ms("power management"), 30.0);
    assert_eq!(ms("unclassified interrupt"), 50.0);
    assert_eq!(ms("kernel housekeeping"), 20.0);
    assert!(
        (r.explained_percent - 100.0 * 59.0 / 109.0).abs() < 0.2,
        "{}",
        r.explained_percent
    );
    assert_eq!(r.findings, vec![]);
}

#[test]
fn periodic_wake_ups_are_detected() {
    let report_of = |gaps: &[u64]| {
        let mut s = Script::new();
        for gap in gaps {
            s.after(*gap).run(SHELL);
            s.after(500).sleep();
        }
        report(&s.text, &IdleRules::shipped())
    };
    let episodes = |r: &IdleReport| {
        let row = r.causes.iter().find(|c| c.cause == "periodic task");
        row.map_or(0, |c| c.episodes)
    };
    // The first four wake-ups are too few for a period.
    assert_eq!(episodes(&report_of(&[20_000; 10])), 6);
    assert_eq!(
        episodes(&report_of(&[20_000, 3_000, 70_000, 9_000, 31_000, 14_000])),
        0
    );
}

/// Work that a kernel thread hands on is that of the task which gets it; a timer that a task set
/// is told from a device.
#[test]
fn the_end_of_an_episode_is_traced_to_its_source() {
    let mut s = Script::new();
    s.run(SHELL);
    s.after(100).sleep();
    // The kernel thread wakes a task, so this is not housekeeping.
    s.after(30_000).run(NOISE);
    s.after(50).wake(SHELL);
    s.after(50).switch(SHELL, "S");
    s.after(100).sleep();
    // A timer that the task set itself, in an interrupt.
    s.after(40_000).line(
        "hrtimer_expire_entry: hrtimer=00000000c0ffee00 function=hrtimer_wakeup now=5070000000",
    );
    s.run(SHELL);
    s.after(100).sleep();
    // The tick timer is unrelated to the task.
    s.after(15_000).line(
        "hrtimer_expire_entry: hrtimer=00000000c0ffee00 function=tick_sched_timer now=5085000000",
    );
    s.run(SHELL);
    s.after(100).sleep();
    let r = report(&s.text, &IdleRules::shipped());
    let ms = |cause: &str| {
        let row = r.causes.iter().find(|c| c.cause == cause);
        row.map_or(0.0, |c| (c.idle_s * 1e3).round())
    };
    assert_eq!(ms("kernel housekeeping"), 0.0);
    assert_eq!(ms("task timer"), 40.0);
    assert_eq!(ms("unclassified interrupt"), 45.0);
}

/// Real traces: every episode gets a cause, and the times add up.
#[test]
fn idle_time_of_real_traces_adds_up() {
    for file in [
        "systrace/trappy_surfaceflinger.html",
        "systrace/catapult_android_systrace.html",
        "ftrace/lisa_trace.txt",
    ] {
        let Some(path) = mpbond_testing::sample(file) else {
            continue;
        };
        let mut builder = TraceBuilder::default();
        read(open(&path).unwrap(), &mut builder).unwrap();
        let t = builder.finish();
        let r = IdleReport::of(&t, &t.runs(), &IdleRules::shipped()).unwrap();
        let c = t.concurrency().unwrap();
        assert!((r.idle_percent - 100.0 * c.share(0)).abs() < 1e-6, "{file}");
        let sum: f64 = r.causes.iter().map(|c| c.idle_s).sum();
        assert!((sum - r.idle_s).abs() < 1e-6, "{file}");
        assert_eq!(r.findings, vec![], "{file}");
    }
}
