//! Stalls that a trace shows without binder events: a thread blocked inside a slice.

use mpbond_systrace::{IdleFinding, IdleReport, IdleRules};

use crate::report;
use crate::script::{NOISE, SERVER, SERVER_THREAD, SHELL, Script};

fn findings(text: &str) -> Vec<IdleFinding> {
    report(text, &IdleRules::shipped()).findings
}

fn explained_ms(r: &IdleReport, cause: &str) -> f64 {
    let row = r.causes.iter().find(|c| c.cause == cause);
    row.map_or(0.0, |c| (c.idle_s * 1e3).round())
}

/// Sleeps with unrelated kernel work in between, which splits the idle time into pieces.
fn broken_sleep(s: &mut Script, pieces: u64, us: u64) {
    s.sleep();
    for _ in 1..pieces {
        s.after(us).noise();
    }
    s.after(us);
}

#[test]
fn the_stored_stall_without_its_binder_lines_is_one_finding() {
    let stored = include_str!("../data/stalled_request.txt");
    let lines = stored.lines().filter(|l| !l.contains("binder_transaction"));
    let text: String = lines.flat_map(|l| [l, "\n"]).collect();
    let r = report(&text, &IdleRules::shipped());
    let [f] = r.findings.as_slice() else {
        panic!("{:#?}", r.findings);
    };
    assert_eq!(f.function.as_deref(), Some("setOutputDevice"));
    assert_eq!((f.thread, f.server), (SHELL, Some(SERVER_THREAD)));
    assert_eq!(f.cause, "voice UI hand-over");
    assert_eq!((f.duration_s * 1e3).round(), 120.0);
    // The first of the four episodes.
    assert_eq!((f.start_ns, f.start_s), (5_002_660_000, 5.00266));
    assert_eq!(f.episodes, 4);
    let row = r.causes.iter().find(|c| c.anomaly).unwrap();
    assert_eq!(row.episodes, 4);
    // With binder lines, the same stall.
    let with = findings(stored);
    assert_eq!(with.len(), 1);
    assert_eq!(with[0].function, f.function);
    assert!((with[0].duration_s - f.duration_s).abs() < 1e-3);
}

#[test]
fn a_wait_for_a_lock_inside_a_function_is_a_finding() {
    let mut s = Script::new();
    s.run(SHELL);
    s.after(500).mark("B|700|openDatabase");
    s.after(100);
    broken_sleep(&mut s, 3, 30_000);
    // The holder of the lock: a thread without slices, which the shell did not wake.
    s.run(SERVER);
    s.after(300).wake(SHELL);
    s.after(10).switch(SHELL, "S");
    s.after(100).mark("E|700");
    s.after(100).sleep();
    s.after(50_000).noise();
    let list = findings(&s.text);
    let [f] = list.as_slice() else {
        panic!("{list:#?}");
    };
    assert_eq!(f.cause, "stalled function");
    assert_eq!(
        (f.thread, f.function.as_deref()),
        (SHELL, Some("openDatabase"))
    );
    assert_eq!((f.duration_s * 1e3).round(), 90.0);
    assert_eq!(f.episodes, 3);
}

#[test]
fn two_stalls_are_two_findings() {
    let mut s = Script::new();
    s.run(SHELL);
    s.mark("B|700|onCreate");
    for (name, us) in [("readSettings", 30_000), ("openCamera", 20_000)] {
        s.after(200).mark(&format!("B|700|{name}"));
        s.after(100);
        broken_sleep(&mut s, 2, us);
        s.run(SHELL);
        s.after(100).mark("E|700");
    }
    s.after(500).mark("E|700");
    s.after(10).sleep();
    s.after(50_000).noise();
    let list = findings(&s.text);
    let found: Vec<_> = list
        .iter()
        .map(|f| (f.function.as_deref().unwrap(), (f.duration_s * 1e3).round()))
        .collect();
    assert_eq!(found, [("readSettings", 60.0), ("openCamera", 40.0)]);
}

/// A message loop waits outside of every slice, or inside one that names the wait.
#[test]
fn a_wait_for_messages_is_no_finding() {
    for wait in [None, Some("nativePollOnce"), Some("Looper.pollOnce")] {
        let mut s = Script::new();
        for _ in 0..2 {
            s.run(SHELL);
            s.after(100).mark("B|700|dispatchMessage");
            s.after(300).mark("E|700");
            if let Some(name) = wait {
                s.mark(&format!("B|700|{name}"));
            }
            s.after(50);
            broken_sleep(&mut s, 3, 40_000);
            s.run(SHELL);
            if wait.is_some() {
                s.after(5).mark("E|700");
            }
            s.after(100).sleep();
            s.after(30_000);
        }
        s.noise();
        assert_eq!(findings(&s.text), vec![], "{wait:?}");
    }
}

