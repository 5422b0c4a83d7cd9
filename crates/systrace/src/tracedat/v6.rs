//! Version 6: metadata, options and the data of each CPU, as a stream.

use super::byte_order::ByteOrder;
use super::decode::Decoder;
use super::format::PageLayout;
use super::metadata::{
    Preamble, clock, cmdlines, event_systems, header_info, length_prefixed, required, text,
};
use super::page;
use crate::error::{Incomplete, TraceError};
use crate::event::MAX_CPUS;
use crate::sink::Sink;
use crate::source::Source;

/// Reads the rest of the file after the preamble.
pub(super) fn read(
    source: &mut Source<'_>,
    preamble: &Preamble,
    sink: &mut dyn Sink,
) -> Result<(), TraceError> {
    let order = preamble.order;
    let mut decoder = Decoder::new(order);
    let layout = metadata(source, order, &mut decoder, sink)?;
    let cpus = order.u32(required(source, 4, "the number of CPUs")?);
    if cpus > MAX_CPUS {
        return Err(TraceError::malformed(
            source.offset() - 4,
            format!("invalid number of CPUs {cpus}"),
        ));
    }
    sink.header("cpus", &cpus.to_string());
    let mut kind = required(source, 10, "the kind of data")?.to_vec();
    if kind.starts_with(b"options") {
        options(source, order, sink)?;
        kind = required(source, 10, "the kind of data")?.to_vec();
    }
    if !kind.starts_with(b"flyrecord") {
        return Err(TraceError::unsupported(
            source.offset() - 10,
            format!("trace.dat data of kind \"{}\"", kind.escape_ascii()),
        ));
    }
    let mut parts = Vec::new();
    for cpu in 0..cpus {
        let entry = required(source, 16, "the table of CPUs")?;
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
                format!("the data of CPU {cpu} overlap earlier data"),
            ));
        };
        if !source.skip(gap)? {
            return truncated(source, cpu, sink);
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
                    return truncated(source, cpu, sink);
                }
            }
            left -= n;
        }
        pages.finish(sink);
    }
    decoder.finish(sink);
    Ok(())
}

fn truncated(source: &Source<'_>, cpu: u32, sink: &mut dyn Sink) -> Result<(), TraceError> {
    sink.incomplete(Incomplete::Truncated {
        offset: source.offset(),
        what: format!("the data of CPU {cpu}"),
    });
    Ok(())
}

/// Reads event formats, symbols and task names, up to the number of CPUs.
fn metadata(
    source: &mut Source<'_>,
    order: ByteOrder,
    decoder: &mut Decoder,
    sink: &mut dyn Sink,
) -> Result<PageLayout, TraceError> {
    let layout = header_info(source, order)?;
    let count = order.u32(required(source, 4, "the number of ftrace formats")?);
    for _ in 0..count {
        let text = length_prefixed(source, order, 8, "an ftrace event format")?;
        decoder.format(text, "ftrace");
    }
    event_systems(source, order, decoder)?;
    decoder.symbols(length_prefixed(source, order, 4, "the kernel symbols")?);
    length_prefixed(source, order, 4, "the printk formats")?;
    cmdlines(length_prefixed(source, order, 8, "the task names")?, sink);
    Ok(layout)
}

/// Options of version 6: id, size and data each, up to id 0.
fn options(
    source: &mut Source<'_>,
    order: ByteOrder,
    sink: &mut dyn Sink,
) -> Result<(), TraceError> {
    const BUFFER: u16 = 3;
    const TRACE_CLOCK: u16 = 4;
    const UNAME: u16 = 5;
    loop {
        let id = order.u16(required(source, 2, "an option")?);
        if id == 0 {
            return Ok(());
        }
        let data = length_prefixed(source, order, 4, "an option")?;
        match id {
            BUFFER => sink.incomplete(Incomplete::Dropped(
                "a further buffer instance (not supported)".into(),
            )),
            TRACE_CLOCK => clock(data, sink),
            UNAME => sink.header("uname", &text(data)),
            _ => {}
        }
    }
}
