//! ftrace text and systrace HTML.

use mpbond_systrace::{Clock, ClockMap, ErrorKind, Summary, open};

use super::{busy, events, near, sample, summary};

#[test]
fn old_systrace_page() {
    let Some(s) = summary("systrace/catapult_android_systrace.html") else {
        return;
    };
    assert_eq!(s.format, "systrace-html");
    events(
        &s,
        &[
            ("0", 13_578),
            ("sched_switch", 11_074),
            ("sched_wakeup", 6_827),
        ],
    );
    assert_eq!(s.events.values().sum::<u64>(), 31_479);
    assert_eq!(s.threads, 64);
    near(s.span_s, 5.000113, 1e-9);
    busy(&s, &[(0, 33.87), (1, 5.37)]);
    near(s.tlp.unwrap(), 1.0576, 5e-5);
    assert_eq!(s.incomplete, None);
}

#[test]
fn plain_ftrace_text() {
    let Some(s) = summary("systrace/catapult_android_systrace.txt") else {
        return;
    };
    events(&s, &[("sched_switch", 58), ("sched_wakeup", 33)]);
    near(s.span_s, 0.119915, 1e-9);
    busy(&s, &[(0, 18.31)]);
    assert_eq!(s.incomplete, None);
}

#[test]
fn atrace_compressed_or_not() {
    let (Some(plain), Some(packed)) = (
        summary("systrace/catapult_decompressed_atrace.txt"),
        summary("systrace/catapult_compressed_atrace.bin"),
    ) else {
        return;
    };
    events(&plain, &[("tracing_mark_write", 1_042)]);
    assert_eq!(plain.tlp, None);
    assert_eq!(plain.incomplete, None);
    assert_eq!(plain, packed);
}

#[test]
fn new_systrace_pages() {
    let Some(s) = summary("systrace/trappy_surfaceflinger.html") else {
        return;
    };
    events(
        &s,
        &[
            ("sched_switch", 715),
            ("cpu_idle", 621),
            ("sched_wakeup", 421),
            ("tracing_mark_write", 160),
            ("cpu_frequency", 104),
            ("sched_blocked_reason", 31),
        ],
    );
    assert_eq!(s.events.values().sum::<u64>(), 2_506);
    near(s.tlp.unwrap(), 1.3526, 5e-5);
    assert_eq!(s.incomplete, None);
}

#[test]
fn zipped_systrace_pages() {
    if let Some(s) = summary("systrace/gracker_xiaomi_launcher.html.zip") {
        events(
            &s,
            &[
                ("sched_switch", 58_652),
                ("tracing_mark_write", 51_107),
                ("sched_wakeup", 32_400),
                ("cpu_idle", 28_900),
                ("sched_blocked_reason", 6_985),
                ("binder_transaction", 3_250),
                ("cpu_frequency", 1_059),
            ],
        );
        assert_eq!(s.events.values().sum::<u64>(), 190_668);
        assert_eq!(s.threads, 412);
        let shares = [29.17, 26.30, 26.32, 23.76, 1.84, 15.37, 9.51, 5.65];
        busy(&s, &(0..).zip(shares).collect::<Vec<_>>());
        near(s.tlp.unwrap(), 2.2820, 5e-5);
        assert_eq!(s.incomplete, None);
    }
    if let Some(s) = summary("systrace/gracker_wangzherongyao.html.zip") {
        events(
            &s,
            &[
                ("sched_switch", 39_334),
                ("sched_waking", 21_288),
                ("sched_wakeup", 21_288),
                ("tracing_mark_write", 20_800),
                ("cpu_frequency", 1_277),
                ("binder_transaction", 1_018),
            ],
        );
        assert_eq!(s.events.values().sum::<u64>(), 116_070);
        assert_eq!(s.threads, 189);
        near(s.tlp.unwrap(), 2.4614, 5e-5);
        assert_eq!(s.incomplete, None);
    }
}

