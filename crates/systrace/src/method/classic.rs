//! Classic method traces: a text header (`*version` … `*end`) followed by the records.

use super::record::{Layout, SingleClock, method_line};
use crate::error::{Incomplete, TraceError};
use crate::event::ThreadInfo;
use crate::sink::Sink;
use crate::source::Source;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Facts,
    Threads,
    Methods,
}

/// Header values needed to decode the records.
pub(super) struct Facts {
    pub single: SingleClock,
    pub calls: Option<u64>,
}

/// Parser of the header, or of the summary of a streaming trace. `line` returns true at the end.
pub(super) struct HeaderReader {
    section: Section,
    pub facts: Facts,
}

impl HeaderReader {
    pub(super) fn new() -> Self {
        Self {
            section: Section::Facts,
            facts: Facts {
                single: SingleClock::Cpu,
                calls: None,
            },
        }
    }

    pub(super) fn line(&mut self, line: &str, sink: &mut dyn Sink) -> bool {
        match line.trim_end() {
            "*version" => self.section = Section::Facts,
            "*threads" => self.section = Section::Threads,
            "*methods" => self.section = Section::Methods,
            "*end" => return true,
            line => match self.section {
                Section::Facts => self.fact(line, sink),
                Section::Threads => {
                    if let Some((tid, name)) = line.split_once('\t')
                        && let Ok(tid) = tid.parse()
                    {
                        sink.thread(ThreadInfo {
                            tid,
                            process: None,
                            name: name.as_bytes(),
                            kernel: false,
                        });
                    }
                }
                Section::Methods => {
                    if let Some((id, name)) = method_line(line) {
                        sink.method_name(id, &name);
                    }
                }
            },
        }
        false
    }

    fn fact(&mut self, line: &str, sink: &mut dyn Sink) {
        let Some((key, value)) = line.split_once('=') else {
            sink.header("version", line);
            return;
        };
        match (key, value) {
            ("clock", "wall") => self.facts.single = SingleClock::Wall,
            ("num-method-calls", n) => self.facts.calls = n.parse().ok(),
            ("data-file-overflow", "true") => sink.incomplete(Incomplete::Dropped(
                "the trace buffer overflowed (data-file-overflow): the end is missing".into(),
            )),
            _ => {}
        }
        sink.header(key, value);
    }
}

/// Reads a trace to the end of the source.
pub(crate) fn read(source: &mut Source<'_>, sink: &mut dyn Sink) -> Result<(), TraceError> {
    sink.header("method-trace", "classic");
    let mut header = HeaderReader::new();
    loop {
        let at = source.offset();
        let Some(line) = source.line()? else {
            return Err(TraceError::malformed(
                at,
                "the file ends before the header's *end",
            ));
        };
        if line.overlong {
            return Err(TraceError::malformed(
                line.offset,
                "a header line is longer than a megabyte",
            ));
        }
        let text = String::from_utf8_lossy(line.bytes);
        if header.line(&text, sink) {
            break;
        }
    }
    let layout = Layout::read(source, false, header.facts.single)?;
    sink.header("start-time-usec", &layout.start_us.to_string());
    let mut records = 0u64;
    let mut unknown = (0, 0);
    loop {
        let at = source.offset();
        let Some(bytes) = source.exactly(layout.record_bytes)? else {
            break;
        };
        match layout.decode(bytes) {
            Some(r) => {
                records += 1;
                sink.method(r);
            }
            None => {
                if unknown.1 == 0 {
                    unknown.0 = at;
                }
                unknown.1 += 1;
            }
        }
    }
    if unknown.1 > 0 {
        sink.incomplete(Incomplete::Skipped {
            offset: unknown.0,
            count: unknown.1,
            what: "records with an unknown action".into(),
        });
    }
    let rest = source.peek(1)?.len();
    match header.facts.calls {
        Some(calls) if records + unknown.1 < calls => sink.incomplete(Incomplete::Truncated {
            offset: source.offset(),
            what: format!("the records: {records} of {calls}"),
        }),
        _ if rest > 0 => sink.incomplete(Incomplete::Truncated {
            offset: source.offset(),
            what: "a record".into(),
        }),
        _ => {}
    }
    Ok(())
}
