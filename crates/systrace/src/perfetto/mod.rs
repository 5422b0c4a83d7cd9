//! Perfetto traces: ftrace events (single and compact), process trees, clock snapshots, profiler
//! samples, and the recorder's loss statistics.
//!
//! Field numbers are those of Perfetto's protos (`protos/perfetto/trace/trace_packet.proto`).

mod bundle;
mod callstacks;
mod payload;
mod stats;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::{Incomplete, TraceError};
use crate::event::{Clock, ClockReading, Sample, ThreadInfo};
use crate::protobuf::{Break, Fields, varint};
use crate::sink::Sink;
use crate::source::Source;
use bundle::BundleReader;
use callstacks::Callstacks;
use mpbond_units::Timestamp;
use stats::Stats;

/// Maximum size of a packet. Perfetto's service refuses packets above a few megabytes, so a larger
/// size is a damaged length.
const MAX_PACKET_BYTES: u64 = 128 << 20;

/// Maximum nesting of `compressed_packets`.
const MAX_DEPTH: u32 = 2;

/// Perfetto's clock id of CLOCK_BOOTTIME (`BuiltinClock`).
const BOOTTIME: u32 = 6;

/// Maximum number of interned kernel symbols; a device has fewer.
const MAX_SYMBOLS: usize = 1 << 20;

/// Field numbers of `TracePacket`.
mod packet {
    pub const FTRACE_EVENTS: u32 = 1;
    pub const PROCESS_TREE: u32 = 2;
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE: u32 = 10;
    pub const INTERNED_DATA: u32 = 12;
    pub const FTRACE_STATS: u32 = 34;
    pub const TRACE_STATS: u32 = 35;
    pub const PREVIOUS_DROPPED: u32 = 42;
    pub const COMPRESSED: u32 = 50;
    pub const PERF_SAMPLE: u32 = 66;
    pub const ZSTD_COMPRESSED: u32 = 133;
    /// Highest field number in use, except 900, which is for tests.
    pub const LAST: u32 = 200;
    /// Packets that are counted by name.
    pub const NAMES: [(u32, &str); 9] = [
        (PROCESS_TREE, "process_tree"),
        (CLOCK_SNAPSHOT, "clock_snapshot"),
        (9, "process_stats"),
        (11, "track_event"),
        (7, "sys_stats"),
        (33, "trace_config"),
        (39, "android_log"),
        (PERF_SAMPLE, "perf_sample"),
        (FTRACE_EVENTS, "ftrace_bundle"),
    ];
}

/// Whether the bytes are the start of a Perfetto trace.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    let Some(mut rest) = head.strip_prefix(b"\x0a") else {
        return false;
    };
    let Ok(len) = varint(&mut rest) else {
        return false;
    };
    if len == 0 || len > MAX_PACKET_BYTES {
        return false;
    }
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let whole = rest.len() >= len;
    let mut fields = Fields::new(rest.get(..len).unwrap_or(rest));
    let known = fields.by_ref().all(|(n, _)| n <= packet::LAST || n == 900);
    let sound = match fields.broken() {
        None => true,
        Some(Break::Cut) => !whole,
        Some(Break::Damaged) => false,
    };
    known && sound && rest.get(len).is_none_or(|b| *b == 0x0a)
}

/// Reads a trace to the end of the source.
pub(crate) fn read(source: &mut Source<'_>, sink: &mut dyn Sink) -> Result<(), TraceError> {
    let mut reader = Reader {
        bundles: BundleReader::new(),
        stats: Stats::default(),
        symbols: FxHashMap::default(),
        callstacks: Callstacks::default(),
        sequences: FxHashSet::default(),
        dropped: 0,
        damaged: (0, 0),
        snapshots: 0,
    };
    reader.packets(source, sink, 0)?;
    reader.finish(sink);
    Ok(())
}

struct Reader {
    bundles: BundleReader,
    stats: Stats,
    /// Kernel symbols by sequence id and interning id.
    symbols: FxHashMap<(u64, u64), Box<[u8]>>,
    callstacks: Callstacks,
    sequences: FxHashSet<u64>,
    dropped: u64,
    /// Damaged packets: offset of the first, number.
    damaged: (u64, u64),
    snapshots: u32,
}

