//! Method traces joined with a system trace.

use mpbond_systrace::{IdleReport, IdleRules, Joined, MethodCalls, read};

use crate::script::{SERVER, SERVER_THREAD, SHELL, Script};
use crate::{launch, trace};

/// Classic method trace with both clocks, version 3: records of thread, method, action and wall
/// time, µs.
fn methods(start_us: u64, records: &[(u32, u32, u32, u32)]) -> Vec<u8> {
    let mut out = format!(
        "*version\n3\ndata-file-overflow=false\nclock=dual\nnum-method-calls={}\nvm=art\n\
         *threads\n{SHELL}\tmain\n{SERVER_THREAD}\tBinder_2\n*methods\n\
         0x4\tcom/example/Launcher\tlaunch\t()V\tLauncher.java\n\
         0x8\tandroid/media/AudioPolicy\tsetOutputDevice\t()V\tAudioPolicy.java\n\
         0xc\tjava/lang/Object\twait\t(JI)V\tObject.java\n\
         0x10\tandroid/os/MessageQueue\tnativePollOnce\t(JI)V\tMessageQueue.java\n*end\n",
        records.len()
    )
    .into_bytes();
    out.extend(b"SLOW\x03\x00\x20\x00");
    out.extend(start_us.to_le_bytes());
    out.extend(14u16.to_le_bytes());
    out.extend([0; 14]);
    for (thread, method, action, us) in records {
        out.extend((*thread as u16).to_le_bytes());
        out.extend((method | action).to_le_bytes());
        out.extend(us.to_le_bytes());
        out.extend(us.to_le_bytes());
    }
    out
}

/// Calls of both threads of the stall that [`launch`] writes, from 5 s on.
const STALL: &[(u32, u32, u32, u32)] = &[
    (SHELL, 4, 0, 2_200),
    (SERVER_THREAD, 8, 0, 2_370),
    (SERVER_THREAD, 12, 0, 2_600),
    (SERVER_THREAD, 12, 1, 123_200),
    (SERVER_THREAD, 8, 1, 123_300),
    (SHELL, 4, 1, 126_300),
];

fn joined(text: &str, art: &[u8]) -> Result<(Joined, IdleReport), String> {
    let mut calls = MethodCalls::default();
    read(art, &mut calls).unwrap();
    let mut t = trace(text);
    let runs = t.runs();
    let joined = t.join(&runs, &calls)?;
    Ok((
        joined,
        IdleReport::of(&t, &runs, &IdleRules::shipped()).unwrap(),
    ))
}

/// The stall without slices and binder events: only the calls show it.
fn bare() -> String {
    let text = launch(120, true);
    let plain = |l: &&str| !l.contains("binder_") && !l.contains("tracing_mark");
    text.lines().filter(plain).flat_map(|l| [l, "\n"]).collect()
}

fn assert_found(r: &IdleReport) {
    assert_eq!(r.findings.len(), 1, "{:#?}", r.findings);
    let f = &r.findings[0];
    let function = f.function.as_deref();
    assert_eq!(
        function,
        Some("android.media.AudioPolicy.setOutputDevice()V")
    );
    assert_eq!((f.thread, f.server), (SHELL, Some(SERVER_THREAD)));
    assert_eq!((f.duration_s * 1e3).round(), 120.0);
}

#[test]
fn calls_show_a_stall() {
    let text = bare();
    let t = trace(&text);
    let r = IdleReport::of(&t, &t.runs(), &IdleRules::shipped()).unwrap();
    assert_eq!(r.findings, vec![]);
    // By the clock of the method trace: the trace clock is CLOCK_MONOTONIC.
    let (j, r) = joined(&text, &methods(5_000_000, STALL)).unwrap();
    assert_eq!((j.start_ns, j.by_clock, j.calls), (5_000_000_000, true, 3));
    assert_eq!(j.agreement_percent, 100.0);
    assert_found(&r);
}

