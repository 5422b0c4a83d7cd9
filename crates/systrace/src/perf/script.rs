//! Output of `perf script`, and of simpleperf's `report_sample.py`: per sample a header line, its
//! frames and a blank line.

use mpbond_units::Timestamp;
use rustc_hash::FxHashMap;

use super::symbols::{Symbols, object_symbol};
use crate::error::{Incomplete, TraceError};
use crate::event::Sample;
use crate::sink::Sink;
use crate::source::Source;

/// Header line of a sample: `comm pid[/tid] [cpu] time: period event:`, most parts optional. In
/// simpleperf's form tabs separate the task name and the period from the other parts.
struct Head<'a> {
    comm: &'a str,
    process: Option<u32>,
    tid: u32,
    cpu: Option<u32>,
    time: Option<Timestamp>,
    period: Option<u64>,
    event: &'a str,
    /// Text after the event name: an address and symbol, if the frame is on the same line.
    rest: &'a str,
}

/// Maximum length of a task name, bytes: TASK_COMM_LEN without the terminator.
const MAX_COMM_BYTES: usize = 15;

/// The same where a tab follows: simpleperf names main threads after the app's package.
const MAX_PACKAGE_BYTES: usize = 255;

/// Whether a line identifies the format. The check is stricter than for the lines that follow,
/// because prose may also contain a number and a colon ("it holds 3 events: ...").
pub(crate) fn is_head(line: &[u8]) -> bool {
    let head = std::str::from_utf8(line).ok().and_then(Head::parse);
    head.is_some_and(|h| {
        let address = h.rest.split(' ').next().unwrap_or_default();
        let address = address.bytes().all(|b| b.is_ascii_hexdigit());
        let most = match line.get(h.comm.len()) {
            Some(b'\t') => MAX_PACKAGE_BYTES,
            _ => MAX_COMM_BYTES,
        };
        h.comm.len() <= most && address
    })
}

impl<'a> Head<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        if line.starts_with(['\t', '#']) {
            return None;
        }
        let text = line.trim_start();
        let mut at = 0;
        // The task name may contain spaces and digits: the pid is the first number that is followed
        // by a valid rest of a header line.
        loop {
            let space = text.get(at..)?.find(BLANKS)? + at;
            let after = text.get(space..)?;
            let word_at = space + (after.len() - after.trim_start_matches(BLANKS).len());
            if let Some(head) = Self::after_comm(text.get(..space)?, text.get(word_at..)?) {
                return Some(head);
            }
            at = word_at;
        }
    }

    fn after_comm(comm: &'a str, text: &'a str) -> Option<Self> {
        let mut rest = text;
        let ids = word(&mut rest)?;
        let (process, tid) = match ids.split_once('/') {
            Some((p, t)) => (Some(p.parse().ok()?), t.parse().ok()?),
            // The idle tasks and lost threads have pid -1.
            None if ids == "-1" => (None, 0),
            None => (None, ids.parse().ok()?),
        };
        let mut next = word(&mut rest)?;
        let mut cpu = None;
        if let Some(inner) = next.strip_prefix('[').and_then(|w| w.strip_suffix(']')) {
            cpu = Some(inner.parse().ok()?);
            next = word(&mut rest)?;
        }
        let mut time = None;
        if let Some(t) = next.strip_suffix(':').and_then(seconds) {
            time = Some(t);
            next = word(&mut rest)?;
        }
        let mut period = None;
        if let Ok(p) = next.parse() {
            period = Some(p);
            next = word(&mut rest)?;
        }
        let event = next.strip_suffix(':')?;
        let named = event.bytes().any(|b| b.is_ascii_alphabetic());
        let clean = event
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_:./=,@".contains(&b));
        // At least one more sign besides the task name that the line is not prose.
        if !named || !clean || comm.is_empty() {
            return None;
        }
        Some(Self {
            comm: comm.trim_end(),
            process,
            tid,
            cpu,
            time,
            period,
            event,
            rest: rest.trim(),
        })
    }
}

