//! ftrace text: the kernel's `trace` file, `trace-cmd report`, atrace, and the systrace HTML that
//! embeds them (format: Documentation/trace/ftrace.rst in the kernel sources).

mod digits;
mod head;
mod html;
mod payload;
mod pretty;

use crate::error::{Incomplete, TraceError};
use crate::event::{Event, ThreadInfo};
use crate::sink::Sink;
use crate::source::Source;

pub(crate) use head::Head;
pub(crate) use payload::{mark, net_point};

/// Container of the trace lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrapping {
    /// None: every line may be an event.
    Plain,
    /// An HTML page with data sections.
    Html,
}

/// Reads ftrace text to the end of the source.
pub(crate) fn read(
    source: &mut Source<'_>,
    wrapping: Wrapping,
    sink: &mut dyn Sink,
) -> Result<(), TraceError> {
    let mut reader = Reader::new(wrapping);
    while let Some(line) = source.line()? {
        if line.overlong {
            // Only HTML pages have long lines outside of their data.
            if wrapping == Wrapping::Plain {
                reader.foreign.add(line.offset);
            }
            continue;
        }
        reader.line(line.bytes, line.offset, line.terminated, sink);
    }
    reader.finish(source.offset(), sink)
}

#[derive(Default)]
struct Skipped {
    first: u64,
    count: u64,
}

impl Skipped {
    fn add(&mut self, offset: u64) {
        if self.count == 0 {
            self.first = offset;
        }
        self.count += 1;
    }
}

struct Reader {
    page: Option<html::Page>,
    process_list: Option<html::ProcessList>,
    after_event: bool,
    events: u64,
    foreign: Skipped,
    scratch: Vec<u8>,
    /// Offset of the last line if it lacks its line feed.
    cut: Option<u64>,
}

impl Reader {
    fn new(wrapping: Wrapping) -> Self {
        Self {
            page: (wrapping == Wrapping::Html).then(html::Page::new),
            process_list: None,
            after_event: false,
            events: 0,
            foreign: Skipped::default(),
            scratch: Vec::new(),
            cut: None,
        }
    }

    fn line(&mut self, raw: &[u8], offset: u64, terminated: bool, sink: &mut dyn Sink) {
        let mut line = raw.strip_suffix(b"\r").unwrap_or(raw);
        if let Some(page) = &mut self.page {
            match page.line(line) {
                html::Place::Outside => {
                    self.after_event = false;
                    self.process_list = None;
                    return;
                }
                html::Place::Inside => {}
            }
        }
        // A trace stored as a JavaScript string ends its lines with `\n\`, inside a page or
        // extracted from one.
        if let Some(inner) = line.strip_suffix(b"\\n\\") {
            if memchr::memchr(b'\\', inner).is_some() {
                html::unescape(inner, &mut self.scratch);
                let text = std::mem::take(&mut self.scratch);
                self.plain(&text, offset, terminated, sink);
                self.scratch = text;
                return;
            }
            line = inner;
        }
        self.plain(line, offset, terminated, sink);
    }

    fn plain(&mut self, line: &[u8], offset: u64, terminated: bool, sink: &mut dyn Sink) {
        if let Some(head) = Head::parse(line) {
            self.event(&head, sink);
            if !terminated {
                self.cut = Some(offset);
            }
            return;
        }
        self.stray_line(line, offset, terminated, sink);
    }

    fn event(&mut self, head: &Head<'_>, sink: &mut dyn Sink) {
        self.after_event = true;
        self.events += 1;
        sink.event(&Event {
            time: head.time,
            cpu: head.cpu,
            tid: head.tid,
            tgid: head.tgid,
            comm: head.comm,
            name: head.name,
            payload: payload::parse(head.name, head.args),
        });
    }

