//! trace-cmd's `trace.dat`, versions 6 and 7, by `trace-cmd.dat.v6(5)` and `trace-cmd.dat.v7(5)`:
//! event formats as text, followed by the raw ring-buffer pages of each CPU.
//!
//! Version 6 is read as a stream. Version 7 may have its directory anywhere in the file, so the
//! file is held in memory.

mod byte_order;
mod decode;
mod format;
mod metadata;
mod page;
mod symbols;
mod v6;
mod v7;

use crate::error::TraceError;
use crate::sink::Sink;
use crate::source::Source;
use byte_order::ByteOrder;
use metadata::{Preamble, byte, required, string};

/// Reads a trace to the end of the source.
pub(crate) fn read(source: &mut Source<'_>, sink: &mut dyn Sink) -> Result<(), TraceError> {
    required(source, 10, "the magic number")?;
    let at = source.offset();
    let version = string(source, "the version")?;
    let version: u32 = version
        .parse()
        .map_err(|_| TraceError::malformed(at, "invalid version number"))?;
    if version != 6 && version != 7 {
        return Err(TraceError::unsupported(
            at,
            format!("trace.dat version {version}"),
        ));
    }
    sink.header("version", if version == 6 { "6" } else { "7" });
    let at = source.offset();
    let head = required(source, 2, "the byte order")?;
    let (endian, long) = (byte(head, 0), byte(head, 1));
    if endian > 1 || !matches!(long, 4 | 8) {
        return Err(TraceError::malformed(
            at,
            format!("invalid byte order {endian} or long size {long}"),
        ));
    }
    let order = ByteOrder::new(endian == 1);
    let at = source.offset();
    let page_bytes = order.u32(required(source, 4, "the page size")?) as usize;
    if !(512..=1 << 20).contains(&page_bytes) {
        return Err(TraceError::malformed(
            at,
            format!("invalid page size {page_bytes}"),
        ));
    }
    let preamble = Preamble { order, page_bytes };
    if version == 7 {
        return v7::read(source, preamble, sink);
    }
    v6::read(source, &preamble, sink)
}