/// Separators of the parts.
const BLANKS: [char; 2] = [' ', '\t'];

fn word<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let text = rest.trim_start_matches(BLANKS);
    let end = text.find(BLANKS).unwrap_or(text.len());
    let (word, after) = text.split_at_checked(end)?;
    *rest = after;
    (!word.is_empty()).then_some(word)
}

/// Parses a time such as `441995.133575`, with up to nanosecond precision.
fn seconds(text: &str) -> Option<Timestamp> {
    let (secs, fraction) = text.split_once('.')?;
    let secs: u64 = secs.parse().ok()?;
    if fraction.is_empty() || fraction.len() > 9 || secs >= 1 << 32 {
        return None;
    }
    let value: u64 = fraction.parse().ok()?;
    let scale = 10u64.pow(9 - fraction.len() as u32);
    Some(Timestamp::from_nanos(secs * 1_000_000_000 + value * scale))
}

/// A sample whose frames are still being read.
#[derive(Default)]
struct Open {
    comm: String,
    event: String,
    process: Option<u32>,
    tid: u32,
    cpu: Option<u32>,
    time: Option<Timestamp>,
    period: Option<u64>,
    frames: Vec<u64>,
}

impl Open {
    fn begin(
        &mut self,
        head: &Head<'_>,
        fixed: Option<u64>,
        symbols: &mut Symbols,
        sink: &mut dyn Sink,
    ) {
        self.comm.clear();
        self.comm.push_str(head.comm);
        self.event.clear();
        self.event.push_str(head.event);
        self.process = head.process;
        self.tid = head.tid;
        self.cpu = head.cpu;
        self.time = head.time;
        self.period = head.period.or(fixed);
        self.frames.clear();
        if !head.rest.is_empty() {
            self.frame(head.rest, symbols, sink);
        }
    }

    /// A frame line: `59fef5 symbol+0x1 (object)`.
    fn frame(&mut self, text: &str, symbols: &mut Symbols, sink: &mut dyn Sink) {
        let symbol = text.split_once(' ').map_or("", |(_, symbol)| symbol);
        let (symbol, object) = match symbol.rsplit_once(" (") {
            Some((symbol, object)) => (symbol, object.trim_end_matches(')')),
            None => (symbol, ""),
        };
        let symbol = symbol.rsplit_once("+0x").map_or(symbol, |(s, _)| s).trim();
        let id = match symbol {
            "" | "[unknown]" | "unknown" => symbols.id(&object_symbol(object), sink),
            named => symbols.id(named, sink),
        };
        self.frames.push(id);
    }

    fn emit(&self, sink: &mut dyn Sink) {
        sink.sample(&Sample {
            time: self.time,
            cpu: self.cpu,
            process: self.process,
            tid: self.tid,
            comm: self.comm.as_bytes(),
            event: &self.event,
            period: self.period,
            frames: &self.frames,
        });
    }
}

/// Reads samples to the end of the source.
pub(crate) fn read(source: &mut Source<'_>, sink: &mut dyn Sink) -> Result<(), TraceError> {
    let mut open = Open::default();
    let mut symbols = Symbols::default();
    let mut is_open = false;
    let mut foreign = (0, 0u64);
    let mut fixed = FxHashMap::default();
    let mut cut = None;
    while let Some(line) = source.line()? {
        let offset = line.offset;
        if !line.terminated {
            cut = Some(offset);
        }
        let text = String::from_utf8_lossy(line.bytes);
        if line.overlong {
            foreign = (offset, foreign.1 + 1);
        } else if text.trim().is_empty() {
            if is_open {
                open.emit(sink);
                is_open = false;
            }
        } else if text.starts_with('#') {
            header(&text, &mut fixed, sink);
        } else if let Some(head) = Head::parse(&text) {
            if is_open {
                open.emit(sink);
            }
            let period = fixed.get(head.event).copied();
            open.begin(&head, period, &mut symbols, sink);
            is_open = true;
        } else if is_open && text.starts_with(['\t', ' ']) {
            open.frame(text.trim(), &mut symbols, sink);
        } else {
            if foreign.1 == 0 {
                foreign.0 = offset;
            }
            foreign.1 += 1;
        }
    }
    if is_open {
        open.emit(sink);
    }
    if let Some(offset) = cut {
        sink.incomplete(Incomplete::Truncated {
            offset,
            what: "a line (no line feed)".into(),
        });
    }
    if foreign.1 > 0 {
        sink.incomplete(Incomplete::Skipped {
            offset: foreign.0,
            count: foreign.1,
            what: "lines outside of samples".into(),
        });
    }
    Ok(())
}

