//! Version 7: sections, optionally compressed, referenced by options.

use std::io::Read;

use super::byte_order::ByteOrder;
use super::decode::Decoder;
use super::format::PageLayout;
use super::metadata::{
    MAX_SECTION_BYTES, Preamble, clock, cmdlines, event_systems, header_info, length_prefixed,
    required, string, text,
};
use super::page::Pages;
use crate::error::{Incomplete, TraceError};
use crate::event::MAX_CPUS;
use crate::sink::Sink;
use crate::source::Source;

/// Maximum size of a file, which is held in memory: recordings of telephones have tens of
/// megabytes. A compressed file of a few megabytes could expand to more than the machine's memory.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Maximum number of option sections in the linked list; more indicate a loop.
const MAX_OPTION_SECTIONS: usize = 64;

/// Option ids (trace-cmd.dat.v7(5)).
mod option {
    pub const DONE: u16 = 0;
    pub const BUFFER: u16 = 3;
    pub const TRACE_CLOCK: u16 = 4;
    pub const UNAME: u16 = 5;
    pub const HEADER_INFO: u16 = 16;
    pub const FTRACE_EVENTS: u16 = 17;
    pub const EVENT_FORMATS: u16 = 18;
    pub const KALLSYMS: u16 = 19;
    pub const CMDLINES: u16 = 21;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Zlib,
    Zstd,
}

struct File {
    bytes: Vec<u8>,
    /// Offset in the file of `bytes[0]`.
    base: u64,
    order: ByteOrder,
    packing: Compression,
}

struct BufferCpu {
    cpu: u32,
    offset: u64,
    size: u64,
}

struct Buffer {
    name: String,
    page_bytes: usize,
    cpus: Vec<BufferCpu>,
    packed: bool,
}

pub(super) fn read(
    source: &mut Source<'_>,
    preamble: Preamble,
    sink: &mut dyn Sink,
) -> Result<(), TraceError> {
    let order = preamble.order;
    let at = source.offset();
    let packing = match string(source, "the compression")?.as_str() {
        "none" | "" => Compression::None,
        "zlib" => Compression::Zlib,
        "zstd" => Compression::Zstd,
        other => {
            return Err(TraceError::unsupported(
                at,
                format!("trace.dat compression \"{other}\""),
            ));
        }
    };
    string(source, "the version of the compression")?;
    let mut next = order.u64(required(source, 8, "the offset of the options")?);
    let base = source.offset();
    let file = File {
        bytes: rest(source, MAX_FILE_BYTES)?,
        base,
        order,
        packing,
    };

    let mut pointers = Vec::new();
    let mut buffers = Vec::new();
    let mut sections = 0;
    while next != 0 {
        sections += 1;
        if sections > MAX_OPTION_SECTIONS {
            return Err(TraceError::malformed(
                next,
                "the option sections form a loop",
            ));
        }
        let at = next;
        let section = file.section(at)?;
        next = file.options(&section, at, &mut pointers, &mut buffers, sink)?;
    }

    let mut decoder = Decoder::new(order);
    let mut layout = None;
    for (id, offset) in pointers {
        let section = file.section(offset)?;
        let mut body = Source::new(Box::new(section.as_slice()));
        match id {
            option::HEADER_INFO => layout = Some(header_info(&mut body, order)?),
            option::FTRACE_EVENTS => {
                let count = order.u32(required(&mut body, 4, "the number of ftrace formats")?);
                for _ in 0..count {
                    decoder.format(
                        length_prefixed(&mut body, order, 8, "an ftrace format")?,
                        "ftrace",
                    );
                }
            }
            option::EVENT_FORMATS => event_systems(&mut body, order, &mut decoder)?,
            option::KALLSYMS => {
                decoder.symbols(length_prefixed(&mut body, order, 4, "the kernel symbols")?);
            }
            option::CMDLINES => cmdlines(
                length_prefixed(&mut body, order, 8, "the task names")?,
                sink,
            ),
            _ => {}
        }
    }
    let layout = layout.ok_or_else(|| TraceError::malformed(base, "no header_page"))?;
    let mut main = true;
    for buffer in &buffers {
        if !main {
            sink.incomplete(Incomplete::Dropped(format!(
                "a further buffer instance \"{}\" (not supported)",
                buffer.name
            )));
            continue;
        }
        main = false;
        sink.header("cpus", &buffer.cpus.len().to_string());
        for part in &buffer.cpus {
            file.cpu(buffer, part, layout, &mut decoder, sink);
        }
    }
    decoder.finish(sink);
    Ok(())
}

