//! trace-cmd's `trace.dat`, versions 6 and 7, as `trace-cmd.dat.v6(5)` and
//! `trace-cmd.dat.v7(5)` describe them: event formats as text, then the raw
//! pages of each CPU's ring buffer.
//!
//! Version 6 streams. Version 7 puts its directory anywhere in the file, so
//! that file is held in memory.

mod decode;
mod format;
mod page;
mod symbols;
mod v7;

use crate::error::{Incomplete, TraceError};
use crate::event::ThreadInfo;
use crate::sink::Sink;
use crate::source::Source;
use decode::Decoder;
use format::PageLayout;
use page::Order;

/// Metadata larger than this is a damaged length; a kernel's symbols and event
/// formats take a tenth of it.
const MAX_SECTION_BYTES: u64 = 256 << 20;

/// More CPUs than any machine has.
const MAX_CPUS: u32 = 16_384;

/// What the first bytes of a file say.
pub(super) struct Preamble {
    order: Order,
    page_bytes: usize,
}

/// Reads a trace to the end of the source.
pub(crate) fn read(source: &mut Source<'_>, sink: &mut dyn Sink) -> Result<(), TraceError> {
    need(source, 10, "the magic number")?;
    let at = source.offset();
    let version = string(source, "the version")?;
    let version: u32 = version
        .parse()
        .map_err(|_| TraceError::malformed(at, "the version is no number"))?;
    if version != 6 && version != 7 {
        return Err(TraceError::unsupported(
            at,
            format!("trace.dat version {version}"),
        ));
    }
    sink.header("version", if version == 6 { "6" } else { "7" });
    let at = source.offset();
    let head = need(source, 2, "the byte order")?;
    let (endian, long) = (byte(head, 0), byte(head, 1));
    if endian > 1 || !matches!(long, 4 | 8) {
        return Err(TraceError::malformed(
            at,
            format!("byte order {endian} and long size {long} do not occur"),
        ));
    }
    let order = Order::new(endian == 1);
    let at = source.offset();
    let page_bytes = order.u32(need(source, 4, "the page size")?) as usize;
    if !(512..=1 << 20).contains(&page_bytes) {
        return Err(TraceError::malformed(
            at,
            format!("page size {page_bytes} does not occur"),
        ));
    }
    let preamble = Preamble { order, page_bytes };
    if version == 7 {
        return v7::read(source, preamble, sink);
    }
    read_v6(source, &preamble, sink)
}

fn read_v6(
    source: &mut Source<'_>,
    preamble: &Preamble,
    sink: &mut dyn Sink,
) -> Result<(), TraceError> {
    let order = preamble.order;
    let mut decoder = Decoder::new(order);
    let layout = metadata(source, order, &mut decoder, sink)?;
    let cpus = order.u32(need(source, 4, "the number of CPUs")?);
    if cpus > MAX_CPUS {
        return Err(TraceError::malformed(
            source.offset() - 4,
            format!("{cpus} CPUs do not occur"),
        ));
    }
    sink.header("cpus", &cpus.to_string());
    let mut kind = need(source, 10, "the kind of data")?.to_vec();
    if kind.starts_with(b"options") {
        options(source, order, sink)?;
        kind = need(source, 10, "the kind of data")?.to_vec();
    }
    if !kind.starts_with(b"flyrecord") {
        return Err(TraceError::unsupported(
            source.offset() - 10,
            format!("trace.dat data of kind \"{}\"", kind.escape_ascii()),
        ));
    }
    let mut parts = Vec::new();
    for cpu in 0..cpus {
        let entry = need(source, 16, "the table of CPUs")?;
        parts.push((
            order.u64(entry),
            order.u64(entry.get(8..).unwrap_or_default()),
            cpu,
        ));
    }
    parts.sort_unstable();
    for (offset, size, cpu) in parts {
        if size == 0 {
            continue;
        }
        let Some(gap) = offset.checked_sub(source.offset()) else {
            return Err(TraceError::malformed(
                source.offset(),
                format!("the data of CPU {cpu} overlap what comes before"),
            ));
        };
        if !source.skip(gap)? {
            return cut(source, cpu, sink);
        }
        let mut left = size;
        let mut pages = page::Pages::new(layout, cpu);
        while left > 0 {
            let n = left.min(preamble.page_bytes as u64);
            let at = source.offset();
            match source.exactly(n as usize)? {
                Some(bytes) => pages.read(bytes, at, &mut decoder, sink),
                None => {
                    pages.finish(sink);
                    return cut(source, cpu, sink);
                }
            }
            left -= n;
        }
        pages.finish(sink);
    }
    decoder.finish(sink);
    Ok(())
}

fn cut(source: &Source<'_>, cpu: u32, sink: &mut dyn Sink) -> Result<(), TraceError> {
    sink.incomplete(Incomplete::Truncated {
        offset: source.offset(),
        what: format!("the data of CPU {cpu}"),
    });
    Ok(())
}