/// A `#` header line. Events with a fixed period (`-c`) have it in the header, because the samples
/// do not repeat it.
fn header(line: &str, fixed: &mut FxHashMap<String, u64>, sink: &mut dyn Sink) {
    let Some((key, value)) = line.trim_start_matches('#').split_once(':') else {
        return;
    };
    let (key, value) = (key.trim(), value.trim());
    if key == "event" {
        let name = value
            .strip_prefix("name = ")
            .and_then(|v| v.split(',').next());
        let period = value
            .split_once("sample_freq } = ")
            .and_then(|(_, v)| v.split(',').next()?.trim().parse().ok());
        let by_frequency = value.contains("freq = 1,") || value.ends_with("freq = 1");
        if let (Some(name), Some(period), false) = (name, period, by_frequency)
            && fixed.len() < 1024
        {
            fixed.insert(name.trim().to_owned(), period);
        }
    } else if !value.is_empty() {
        sink.header(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_not_a_header_line() {
        for line in [
            "It holds 3 events: sched_switch and more",
            "the event counts by an independent count of 31 lines:",
            "| a | 4 tasks: twelve |",
        ] {
            assert!(!is_head(line.as_bytes()), "{line}");
        }
        for line in [
            "java  3244 cpu-clock:",
            "swapper     0 [002] 441995.133575: 1 cycles:",
            "com.example.application\t2345 [003] 11.000250:\t\t250000 cpu-cycles:",
            "noploop 21796/21797 12.5: 250000 cycles:ppp:  ffffffff8103ce17 native_write_msr ([k])",
        ] {
            assert!(is_head(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn heads_of_every_shape() {
        let h = Head::parse("iperf 27409/28744 [000] 441995.133575: cpu-clock: ").unwrap();
        assert_eq!(
            (h.comm, h.process, h.tid, h.cpu),
            ("iperf", Some(27409), 28744, Some(0))
        );
        assert_eq!(h.time.unwrap().as_nanos(), 441_995_133_575_000);
        let h = Head::parse("java  3244 cpu-clock: ").unwrap();
        assert_eq!((h.tid, h.time, h.event), (3244, None, "cpu-clock"));
        let h = Head::parse("Web Content 12 34 [002] 1.5:  1001001 cycles:u:  7f00 main+0x1 (a)")
            .unwrap();
        assert_eq!(
            (h.comm, h.tid, h.period),
            ("Web Content 12", 34, Some(1_001_001))
        );
        assert_eq!((h.event, h.rest), ("cycles:u", "7f00 main+0x1 (a)"));
        let h =
            Head::parse("com.example.app\t2345 [003] 11.000250:\t\t250000 cpu-cycles:").unwrap();
        assert_eq!((h.comm, h.tid, h.cpu), ("com.example.app", 2345, Some(3)));
        assert_eq!((h.period, h.event), (Some(250_000), "cpu-cycles"));
        assert_eq!(h.time.unwrap().as_nanos(), 11_000_250_000);
        for no in [
            "",
            "# x 1 y:",
            "\t 12 sym (dso)",
            "hello 12 [x] y:",
            "a 1 b",
            "To be 2 (b:",
        ] {
            assert!(Head::parse(no).is_none(), "{no}");
        }
    }
}