/// The rest of the file, refused if it has more than `most` bytes.
fn rest(source: &mut Source<'_>, most: u64) -> Result<Vec<u8>, TraceError> {
    let base = source.offset();
    let mut bytes = Vec::new();
    source
        .by_ref()
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|e| TraceError::io(base, e))?;
    if bytes.len() as u64 > most {
        return Err(TraceError::unsupported(
            base,
            format!(
                "trace.dat version 7 with more than {} MiB, which would be held in memory (convert \
                 it with trace-cmd convert --file-version 6)",
                most >> 20
            ),
        ));
    }
    Ok(bytes)
}

impl File {
    fn at(&self, offset: u64) -> Option<&[u8]> {
        let i = usize::try_from(offset.checked_sub(self.base)?).ok()?;
        self.bytes.get(i..)
    }

    /// Body of a section, decompressed.
    fn section(&self, offset: u64) -> Result<Vec<u8>, TraceError> {
        let bad = |what: &str| TraceError::malformed(offset, what);
        let head = self
            .at(offset)
            .filter(|b| b.len() >= 16)
            .ok_or_else(|| bad("a section offset lies past the end of the file"))?;
        let flags = self.order.u16(head.get(2..).unwrap_or_default());
        let size = self.order.u64(head.get(8..).unwrap_or_default());
        let body = usize::try_from(size)
            .ok()
            .and_then(|s| head.get(16..)?.get(..s))
            .ok_or_else(|| bad("a section extends past the end of the file"))?;
        if flags & 1 == 0 {
            return Ok(body.to_vec());
        }
        let (chunk, _) = self
            .chunk(body)
            .ok_or_else(|| bad("a compressed section is damaged"))?;
        Ok(chunk)
    }