/// Formats, symbols and names, up to the CPUs.
fn metadata(
    source: &mut Source<'_>,
    order: Order,
    decoder: &mut Decoder,
    sink: &mut dyn Sink,
) -> Result<PageLayout, TraceError> {
    let layout = header_info(source, order)?;
    let count = order.u32(need(source, 4, "the number of ftrace formats")?);
    for _ in 0..count {
        let text = sized(source, order, 8, "an ftrace event format")?;
        decoder.format(text, "ftrace");
    }
    event_systems(source, order, decoder)?;
    decoder.symbols(sized(source, order, 4, "the kernel symbols")?);
    sized(source, order, 4, "the printk formats")?;
    cmdlines(sized(source, order, 8, "the task names")?, sink);
    Ok(layout)
}

fn event_systems(
    source: &mut Source<'_>,
    order: Order,
    decoder: &mut Decoder,
) -> Result<(), TraceError> {
    let systems = order.u32(need(source, 4, "the number of event systems")?);
    for _ in 0..systems {
        let system = string(source, "the name of an event system")?;
        let count = order.u32(need(source, 4, "the number of events")?);
        for _ in 0..count {
            decoder.format(sized(source, order, 8, "an event format")?, &system);
        }
    }
    Ok(())
}

/// The layout of ring-buffer pages, from `header_page`.
fn header_info(source: &mut Source<'_>, order: Order) -> Result<PageLayout, TraceError> {
    let at = source.offset();
    if string(source, "header_page")? != "header_page" {
        return Err(TraceError::malformed(at, "header_page expected"));
    }
    let layout = PageLayout::parse(sized(source, order, 8, "header_page")?, order)
        .ok_or_else(|| TraceError::malformed(at, "header_page lacks commit or data"))?;
    let at = source.offset();
    if string(source, "header_event")? != "header_event" {
        return Err(TraceError::malformed(at, "header_event expected"));
    }
    sized(source, order, 8, "header_event")?;
    Ok(layout)
}

/// `pid comm` a line.
fn cmdlines(text: &[u8], sink: &mut dyn Sink) {
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

/// Options of version 6: id, size, data, until id 0.
fn options(source: &mut Source<'_>, order: Order, sink: &mut dyn Sink) -> Result<(), TraceError> {
    const BUFFER: u16 = 3;
    const TRACE_CLOCK: u16 = 4;
    const UNAME: u16 = 5;
    loop {
        let id = order.u16(need(source, 2, "an option")?);
        if id == 0 {
            return Ok(());
        }
        let data = sized(source, order, 4, "an option")?;
        match id {
            BUFFER => sink.incomplete(Incomplete::Dropped(
                "the file holds a further buffer instance, which is not read".into(),
            )),
            TRACE_CLOCK => clock(data, sink),
            UNAME => sink.header("uname", &text(data)),
            _ => {}
        }
    }
}

/// `[local] global mono`: the clock in brackets is the one in use.
pub(super) fn clock(data: &[u8], sink: &mut dyn Sink) {
    let text = text(data);
    let used = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(text.as_str(), |(name, _)| name);
    sink.header("clock", used.trim());
}

fn text(data: &[u8]) -> String {
    let end = memchr::memchr(0, data).unwrap_or(data.len());
    String::from_utf8_lossy(data.get(..end).unwrap_or_default()).into_owned()
}

fn byte(bytes: &[u8], i: usize) -> u8 {
    bytes.get(i).copied().unwrap_or_default()
}

/// `n` bytes of metadata, without which nothing after can be understood.
fn need<'s>(source: &'s mut Source<'_>, n: usize, what: &str) -> Result<&'s [u8], TraceError> {
    let at = source.offset();
    source
        .exactly(n)?
        .ok_or_else(|| TraceError::malformed(at, format!("the file ends inside {what}")))
}

/// A length of `width` bytes and so many bytes.
fn sized<'s>(
    source: &'s mut Source<'_>,
    order: Order,
    width: usize,
    what: &str,
) -> Result<&'s [u8], TraceError> {
    let at = source.offset();
    let head = need(source, width, what)?;
    let len = if width == 4 {
        u64::from(order.u32(head))
    } else {
        order.u64(head)
    };
    if len > MAX_SECTION_BYTES {
        return Err(TraceError::malformed(
            at,
            format!("{what} cannot be {len} bytes long"),
        ));
    }
    need(source, len as usize, what)
}

/// A short string that a null byte ends.
fn string(source: &mut Source<'_>, what: &str) -> Result<String, TraceError> {
    let at = source.offset();
    let window = source.peek(256)?;
    let Some(end) = memchr::memchr(0, window) else {
        return Err(TraceError::malformed(at, format!("{what} does not end")));
    };
    let text = String::from_utf8_lossy(window.get(..end).unwrap_or_default()).into_owned();
    source.skip(end as u64 + 1)?;
    Ok(text)
}
