//! Output of `simpleperf report-sample --protobuf`: a magic, a version, length-prefixed records
//! (four bytes), and a zero length at the end.

use mpbond_units::Timestamp;

use super::symbols::object_symbol;
use crate::error::{Incomplete, TraceError};
use crate::event::{Sample, ThreadInfo};
use crate::protobuf::Fields;
use crate::sink::Sink;
use crate::source::Source;

const MAX_RECORD_BYTES: u32 = 64 << 20;

/// Field numbers of `Record` (simpleperf's `cmd_report_sample.proto`).
mod record {
    pub const SAMPLE: u32 = 1;
    pub const LOST: u32 = 2;
    pub const FILE: u32 = 3;
    pub const THREAD: u32 = 4;
    pub const META: u32 = 5;
    pub const CONTEXT_SWITCH: u32 = 6;
}

/// Reads records to the end of the source.
pub(crate) fn read(source: &mut Source<'_>, sink: &mut dyn Sink) -> Result<(), TraceError> {
    let cut = |at| TraceError::malformed(at, "the file ends inside its header");
    let head = source.exactly(12)?.ok_or_else(|| cut(0))?;
    let version = u16::from_le_bytes([
        head.get(10).copied().unwrap_or_default(),
        head.get(11).copied().unwrap_or_default(),
    ]);
    if version != 1 {
        return Err(TraceError::unsupported(
            10,
            format!("simpleperf report version {version}"),
        ));
    }
    let mut events: Vec<String> = Vec::new();
    let mut damaged = (0, 0u64);
    let mut stated_lost = 0;
    loop {
        let at = source.offset();
        let Some(len) = source.exactly(4)?.and_then(|b| b.first_chunk().copied()) else {
            sink.incomplete(Incomplete::Truncated {
                offset: at,
                what: "the records (no end marker)".into(),
            });
            break;
        };
        let len = u32::from_le_bytes(len);
        if len == 0 {
            break;
        }
        if len > MAX_RECORD_BYTES {
            sink.incomplete(Incomplete::Skipped {
                offset: at,
                count: 1,
                what: "invalid record (with the rest of the file)".into(),
            });
            break;
        }
        let Some(bytes) = source.exactly(len as usize)? else {
            sink.incomplete(Incomplete::Truncated {
                offset: at,
                what: "a record".into(),
            });
            break;
        };
        sink.other("record");
        let mut fields = Fields::new(bytes);
        for (number, value) in fields.by_ref() {
            let body = value.bytes();
            match number {
                record::SAMPLE => sample(body, &events, sink),
                record::LOST => {
                    for (n, v) in Fields::new(body) {
                        if n == 2 {
                            stated_lost = v.int();
                        }
                    }
                }
                record::THREAD => thread(body, sink),
                record::META => {
                    for (n, v) in Fields::new(body) {
                        if n == 1 && events.len() < 4096 {
                            events.push(String::from_utf8_lossy(v.bytes()).into_owned());
                        }
                    }
                }
                record::FILE => {
                    file(body, sink);
                    sink.other("file");
                }
                record::CONTEXT_SWITCH => sink.other("context_switch"),
                _ => {}
            }
        }
        if fields.broken().is_some() {
            if damaged.1 == 0 {
                damaged.0 = at;
            }
            damaged.1 += 1;
        }
    }
    if stated_lost > 0 {
        sink.incomplete(Incomplete::LostEvents {
            cpu: None,
            count: Some(stated_lost),
        });
    }
    if damaged.1 > 0 {
        sink.incomplete(Incomplete::Skipped {
            offset: damaged.0,
            count: damaged.1,
            what: "partly damaged records".into(),
        });
    }
    Ok(())
}

fn sample(body: &[u8], events: &[String], sink: &mut dyn Sink) {
    let (mut time, mut tid, mut count, mut event, mut frames) = (0, 0, 0, 0, Vec::new());
    for (n, v) in Fields::new(body) {
        match n {
            1 => time = v.int(),
            2 => tid = v.u32(),
            3 => frames.push(frame(v.bytes())),
            4 => count = v.int(),
            5 => event = v.int(),
            _ => {}
        }
    }
    let name = usize::try_from(event).ok().and_then(|i| events.get(i));
    sink.sample(&Sample {
        time: Some(Timestamp::from_nanos(time)),
        cpu: None,
        process: None,
        tid,
        comm: &[],
        event: name.map_or("samples", String::as_str),
        period: Some(count),
        frames: &frames,
    });
}

/// Id of a frame's symbol, or of its file if the symbol is unknown; files and their symbols are
/// numbered.
fn symbol_id(file: u32, symbol: Option<u32>) -> u64 {
    u64::from(file) << 32 | u64::from(symbol.unwrap_or(u32::MAX))
}

/// Parses a `Sample.CallChainEntry` and returns its symbol id.
fn frame(body: &[u8]) -> u64 {
    let (mut file, mut symbol) = (0, None);
    for (n, v) in Fields::new(body) {
        match n {
            2 => file = v.u32(),
            3 => symbol = u32::try_from(v.i32()).ok(),
            _ => {}
        }
    }
    symbol_id(file, symbol)
}

/// Parses a `File`: a path and its symbols.
fn file(body: &[u8], sink: &mut dyn Sink) {
    let (mut id, mut path, mut symbols) = (0, [].as_slice(), Vec::new());
    for (n, v) in Fields::new(body) {
        match n {
            1 => id = v.u32(),
            2 => path = v.bytes(),
            3 => symbols.push(v.bytes()),
            _ => {}
        }
    }
    let path = String::from_utf8_lossy(path);
    sink.symbol(symbol_id(id, None), &object_symbol(&path));
    for (i, name) in (0..).zip(symbols) {
        sink.symbol(symbol_id(id, Some(i)), &String::from_utf8_lossy(name));
    }
}

fn thread(body: &[u8], sink: &mut dyn Sink) {
    let (mut tid, mut process, mut name) = (0, 0, [].as_slice());
    for (n, v) in Fields::new(body) {
        match n {
            1 => tid = v.u32(),
            2 => process = v.u32(),
            3 => name = v.bytes(),
            _ => {}
        }
    }
    sink.thread(ThreadInfo {
        tid,
        process: Some(process),
        name,
        kernel: false,
    });
}
