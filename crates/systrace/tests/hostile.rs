//! Hostile input: no reader panics, hangs or allocates more than the file can fill.
#![allow(clippy::unwrap_used)]

use mpbond_systrace::{Report, ReportOptions, Summary};
use proptest::prelude::*;

/// Start of the file for each reader.
const MAGICS: &[&[u8]] = &[
    b"# tracer: nop\n",
    b"<!DOCTYPE html>\n  <script class=\"trace-data\" type=\"application/text\">\n",
    b"TRACE:\n\x78\x9c",
    b"TRACE:\n",
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00",
    b"PK\x03\x04\x14\x00\x08\x00\x08\x00\x00\x00\x00\x00",
    b"\x28\xb5\x2f\xfd",
    b"\x17\x08\x44tracing6\0\x00\x08\x00\x10\x00\x00header_page\0",
    b"\x17\x08\x44tracing7\0\x00\x08\x00\x10\x00\x00none\0\0",
    b"\x0a\x10\x40\x01\x50\x01",
    b"\x0a\x7f\x0a\x7d\x08\x01\x12",
    b"*version\n3\n*end\nSLOW\x03\x00\x20\x00",
    b"SLOW\xf3\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0e\x00\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"PERFILE2\x68\0\0\0\0\0\0\0",
    b"PERFILE2\x10\0\0\0\0\0\0\0",
    b"SIMPLEPERF\x01\x00",
    b"java  3244 cpu-clock: \n",
];

/// Tokens of trace text, to be combined at random.
const WORDS: &[&str] = &[
    "a-1",
    "<...>-99",
    "<idle>-0",
    "(-----)",
    "(  12)",
    "[000]",
    "[001]",
    "d..2",
    "1.000001:",
    "99999999999.1:",
    "2.5:",
    "sched_switch:",
    "prev_comm=a",
    "prev_pid=1",
    "prev_pid=",
    "prev_prio=120",
    "prev_state=R+",
    "prev_state=64",
    "==>",
    "next_comm=b",
    "next_pid=2",
    "next_prio=120",
    "sched_wakeup:",
    "comm=c",
    "pid=3",
    "target_cpu=001",
    "tracing_mark_write:",
    "B|1|x",
    "E|1",
    "E",
    "C|1|y|9",
    "S|1|z|5",
    "binder_transaction:",
    "transaction=7",
    "dest_proc=1",
    "dest_thread=1",
    "reply=1",
    "flags=0x10",
    "code=0x1",
    "binder_transaction_received:",
    "cpu_idle:",
    "state=4294967295",
    "cpu_id=0",
    "block_rq_issue:",
    "8,0",
    "R",
    "+",
    "[sh]",
    "a:1 [120] R ==> b:2 [120]",
    "\\n\\",
    "\n",
    "\n",
    "\n",
    "# comment",
    "</script>",
];

proptest! {
    #[test]
    fn any_bytes_after_any_magic(
        which in 0..MAGICS.len(),
        tail in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let bytes = [MAGICS[which], &tail].concat();
        if let Err(e) = Summary::of(bytes.as_slice()) {
            prop_assert!(!e.to_string().contains('\n'));
        }
    }

    #[test]
    fn any_words_give_a_page(words in prop::collection::vec(prop::sample::select(WORDS), 0..120)) {
        let text = format!("# tracer: nop\n{}\n", words.join(" "));
        if let Ok(r) = Report::of(text.as_bytes(), &ReportOptions::default()) {
            prop_assert!(r.html("x").ends_with("</html>\n"));
        }
    }

    /// Lines in any order, with repetitions: shares stay between 0 and 1.
    #[test]
    fn switches_in_any_order(
        list in prop::collection::vec((0u32..4, 0u64..5_000, 0u32..3, 0u32..3), 1..60),
    ) {
        let text: String = list
            .iter()
            .map(|(cpu, ms, prev, next)| format!(
                " x-{prev} [00{cpu}] d..2 10.{ms:03}000: sched_switch: prev_comm=p \
                 prev_pid={prev} prev_prio=120 prev_state=S ==> next_comm=n next_pid={next} \
                 next_prio=120\n"
            ))
            .collect();
        let s = Summary::of(text.as_bytes()).unwrap();
        let total: f64 = s.concurrency_percent.iter().sum();
        prop_assert!(s.concurrency_percent.is_empty() || (total - 100.0).abs() < 1e-6);
        prop_assert!(s.cpus.iter().all(|c| (0.0..=100.000001).contains(&c.busy_percent)));
        if let Some(tlp) = s.tlp {
            prop_assert!((1.0..=4.0).contains(&tlp));
        }
        Report::of(text.as_bytes(), &ReportOptions::default()).unwrap();
    }
}

/// Lengths that promise more than the file holds reserve nothing.
#[test]
fn excessive_lengths_are_refused_or_truncated() {
    let packet = b"\x0a\xff\xff\xff\x3f\x40\x01";
    let s = Summary::of(packet.as_slice()).unwrap();
    assert!(s.incomplete.unwrap().contains("inside a packet"));
    let mut simple = b"SIMPLEPERF\x01\x00".to_vec();
    simple.extend(u32::MAX.to_le_bytes());
    assert!(Summary::of(simple.as_slice()).unwrap().incomplete.is_some());
    let dat = b"\x17\x08\x44tracing6\0\x00\x08\x00\x10\x00\x00header_page\0\
                \xff\xff\xff\xff\xff\xff\xff\xff";
    let e = Summary::of(dat.as_slice()).unwrap_err();
    assert!(e.to_string().contains("invalid length"), "{e}");
}
