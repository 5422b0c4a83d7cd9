//! Binary header and records of method traces.

use crate::error::TraceError;
use crate::event::{MethodAction, MethodRecord};
use crate::source::Source;

/// Clock of a trace that has one clock only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SingleClock {
    Cpu,
    Wall,
}

/// Layout of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub version: u16,
    pub record_bytes: usize,
    pub single: SingleClock,
    /// Start of the trace, µs: since the start of the machine (ART) or since 1970 (Dalvik).
    pub start_us: u64,
}

impl Layout {
    /// Reads the binary header: magic, version, offset of the records, start time and, from version
    /// 3, the record size. Streaming traces add 0xF0 to the version.
    ///
    /// # Errors
    /// If the magic is missing or the version is unknown.
    pub(super) fn read(
        source: &mut Source<'_>,
        streamed: bool,
        single: SingleClock,
    ) -> Result<Self, TraceError> {
        let at = source.offset();
        let cut = || TraceError::malformed(at, "the file ends inside the header of the records");
        let head = source.exactly(16)?.ok_or_else(cut)?;
        if !head.starts_with(b"SLOW") {
            return Err(TraceError::malformed(at, "the records lack the magic SLOW"));
        }
        let start_us = u64_le(head.get(8..).unwrap_or_default());
        let u16_at = |bytes: &[u8], i: usize| u16_le(bytes.get(i..).unwrap_or_default());
        let raw = u16_at(head, 4);
        let offset = u64::from(u16_at(head, 6));
        let version = if streamed {
            raw.checked_sub(0xf0)
        } else {
            Some(raw)
        };
        let version = match version {
            Some(v @ 1..=3) => v,
            _ => {
                return Err(TraceError::unsupported(
                    at + 4,
                    format!(
                        "method trace version {raw:#x} (supported: 1 to 3, classic or streaming)"
                    ),
                ));
            }
        };
        let mut used = 16;
        let record_bytes = match version {
            1 => 9,
            2 => 10,
            _ => {
                used = 18;
                usize::from(u16_le(source.exactly(2)?.ok_or_else(cut)?))
            }
        };
        if !(9..=256).contains(&record_bytes) || (version == 3 && record_bytes < 14) {
            return Err(TraceError::malformed(
                at + 16,
                format!("invalid record size {record_bytes}"),
            ));
        }
        let rest = offset.checked_sub(used).ok_or_else(|| {
            TraceError::malformed(at + 6, "the offset of the records lies inside the header")
        })?;
        if !source.skip(rest)? {
            return Err(cut());
        }
        Ok(Self {
            version,
            record_bytes,
            single,
            start_us,
        })
    }

    /// Decodes one record; `None` for the unassigned action.
    #[inline]
    pub(super) fn decode(&self, bytes: &[u8]) -> Option<MethodRecord> {
        let (thread, rest) = if self.version == 1 {
            (u32::from(*bytes.first()?), bytes.get(1..)?)
        } else {
            (u32::from(u16_le(bytes)), bytes.get(2..)?)
        };
        let method = u32_le(rest);
        let first = u32_le(rest.get(4..)?);
        let (cpu_us, wall_us) = if self.version == 3 {
            (Some(first), Some(u32_le(rest.get(8..)?)))
        } else {
            match self.single {
                SingleClock::Cpu => (Some(first), None),
                SingleClock::Wall => (None, Some(first)),
            }
        };
        Some(MethodRecord {
            thread,
            // The two lowest bits are the action.
            method: method & !3,
            action: match method & 3 {
                0 => MethodAction::Enter,
                1 => MethodAction::Exit,
                2 => MethodAction::Unroll,
                _ => return None,
            },
            cpu_us,
            wall_us,
        })
    }
}

pub(super) fn u16_le(bytes: &[u8]) -> u16 {
    bytes.first_chunk().map_or(0, |b| u16::from_le_bytes(*b))
}

fn u64_le(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}

pub(super) fn u32_le(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |b| u32::from_le_bytes(*b))
}

/// Parses a line of the method list, such as
/// `0x1468\tjava.lang.ClassLoader\tfind\t(I)V\tClassLoader.java`, into the method id and
/// `class.method(arguments)result`, with dots in the class name as in source code.
pub(super) fn method_line(line: &str) -> Option<(u32, String)> {
    let mut columns = line.split('\t');
    let id = columns.next()?.trim().strip_prefix("0x")?;
    let id = u32::from_str_radix(id, 16).ok()?;
    let class = columns.next()?.replace('/', ".");
    let method = columns.next().unwrap_or("?");
    let signature = columns.next().unwrap_or("");
    Some((id, format!("{class}.{method}{signature}")))
}