#[test]
fn a_clock_reading_relates_the_clocks() {
    let marker = "tracing_mark_write: trace_event_clock_sync: parent_ts=95.0";
    let mut s = Script::new();
    s.line(marker);
    let line = s.text.lines().last().unwrap();
    let text = bare().replacen("#\n", &format!("#\n{line}\n"), 1);
    let (j, r) = joined(&text, &methods(95_000_000, STALL)).unwrap();
    assert_eq!((j.start_ns, j.by_clock), (5_000_000_000, true));
    assert_found(&r);
    // By that clock, the calls are those of another time.
    let e = joined(&text, &methods(5_000_000, STALL)).unwrap_err();
    assert!(e.contains("of different boots or times"), "{e}");
}

#[test]
fn runs_relate_traces_without_a_common_clock() {
    // The trace clock is ahead of CLOCK_MONOTONIC: it counted while the device was suspended.
    let (j, r) = joined(&bare(), &methods(1_500_000, STALL)).unwrap();
    assert!(!j.by_clock);
    assert!((j.start_ns - 5_000_000_000).abs() < 1_000_000, "{j:?}");
    assert_found(&r);
}

#[test]
fn method_traces_of_another_boot_are_refused() {
    for (start_us, records) in [
        // The pattern fits, but the method trace began later after the start of its machine than
        // the system trace ends.
        (900_000_000, STALL.to_vec()),
        // The threads never ran at these intervals.
        (
            5_000_000,
            STALL
                .iter()
                .map(|r| (r.0, r.1, r.2, r.3 * 7 + 11_000))
                .collect(),
        ),
    ] {
        let e = joined(&bare(), &methods(start_us, &records)).unwrap_err();
        assert!(e.contains("of different boots or times"), "{e}");
    }
    let elsewhere: Vec<_> = STALL.iter().map(|r| (r.0 + 9_000, r.1, r.2, r.3)).collect();
    let e = joined(&bare(), &methods(5_000_000, &elsewhere)).unwrap_err();
    assert!(
        e.starts_with("none of its threads runs in the system trace"),
        "{e}"
    );
}

#[test]
fn traces_that_fit_twice_are_refused() {
    let mut s = Script::new();
    for _ in 0..2 {
        s.run(SHELL);
        s.after(300).sleep();
        s.after(40_000);
    }
    s.run(SERVER);
    s.after(10).sleep();
    let once = [(SHELL, 4, 0, 100), (SHELL, 4, 1, 200)];
    let e = joined(&s.text, &methods(1_000, &once)).unwrap_err();
    assert!(
        e.contains("fit the runs of their threads both at 5.0"),
        "{e}"
    );
}

/// A message loop inside a call that waits by design.
#[test]
fn a_looper_in_calls_is_no_finding() {
    let mut s = Script::new();
    s.run(SHELL);
    s.after(1_000).sleep();
    s.after(90_000).run(SHELL);
    s.after(1_000).sleep();
    s.after(20_000).noise();
    let records = [
        (SHELL, 4, 0, 100),
        (SHELL, 16, 0, 900),
        (SHELL, 16, 1, 91_300),
        (SHELL, 4, 1, 91_900),
    ];
    let (_, r) = joined(&s.text, &methods(5_000_000, &records)).unwrap();
    assert_eq!(r.findings, vec![]);
}

#[test]
fn calls_without_a_wall_clock_are_refused() {
    let art = String::from_utf8_lossy(&methods(0, STALL)).into_owned();
    assert!(art.contains("clock=dual"));
    let mut cpu_only =
        b"*version\n2\nclock=thread-cpu\n*threads\n700\tmain\n*methods\n*end\n".to_vec();
    cpu_only.extend(b"SLOW\x02\x00\x20\x00");
    cpu_only.extend([0; 24]);
    for action in [0u32, 1] {
        cpu_only.extend((SHELL as u16).to_le_bytes());
        cpu_only.extend((4 | action).to_le_bytes());
        cpu_only.extend(5u32.to_le_bytes());
    }
    let e = joined(&bare(), &cpu_only).unwrap_err();
    assert!(e.starts_with("its calls have the CPU clock only"), "{e}");
    let e = joined(&bare(), &methods(5_000_000, &[])).unwrap_err();
    assert_eq!(e, "no calls in it");
}