#[test]
fn edge_cases() {
    for (name, count) in [
        ("systrace/catapult_trivial_systrace.html", 4),
        ("systrace/perfetto_sched_blocked.systrace", 6),
        ("systrace/perfetto_cpu_frequency_limits.systrace", 12),
        // Five lines, of which two continue the first event.
        ("systrace/perfetto_bad_print.systrace", 3),
        ("systrace/perfetto_unknown_thread_name.systrace", 2),
    ] {
        let Some(s) = summary(name) else { continue };
        assert_eq!(s.events.values().sum::<u64>(), count, "{name}");
        assert_eq!(s.incomplete, None, "{name}");
    }
}

#[test]
fn trace_cmd_reports() {
    if let Some(s) = summary("ftrace/lisa_trace.txt") {
        events(
            &s,
            &[
                ("sched_switch", 1_856),
                ("sched_wakeup", 1_068),
                ("print", 14),
                ("sched_overutilized", 3),
            ],
        );
        assert_eq!(s.events.values().sum::<u64>(), 2_941);
        assert_eq!(s.threads, 51);
        near(s.span_s, 6.676497, 1e-9);
        busy(&s, &[(4, 55.32)]);
        near(s.tlp.unwrap(), 1.0034, 5e-5);
    }
    if let Some(s) = summary("ftrace/lisa_sched_load.trace-cmd-report.txt") {
        events(&s, &[("sched_switch", 399)]);
        near(s.span_s, 0.347778, 1e-9);
        near(s.tlp.unwrap(), 1.2877, 5e-5);
    }
    if let Some(s) = summary("ftrace/trappy_thermal_trace.txt") {
        events(
            &s,
            &[("cdev_update", 201), ("thermal_power_cpu_get_power", 134)],
        );
        assert_eq!(s.events.values().sum::<u64>(), 804);
    }
    if let Some(s) = summary("ftrace/trappy_filesystem_trace.txt") {
        assert_eq!(s.events.values().sum::<u64>(), 69);
    }
}

#[test]
fn truncated_text_is_reported() {
    for name in [
        "systrace/catapult_trivial_systrace.html",
        "systrace/perfetto_bad_print.systrace",
        "systrace/perfetto_sched_blocked.systrace",
    ] {
        let Some(path) = sample(name) else { continue };
        let whole = std::fs::read(path).unwrap();
        for n in 0..whole.len() {
            match Summary::of(&whole[..n]) {
                Ok(s) if name.ends_with("html") => {
                    // The page's end after the data is no loss.
                    assert!(
                        s.incomplete.is_some() || n + 40 > whole.len(),
                        "{name} cut at {n}"
                    );
                }
                Ok(s) => {
                    let at_line_end = whole[..n].ends_with(b"\n");
                    assert!(
                        s.incomplete.is_some() || at_line_end || n + 1 >= whole.len(),
                        "{name} cut at {n}"
                    );
                }
                Err(e) => assert!(!e.to_string().is_empty()),
            }
        }
    }
}

#[test]
fn truncated_archives_deliver_the_data_before_the_end() {
    let Some(path) = sample("systrace/catapult_compressed_atrace.bin") else {
        return;
    };
    let whole = std::fs::read(path).unwrap();
    let s = Summary::of(&whole[..4_000]).unwrap();
    let count = s.events["tracing_mark_write"];
    assert!((100..1_042).contains(&count), "{count}");
    assert!(s.incomplete.unwrap().contains("compressed data"));
}

#[test]
fn other_files_are_refused() {
    let kind = |bytes: &[u8]| Summary::of(bytes).unwrap_err().kind;
    assert!(matches!(kind(b""), ErrorKind::Empty));
    assert!(matches!(
        kind(b"\x89PNG\r\n\x1a\n 1234"),
        ErrorKind::UnknownFormat(_)
    ));
    assert!(matches!(
        kind(b"To be, or not to be\n"),
        ErrorKind::UnknownFormat(_)
    ));
    let wide = Summary::of(b"\xff\xfe#\0 \0".as_slice()).unwrap_err();
    assert!(wide.to_string().contains("UTF-16"), "{wide}");
    let page = Summary::of(b"<!DOCTYPE html>\n<html></html>\n".as_slice()).unwrap_err();
    assert!(page.to_string().contains("no trace data"), "{page}");
    assert!(open(std::path::Path::new("/nonexistent")).is_err());
}