impl Reader {
    fn packets(
        &mut self,
        source: &mut Source<'_>,
        sink: &mut dyn Sink,
        depth: u32,
    ) -> Result<(), TraceError> {
        loop {
            let offset = source.offset();
            let mut head = source.peek(16)?;
            if head.is_empty() {
                return Ok(());
            }
            let before = head.len();
            let parsed = varint(&mut head).and_then(|tag| match tag & 7 {
                2 => Ok((tag >> 3, varint(&mut head)?)),
                _ => Err(Break::Damaged),
            });
            let used = before - head.len();
            let (number, len) = match parsed {
                Ok((n, len)) if n != 0 && len <= MAX_PACKET_BYTES => (n, len),
                Err(Break::Cut) => {
                    truncated(offset, sink);
                    return Ok(());
                }
                _ => {
                    // Packets have no marker for resynchronization.
                    sink.incomplete(Incomplete::Skipped {
                        offset,
                        count: 1,
                        what: "invalid packet (with the rest of the file)".into(),
                    });
                    return Ok(());
                }
            };
            source.skip(used as u64)?;
            if number != 1 {
                if !source.skip(len)? {
                    truncated(offset, sink);
                    return Ok(());
                }
                continue;
            }
            let Some(bytes) = source.exactly(len as usize)? else {
                truncated(offset, sink);
                return Ok(());
            };
            self.packet(bytes, offset, sink, depth)?;
        }
    }

    fn packet(
        &mut self,
        bytes: &[u8],
        offset: u64,
        sink: &mut dyn Sink,
        depth: u32,
    ) -> Result<(), TraceError> {
        let mut sound = true;
        let mut sequence = 0;
        let mut timestamp = None;
        let mut previous_dropped = false;
        let mut content = None;
        let mut interned = None;
        let mut fields = Fields::new(bytes);
        for (number, value) in fields.by_ref() {
            match number {
                packet::TIMESTAMP => timestamp = Some(value.int()),
                packet::SEQUENCE => sequence = value.int(),
                packet::PREVIOUS_DROPPED => previous_dropped = value.int() != 0,
                packet::INTERNED_DATA => interned = Some(value.bytes()),
                packet::FTRACE_EVENTS
                | packet::PROCESS_TREE
                | packet::CLOCK_SNAPSHOT
                | packet::FTRACE_STATS
                | packet::TRACE_STATS
                | packet::COMPRESSED
                | packet::PERF_SAMPLE
                | packet::ZSTD_COMPRESSED => content = Some((number, value.bytes())),
                _ => {
                    if let Some((_, name)) = packet::NAMES.iter().find(|(n, _)| *n == number) {
                        sink.other(name);
                    }
                }
            }
        }
        sound &= fields.broken().is_none();
        // The service appends the sequence id after the writer's fields.
        if let Some(body) = interned {
            sound &= self.intern(sequence, body);
        }
        if !matches!(
            content,
            Some((packet::COMPRESSED | packet::ZSTD_COMPRESSED, _))
        ) {
            sink.other("packet");
        }
        // Writers also set the flag on their first packet, before which nothing can have been lost.
        if !self.sequences.insert(sequence) && previous_dropped {
            self.dropped += 1;
        }
        if let Some((number, body)) = content {
            if let Some((_, name)) = packet::NAMES.iter().find(|(n, _)| *n == number) {
                sink.other(name);
            }
            sound &= match number {
                packet::FTRACE_EVENTS => {
                    self.bundles
                        .read(body, |iid| self.symbols.get(&(sequence, iid)), sink)
                }
                packet::PROCESS_TREE => process_tree(body, sink),
                packet::CLOCK_SNAPSHOT => self.clocks(body, sink),
                packet::FTRACE_STATS => self.stats.ftrace(body, sink),
                packet::TRACE_STATS => self.stats.service(body),
                packet::PERF_SAMPLE => self.perf_sample(sequence, body, timestamp, sink),
                _ if depth < MAX_DEPTH => {
                    let mut inner = if number == packet::COMPRESSED {
                        Source::new(Box::new(flate2::read::ZlibDecoder::new(body)))
                    } else {
                        match ruzstd::decoding::StreamingDecoder::new(body) {
                            Ok(d) => Source::new(Box::new(d)),
                            Err(_) => Source::new(Box::new(std::io::empty())),
                        }
                    };
                    let empty = inner.peek(1)?.is_empty();
                    self.packets(&mut inner, sink, depth + 1)?;
                    !empty && inner.cut().is_none()
                }
                _ => false,
            };
        }
        if !sound {
            if self.damaged.1 == 0 {
                self.damaged.0 = offset;
            }
            self.damaged.1 += 1;
        }
        Ok(())
    }