    /// A compressed chunk: compressed size, uncompressed size, data. Returns its content and the
    /// bytes after it.
    fn chunk<'a>(&self, bytes: &'a [u8]) -> Option<(Vec<u8>, &'a [u8])> {
        let packed = self.order.u32(bytes.get(..4)?) as usize;
        let full = u64::from(self.order.u32(bytes.get(4..8)?));
        if full > MAX_SECTION_BYTES {
            return None;
        }
        let (data, rest) = bytes.get(8..)?.split_at_checked(packed)?;
        let mut out = Vec::new();
        let n = match self.packing {
            Compression::Zlib => flate2::read::ZlibDecoder::new(data)
                .take(full)
                .read_to_end(&mut out),
            Compression::Zstd => ruzstd::decoding::StreamingDecoder::new(data)
                .ok()?
                .take(full)
                .read_to_end(&mut out),
            Compression::None => data.take(full).read_to_end(&mut out),
        };
        (n.ok()? as u64 == full).then_some((out, rest))
    }

    /// Reads one option section and returns the offset of the next one, or 0.
    fn options(
        &self,
        mut rest: &[u8],
        at: u64,
        pointers: &mut Vec<(u16, u64)>,
        buffers: &mut Vec<Buffer>,
        sink: &mut dyn Sink,
    ) -> Result<u64, TraceError> {
        let order = self.order;
        let bad = || TraceError::malformed(at, "an option extends past its section");
        loop {
            let head = rest.get(..6).ok_or_else(bad)?;
            let id = order.u16(head);
            let size = order.u32(head.get(2..).unwrap_or_default()) as usize;
            let data = rest.get(6..).and_then(|r| r.get(..size)).ok_or_else(bad)?;
            rest = rest.get(6 + size..).unwrap_or_default();
            match id {
                option::DONE => return Ok(if size >= 8 { order.u64(data) } else { 0 }),
                option::BUFFER => buffers.push(self.buffer(data).ok_or_else(bad)?),
                option::TRACE_CLOCK => clock(data, sink),
                option::UNAME => sink.header("uname", &text(data)),
                option::HEADER_INFO..=option::CMDLINES if size >= 8 => {
                    pointers.push((id, order.u64(data)));
                }
                _ => {}
            }
        }
    }

    /// Buffer option: offset of the section, name, clock, page size, then the location of each
    /// CPU's data.
    fn buffer(&self, data: &[u8]) -> Option<Buffer> {
        let order = self.order;
        let section = order.u64(data.get(..8)?);
        let mut rest = data.get(8..)?;
        let mut word = || {
            let end = memchr::memchr(0, rest)?;
            let text = String::from_utf8_lossy(rest.get(..end)?).into_owned();
            rest = rest.get(end + 1..)?;
            Some(text)
        };
        let name = word()?;
        word()?;
        let page_bytes = order.u32(rest.get(..4)?) as usize;
        let count = order.u32(rest.get(4..8)?);
        if count > MAX_CPUS || !(512..=1 << 20).contains(&page_bytes) {
            return None;
        }
        let mut rest = rest.get(8..)?;
        let mut cpus = Vec::new();
        for _ in 0..count {
            let entry = rest.get(..20)?;
            let cpu = order.u32(entry);
            if cpu >= MAX_CPUS {
                return None;
            }
            cpus.push(BufferCpu {
                cpu,
                offset: order.u64(entry.get(4..)?),
                size: order.u64(entry.get(12..)?),
            });
            rest = rest.get(20..)?;
        }
        let flags = self
            .at(section)
            .map_or(0, |head| order.u16(head.get(2..).unwrap_or_default()));
        Some(Buffer {
            name,
            page_bytes,
            cpus,
            packed: flags & 1 != 0,
        })
    }

    fn cpu(
        &self,
        buffer: &Buffer,
        part: &BufferCpu,
        layout: PageLayout,
        decoder: &mut Decoder,
        sink: &mut dyn Sink,
    ) {
        if part.size == 0 {
            return;
        }
        let mut pages = Pages::new(layout, part.cpu);
        let bytes = self.at(part.offset).unwrap_or_default();
        // The size covers the chunks but not the word with their number.
        let count_bytes = if buffer.packed { 4 } else { 0 };
        let wanted = usize::try_from(part.size)
            .unwrap_or(usize::MAX)
            .saturating_add(count_bytes);
        let whole = bytes.len() >= wanted;
        let bytes = bytes.get(..wanted).unwrap_or(bytes);
        let mut sound = whole;
        if buffer.packed {
            let mut rest = bytes.get(4..).unwrap_or_default();
            let chunks = bytes.get(..4).map_or(0, |b| self.order.u32(b));
            for _ in 0..chunks {
                let Some((chunk, after)) = self.chunk(rest) else {
                    sound = false;
                    break;
                };
                for page in chunk.chunks(buffer.page_bytes) {
                    pages.read(page, part.offset, decoder, sink);
                }
                rest = after;
            }
        } else {
            for (i, page) in bytes.chunks(buffer.page_bytes).enumerate() {
                let at = part.offset + (i * buffer.page_bytes) as u64;
                pages.read(page, at, decoder, sink);
            }
        }
        pages.finish(sink);
        if !sound {
            sink.incomplete(Incomplete::Truncated {
                offset: part.offset,
                what: format!("the data of CPU {}", part.cpu),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_too_large_for_memory_is_refused() {
        let all = |most: u64| rest(&mut Source::new(Box::new([7u8; 8].as_slice())), most);
        assert_eq!(all(8).unwrap(), [7; 8]);
        let e = all(7).unwrap_err().to_string();
        assert!(e.contains("trace.dat version 7 with more than"), "{e}");
    }

    #[test]
    fn a_cpu_that_no_machine_has_is_refused() {
        let file = File {
            bytes: Vec::new(),
            base: 0,
            order: ByteOrder::new(false),
            packing: Compression::None,
        };
        let buffer = |cpu: u32| {
            let mut data = 0u64.to_le_bytes().to_vec();
            data.extend(b"\0mono\0");
            for word in [4096, 1, cpu, 0, 0, 0, 0] {
                data.extend(word.to_le_bytes());
            }
            file.buffer(&data)
        };
        assert!(buffer(16_383).is_some());
        assert!(buffer(16_384).is_none());
    }
}