const TRACE: &str = "\
# tracer: nop
 a-1 [000] d..2 100.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
    prev_state=R ==> next_comm=a next_pid=1 next_prio=120
 a-1 [000] d..2 101.000000: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> \
    next_comm=swapper/0 next_pid=0 next_prio=120
 a-1 [000] d..2 103.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
    prev_state=R ==> next_comm=a next_pid=1 next_prio=120
 a-1 [000] d..2 104.000000: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> \
    next_comm=swapper/0 next_pid=0 next_prio=120
";

#[test]
fn reordered_and_repeated_lines_are_reported() {
    let good = Summary::of(TRACE.as_bytes()).unwrap();
    assert_eq!(good.incomplete, None);
    near(good.cpus[0].busy_percent, 50.0, 1e-9);

    let reversed: String = TRACE.lines().rev().map(|l| format!("{l}\n")).collect();
    let s = Summary::of(reversed.as_bytes()).unwrap();
    assert_eq!(s.concurrency_percent, good.concurrency_percent);
    assert!(s.incomplete.unwrap().contains("out of time order"));

    let doubled: String = TRACE.lines().map(|l| format!("{l}\n{l}\n")).collect();
    let s = Summary::of(doubled.as_bytes()).unwrap();
    assert_eq!(s.concurrency_percent, good.concurrency_percent);
    assert!(s.incomplete.unwrap().contains("repeat"));

    let twice = format!("{TRACE}{TRACE}");
    let s = Summary::of(twice.as_bytes()).unwrap();
    assert_eq!(s.concurrency_percent, good.concurrency_percent);
    assert!(s.incomplete.is_some());
}

/// A switch whose previous task is not the one switched in last: events are missing.
#[test]
fn missing_switches_are_noted() {
    let mut lines: Vec<&str> = TRACE.lines().collect();
    lines.remove(2);
    let s = Summary::of(format!("{}\n", lines.join("\n")).as_bytes()).unwrap();
    assert_eq!(
        s.notes,
        [
            "1 sched_switch events do not follow from the previous one on their CPU: events are \
          missing between them"
        ]
    );
}

#[test]
fn a_stray_event_does_not_stretch_the_window() {
    let mut text = String::new();
    for i in 0..20 {
        text += &TRACE.replace(" 10", &format!(" {}", 10 + i));
    }
    let good = Summary::of(text.as_bytes()).unwrap();
    let stray = TRACE
        .lines()
        .nth(1)
        .unwrap()
        .replace("100.0", "1234567890.0");
    let s = Summary::of(format!("{text}{stray}\n").as_bytes()).unwrap();
    near(s.span_s, good.span_s, 1e-9);
    near(s.cpus[0].busy_percent, good.cpus[0].busy_percent, 1e-9);
    assert!(s.incomplete.unwrap().contains("far outside"));
}

#[test]
fn recorded_losses_are_reported() {
    let text = format!(
        "# entries-in-buffer/entries-written: 4/1000   #P:2\n{TRACE}CPU:1 [LOST 123 EVENTS]\n"
    );
    let why = Summary::of(text.as_bytes()).unwrap().incomplete.unwrap();
    assert!(why.contains("4 of 1000"), "{why}");
    assert!(why.contains("123 events lost on CPU 1"), "{why}");
    let text = format!("{TRACE}CPU:4 [77 EVENTS DROPPED]\n");
    let why = Summary::of(text.as_bytes()).unwrap().incomplete.unwrap();
    assert!(why.contains("77 events lost on CPU 4"), "{why}");
}

#[test]
fn clock_sync_markers_relate_clocks() {
    let Some(t) = super::usage::trace("systrace/catapult_decompressed_atrace.txt") else {
        return;
    };
    let map = ClockMap::new(&t.clocks);
    // Its first line: 683201.354908 on the trace's clock is 683201.375 on the
    // monotonic one.
    let monotonic = map.convert(683_201_354_908_000, Clock::Trace, Clock::Monotonic);
    assert_eq!(monotonic, Some(683_201_375_000_000));
}

#[test]
fn carriage_returns_are_ignored() {
    let windows = TRACE.replace('\n', "\r\n");
    assert_eq!(
        Summary::of(windows.as_bytes()).unwrap(),
        Summary::of(TRACE.as_bytes()).unwrap()
    );
}