    fn intern(&mut self, sequence: u64, bytes: &[u8]) -> bool {
        const KERNEL_SYMBOLS: u32 = 26;
        let mut fields = Fields::new(bytes);
        for (number, value) in fields.by_ref() {
            if number != KERNEL_SYMBOLS {
                self.callstacks.intern(sequence, number, value.bytes());
                continue;
            }
            let (mut iid, mut text) = (0, [].as_slice());
            for (number, value) in Fields::new(value.bytes()) {
                match number {
                    1 => iid = value.int(),
                    2 => text = value.bytes(),
                    _ => {}
                }
            }
            if self.symbols.len() < MAX_SYMBOLS {
                self.symbols.insert((sequence, iid), text.into());
            }
        }
        fields.broken().is_none()
    }

    fn clocks(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> bool {
        self.snapshots += 1;
        let mut fields = Fields::new(bytes);
        for (number, value) in fields.by_ref() {
            if number != 1 {
                continue;
            }
            let (mut id, mut ns, mut incremental) = (0, 0, false);
            for (number, value) in Fields::new(value.bytes()) {
                match number {
                    1 => id = value.u32(),
                    2 => ns = value.int(),
                    3 => incremental = value.int() != 0,
                    _ => {}
                }
            }
            if incremental {
                continue;
            }
            // The recorder converts ftrace times to CLOCK_BOOTTIME.
            if id == BOOTTIME {
                sink.clock(ClockReading {
                    snapshot: self.snapshots,
                    clock: Clock::Trace,
                    ns,
                });
            }
            let clock = match id {
                1 => Clock::Realtime,
                3 => Clock::Monotonic,
                BOOTTIME => Clock::Boot,
                other => Clock::Other(other),
            };
            sink.clock(ClockReading {
                snapshot: self.snapshots,
                clock,
                ns,
            });
        }
        fields.broken().is_none()
    }

    fn perf_sample(
        &mut self,
        sequence: u64,
        bytes: &[u8],
        timestamp: Option<u64>,
        sink: &mut dyn Sink,
    ) -> bool {
        let (mut cpu, mut process, mut tid, mut stack) = (None, None, 0, 0);
        let mut fields = Fields::new(bytes);
        for (number, value) in fields.by_ref() {
            match number {
                1 => cpu = Some(value.u32()),
                2 => process = Some(value.u32()),
                3 => tid = value.u32(),
                4 => stack = value.int(),
                _ => {}
            }
        }
        let frames = self.callstacks.frames(sequence, stack, sink);
        sink.sample(&Sample {
            time: timestamp.map(Timestamp::from_nanos),
            cpu,
            process,
            tid,
            comm: &[],
            event: "",
            // The packet has the cumulative value of the counter.
            period: None,
            frames: &frames,
        });
        fields.broken().is_none()
    }

    fn finish(&mut self, sink: &mut dyn Sink) {
        self.bundles.finish(sink);
        self.stats.finish(sink);
        if self.dropped > 0 {
            sink.incomplete(Incomplete::Dropped(format!(
                "writers lost packets before {} packets",
                self.dropped
            )));
        }
        if self.damaged.1 > 0 {
            sink.incomplete(Incomplete::Skipped {
                offset: self.damaged.0,
                count: self.damaged.1,
                what: "partly damaged packets".into(),
            });
        }
    }
}

fn truncated(offset: u64, sink: &mut dyn Sink) {
    sink.incomplete(Incomplete::Truncated {
        offset,
        what: "a packet".into(),
    });
}

fn process_tree(bytes: &[u8], sink: &mut dyn Sink) -> bool {
    let mut fields = Fields::new(bytes);
    for (number, value) in fields.by_ref() {
        match number {
            1 => {
                let (mut pid, mut parent, mut kernel, mut name) = (0, 0, false, None);
                for (number, value) in Fields::new(value.bytes()) {
                    match number {
                        1 => pid = value.u32(),
                        2 => parent = value.u32(),
                        3 if name.is_none() => name = Some(value.bytes()),
                        8 => kernel = value.int() != 0,
                        _ => {}
                    }
                }
                sink.thread(ThreadInfo {
                    tid: pid,
                    process: Some(pid),
                    name: name.unwrap_or_default(),
                    // kthreadd is process 2 and the parent of all kernel threads.
                    kernel: kernel || pid == 2 || parent == 2,
                });
            }
            2 => {
                let (mut tid, mut process, mut name) = (0, 0, [].as_slice());
                for (number, value) in Fields::new(value.bytes()) {
                    match number {
                        1 => tid = value.u32(),
                        2 => name = value.bytes(),
                        3 => process = value.u32(),
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
            _ => {}
        }
    }
    fields.broken().is_none()
}