    #[cold]
    fn stray_line(&mut self, line: &[u8], offset: u64, terminated: bool, sink: &mut dyn Sink) {
        let text = line.trim_ascii();
        if text.is_empty() {
            if !terminated {
                self.cut = Some(offset);
            }
            return;
        }
        if text.starts_with(b"#") {
            self.after_event = false;
            comment(text, sink);
            return;
        }
        if let Some(what) = lost(text) {
            sink.incomplete(what);
            return;
        }
        if let Some(list) = html::ProcessList::header(text) {
            self.process_list = Some(list);
            return;
        }
        if let Some(list) = &self.process_list {
            if let Some((tid, process, name)) = list.row(text) {
                // `ps` prints the names of kernel threads in brackets.
                let bare = name.strip_prefix(b"[").and_then(|n| n.strip_suffix(b"]"));
                sink.thread(ThreadInfo {
                    tid,
                    process: Some(process),
                    name: bare.unwrap_or(name),
                    kernel: bare.is_some(),
                });
            }
            return;
        }
        if header_line(text, sink) || text == b"\\n\";" {
            return;
        }
        if self.page.is_some() && text.starts_with(b"{") {
            // JSON section of the recorder.
            return;
        }
        if !terminated {
            self.cut = Some(offset);
            return;
        }
        // Event text may contain line feeds: a line after an event that is not an event itself
        // belongs to it.
        if !self.after_event {
            self.foreign.add(offset);
        }
    }

    fn finish(&mut self, end: u64, sink: &mut dyn Sink) -> Result<(), TraceError> {
        if self.page.as_ref().is_some_and(|p| p.sections() == 0) {
            return Err(TraceError::malformed(
                end,
                "the page has no trace data (no trace-data script, no linuxPerfData)",
            ));
        }
        if let Some(page) = &self.page
            && page.open()
        {
            sink.incomplete(Incomplete::Truncated {
                offset: end,
                what: "the page's trace data (its script element is not closed)".into(),
            });
        } else if let Some(offset) = self.cut {
            sink.incomplete(Incomplete::Truncated {
                offset,
                what: "a line (no line feed)".into(),
            });
        }
        if self.foreign.count > 0 {
            sink.incomplete(Incomplete::Skipped {
                offset: self.foreign.first,
                count: self.foreign.count,
                what: "lines other than trace events".into(),
            });
        }
        Ok(())
    }
}

/// A comment line: `# entries-in-buffer/entries-written: 12/34   #P:8` and others.
fn comment(text: &[u8], sink: &mut dyn Sink) {
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let text = text.trim_start_matches('#').trim();
    if let Some(rest) = text.strip_prefix("entries-in-buffer/entries-written:") {
        let mut words = rest.split_whitespace();
        if let Some((kept, written)) = words.next().and_then(|w| w.split_once('/'))
            && let (Ok(kept), Ok(written)) = (kept.parse(), written.parse())
            && kept < written
        {
            sink.incomplete(Incomplete::Overwritten { kept, written });
        }
        if let Some(cpus) = words.find_map(|w| w.strip_prefix("#P:")) {
            sink.header("cpus", cpus);
        }
    } else if let Some(tracer) = text.strip_prefix("tracer:") {
        sink.header("tracer", tracer.trim());
    }
}

/// Header lines of `trace-cmd report`, and of `atrace` on a terminal.
fn header_line(text: &[u8], sink: &mut dyn Sink) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    if let Some((key, value)) = text.split_once('=') {
        let key = key.trim();
        if matches!(key, "version" | "cpus") {
            sink.header(key, value.trim());
            return true;
        }
    }
    (text.starts_with("CPU ") && text.ends_with(" is empty"))
        || text.starts_with("capturing trace...")
        || matches!(text, "TRACE:" | "PROCESS DUMP")
}

/// Lost events: `CPU:1 [LOST 123 EVENTS]` of the kernel, `CPU:1 [123 EVENTS DROPPED]` of trace-cmd.
fn lost(text: &[u8]) -> Option<Incomplete> {
    let text = std::str::from_utf8(text).ok()?;
    let rest = text.strip_prefix("CPU:")?;
    let (cpu, rest) = rest.split_once(' ')?;
    let rest = rest.trim().strip_prefix('[')?.strip_suffix(']')?;
    if !(rest.contains("LOST") || rest.contains("DROPPED")) {
        return None;
    }
    Some(Incomplete::LostEvents {
        cpu: cpu.parse().ok(),
        count: rest.split_whitespace().find_map(|w| w.parse().ok()),
    })
}
