//! Streaming method traces (ART): method and thread names between the records, a summary at the
//! end.

use super::classic::HeaderReader;
use super::record::{Layout, SingleClock, method_line, u16_le, u32_le};
use crate::error::{Incomplete, TraceError};
use crate::event::ThreadInfo;
use crate::sink::Sink;
use crate::source::Source;

/// Record types after thread id 0.
const NEW_METHOD: u8 = 1;
const NEW_THREAD: u8 = 2;
const SUMMARY: u8 = 3;

/// Maximum length of a summary, which lists all threads and methods by name.
const MAX_SUMMARY_BYTES: u32 = 64 << 20;

/// Reads a trace to the end of the source.
pub(crate) fn read(source: &mut Source<'_>, sink: &mut dyn Sink) -> Result<(), TraceError> {
    sink.header("method-trace", "streaming");
    let layout = Layout::read(source, true, SingleClock::Wall)?;
    sink.header("start-time-usec", &layout.start_us.to_string());
    let mut summary = false;
    let mut damaged = None;
    loop {
        let at = source.offset();
        let head = source.peek(3)?;
        if head.is_empty() {
            break;
        }
        let special = u16_le(head) == 0 && layout.version > 1;
        let done = if special {
            match head.get(2) {
                Some(&NEW_METHOD) => new_method(source, sink)?,
                Some(&NEW_THREAD) => new_thread(source, sink)?,
                Some(&SUMMARY) => {
                    summary = true;
                    read_summary(source, sink)?
                }
                Some(_) => {
                    // The length of an unknown record type is unknown, too.
                    damaged = Some(at);
                    break;
                }
                None => false,
            }
        } else {
            match source.exactly(layout.record_bytes)? {
                Some(bytes) => {
                    match layout.decode(bytes) {
                        Some(r) => sink.method(r),
                        None => {
                            damaged = Some(at);
                            break;
                        }
                    }
                    true
                }
                None => false,
            }
        };
        if !done {
            sink.incomplete(Incomplete::Truncated {
                offset: at,
                what: "a record".into(),
            });
            return Ok(());
        }
    }
    if let Some(offset) = damaged {
        sink.incomplete(Incomplete::Skipped {
            offset,
            count: 1,
            what: "invalid record (with the rest of the file)".into(),
        });
    } else if !summary {
        sink.incomplete(Incomplete::Truncated {
            offset: source.offset(),
            what: "the trace (no summary)".into(),
        });
    }
    Ok(())
}

/// A new method: length (two bytes), then a line of the method list as in the classic header.
fn new_method(source: &mut Source<'_>, sink: &mut dyn Sink) -> Result<bool, TraceError> {
    let Some(head) = source.exactly(5)? else {
        return Ok(false);
    };
    let len = usize::from(u16_le(head.get(3..).unwrap_or_default()));
    let Some(line) = source.exactly(len)? else {
        return Ok(false);
    };
    if let Some((id, name)) = method_line(String::from_utf8_lossy(line).trim_end()) {
        sink.method_name(id, &name);
    }
    Ok(true)
}

/// A new thread: thread id, length of the name, name.
fn new_thread(source: &mut Source<'_>, sink: &mut dyn Sink) -> Result<bool, TraceError> {
    let Some(head) = source.exactly(7)? else {
        return Ok(false);
    };
    let tid = u32::from(u16_le(head.get(3..).unwrap_or_default()));
    let len = usize::from(u16_le(head.get(5..).unwrap_or_default()));
    let Some(name) = source.exactly(len)? else {
        return Ok(false);
    };
    sink.thread(ThreadInfo {
        tid,
        process: None,
        name,
        kernel: false,
    });
    Ok(true)
}

fn read_summary(source: &mut Source<'_>, sink: &mut dyn Sink) -> Result<bool, TraceError> {
    let at = source.offset();
    let Some(head) = source.exactly(7)? else {
        return Ok(false);
    };
    let len = u32_le(head.get(3..).unwrap_or_default());
    if len > MAX_SUMMARY_BYTES {
        return Err(TraceError::malformed(
            at,
            format!("invalid summary length {len}"),
        ));
    }
    let Some(text) = source.exactly(len as usize)? else {
        return Ok(false);
    };
    let mut header = HeaderReader::new();
    for line in String::from_utf8_lossy(text).lines() {
        if header.line(line, sink) {
            break;
        }
    }
    Ok(true)
}