#[test]
fn work_for_the_waiting_thread_separates_two_groups() {
    let mut s = Script::new();
    s.run(SHELL);
    s.after(100).mark("B|700|query");
    s.after(10).wake(SERVER);
    s.after(5).switch(SERVER, "S");
    s.after(100);
    broken_sleep(&mut s, 1, 40_000);
    // Work that the waiting thread asked for, long enough not to be idle time.
    s.run(SERVER);
    s.after(60_000);
    broken_sleep(&mut s, 2, 15_000);
    s.run(SERVER);
    s.after(50).wake(SHELL);
    s.after(5).switch(SHELL, "S");
    s.after(50).mark("E|700");
    s.after(50).sleep();
    s.after(50_000).noise();
    let list = findings(&s.text);
    let found: Vec<_> = list
        .iter()
        .map(|f| {
            (
                (f.duration_s * 1e3).round(),
                f.episodes,
                f.function.as_deref(),
            )
        })
        .collect();
    assert_eq!(found, [(40.0, 1, Some("query")), (30.0, 2, Some("query"))]);
}

/// A thread that sends a one-way call and gets one back, or that begins an asynchronous slice and
/// ends it after the wait, is inside that call.
#[test]
fn one_way_calls_and_asynchronous_slices_count_as_spans() {
    for (send, receive, named) in [
        (
            "binder_transaction: transaction=5 dest_node=4 dest_proc=310 dest_thread=0 reply=0 \
             flags=0x11 code=0x7",
            "binder_transaction_received: transaction=6",
            "startRecognition",
        ),
        (
            "tracing_mark_write: S|700|voiceSession|77",
            "tracing_mark_write: F|700|voiceSession|77",
            "voiceSession",
        ),
    ] {
        let mut s = Script::new();
        s.run(SHELL);
        s.after(100).mark("B|700|startRecognition");
        s.after(10).line(send);
        s.after(10).mark("E|700");
        s.after(20);
        broken_sleep(&mut s, 3, 30_000);
        s.run(SERVER);
        if send.starts_with("binder") {
            s.after(10).line(
                "binder_transaction: transaction=6 dest_node=9 dest_proc=700 dest_thread=0 \
                 reply=0 flags=0x11 code=0x2",
            );
        }
        s.after(10).wake(SHELL);
        s.after(5).switch(SHELL, "S");
        s.after(5).line(receive);
        s.after(100).sleep();
        s.after(50_000).noise();
        let list = findings(&s.text);
        let [f] = list.as_slice() else {
            panic!("{named}: {list:#?}");
        };
        assert_eq!((f.thread, f.function.as_deref()), (SHELL, Some(named)));
        assert_eq!((f.duration_s * 1e3).round(), 90.0);
    }
}

/// Kernel threads alone at the end of an episode explain it only where no thread is inside a span.
#[test]
fn no_upkeep_while_a_thread_is_inside_a_span() {
    for inside in [false, true] {
        let mut s = Script::new();
        s.run(SHELL);
        if inside {
            s.after(10).mark("B|700|flush");
        }
        s.after(100);
        // Shorter than a stall.
        broken_sleep(&mut s, 2, 6_000);
        s.run(SHELL);
        if inside {
            s.after(10).mark("E|700");
        }
        s.after(100).sleep();
        s.after(1_000).noise();
        let r = report(&s.text, &IdleRules::shipped());
        assert_eq!(r.findings, vec![]);
        let upkeep = explained_ms(&r, "kernel housekeeping");
        assert_eq!(upkeep, if inside { 1.0 } else { 7.0 });
        assert!((r.explained_share * 100.0 - r.explained_percent).abs() < 1e-9);
    }
}

/// The wait of the thread itself decides: unrelated writes explain nothing.
#[test]
fn storage_explains_a_stall_only_if_the_thread_waits_for_it() {
    for state in ["S", "D"] {
        let mut s = Script::new();
        s.run(SHELL);
        s.after(100).mark("B|700|loadTheme");
        s.after(10)
            .line("block_rq_issue: 8,0 R 4096 () 800 + 8 [clockwork]");
        s.after(10).switch(0, state);
        s.after(50_000)
            .line("block_rq_complete: 8,0 R () 800 + 8 [0]");
        s.run(SHELL);
        s.after(10).mark("E|700");
        s.after(10).sleep();
        s.after(30_000).run(NOISE);
        s.after(10).sleep();
        let r = report(&s.text, &IdleRules::shipped());
        let storage = explained_ms(&r, "storage I/O");
        let expected = if state == "D" { (0, 50.0) } else { (1, 0.0) };
        assert_eq!((r.findings.len(), storage), expected, "{state}");
    }
}

/// A slice that never ends, or that its thread leaves and enters all the time, is the thread's
/// main loop.
#[test]
fn main_loops_are_no_findings() {
    let mut s = Script::new();
    s.run(SERVER);
    s.after(10).mark("B|310|serve");
    s.after(10).sleep();
    s.after(10).run(SHELL);
    for i in 0..5 {
        s.mark("B|700|loop");
        s.after(10).sleep();
        s.after(40_000 + i * 7_000).run(SHELL);
        s.after(10).mark("E|700");
    }
    s.sleep();
    s.after(30_000).run(SERVER);
    s.after(10).sleep();
    assert_eq!(findings(&s.text), vec![]);
}
