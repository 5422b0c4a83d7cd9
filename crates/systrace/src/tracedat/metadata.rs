//! Metadata sections that versions 6 and 7 have in common.

use super::byte_order::ByteOrder;
use super::decode::Decoder;
use super::format::PageLayout;
use crate::error::TraceError;
use crate::event::ThreadInfo;
use crate::sink::Sink;
use crate::source::Source;

/// Maximum size of a metadata section; the kernel symbols and event formats take a tenth of it. A
/// larger size is a damaged length.
pub(super) const MAX_SECTION_BYTES: u64 = 256 << 20;

/// Byte order and page size from the start of the file.
pub(super) struct Preamble {
    pub order: ByteOrder,
    pub page_bytes: usize,
}

pub(super) fn event_systems(
    source: &mut Source<'_>,
    order: ByteOrder,
    decoder: &mut Decoder,
) -> Result<(), TraceError> {
    let systems = order.u32(required(source, 4, "the number of event systems")?);
    for _ in 0..systems {
        let system = string(source, "the name of an event system")?;
        let count = order.u32(required(source, 4, "the number of events")?);
        for _ in 0..count {
            decoder.format(
                length_prefixed(source, order, 8, "an event format")?,
                &system,
            );
        }
    }
    Ok(())
}

/// Layout of ring-buffer pages, from `header_page`.
pub(super) fn header_info(
    source: &mut Source<'_>,
    order: ByteOrder,
) -> Result<PageLayout, TraceError> {
    let at = source.offset();
    if string(source, "header_page")? != "header_page" {
        return Err(TraceError::malformed(at, "header_page expected"));
    }
    let layout = PageLayout::parse(length_prefixed(source, order, 8, "header_page")?, order)
        .ok_or_else(|| TraceError::malformed(at, "header_page lacks commit or data"))?;
    let at = source.offset();
    if string(source, "header_event")? != "header_event" {
        return Err(TraceError::malformed(at, "header_event expected"));
    }
    length_prefixed(source, order, 8, "header_event")?;
    Ok(layout)
}

/// Task names: `pid comm` per line.
pub(super) fn cmdlines(text: &[u8], sink: &mut dyn Sink) {
    for line in text.split(|b| *b == b'\n') {
        let line = line.trim_ascii_start();
        let Some(space) = memchr::memchr(b' ', line) else {
            continue;
        };
        let (pid, comm) = line.split_at(space);
        if let Some(tid) = std::str::from_utf8(pid).ok().and_then(|p| p.parse().ok()) {
            sink.thread(ThreadInfo {
                tid,
                process: None,
                name: comm.trim_ascii(),
                kernel: false,
            });
        }
    }
}

/// `[local] global mono`: the clock in use is in brackets.
pub(super) fn clock(data: &[u8], sink: &mut dyn Sink) {
    let text = text(data);
    let used = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(text.as_str(), |(name, _)| name);
    sink.header("clock", used.trim());
}

pub(super) fn text(data: &[u8]) -> String {
    let end = memchr::memchr(0, data).unwrap_or(data.len());
    String::from_utf8_lossy(data.get(..end).unwrap_or_default()).into_owned()
}

pub(super) fn byte(bytes: &[u8], i: usize) -> u8 {
    bytes.get(i).copied().unwrap_or_default()
}

/// `n` bytes of metadata that the rest of the file depends on.
pub(super) fn required<'s>(
    source: &'s mut Source<'_>,
    n: usize,
    what: &str,
) -> Result<&'s [u8], TraceError> {
    let at = source.offset();
    source
        .exactly(n)?
        .ok_or_else(|| TraceError::malformed(at, format!("the file ends inside {what}")))
}

/// Data with a length prefix of `width` bytes.
pub(super) fn length_prefixed<'s>(
    source: &'s mut Source<'_>,
    order: ByteOrder,
    width: usize,
    what: &str,
) -> Result<&'s [u8], TraceError> {
    let at = source.offset();
    let head = required(source, width, what)?;
    let len = if width == 4 {
        u64::from(order.u32(head))
    } else {
        order.u64(head)
    };
    if len > MAX_SECTION_BYTES {
        return Err(TraceError::malformed(
            at,
            format!("invalid length {len} of {what}"),
        ));
    }
    required(source, len as usize, what)
}

/// A short null-terminated string.
pub(super) fn string(source: &mut Source<'_>, what: &str) -> Result<String, TraceError> {
    let at = source.offset();
    let window = source.peek(256)?;
    let Some(end) = memchr::memchr(0, window) else {
        return Err(TraceError::malformed(
            at,
            format!("{what} has no terminating null byte"),
        ));
    };
    let text = String::from_utf8_lossy(window.get(..end).unwrap_or_default()).into_owned();
    source.skip(end as u64 + 1)?;
    Ok(text)
}
