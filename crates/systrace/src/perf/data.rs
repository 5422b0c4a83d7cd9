//! perf's own file format (`perf.data`), in file and in pipe mode.
//!
//! The layout is that of perf.data-file-format.txt (tools/perf/Documentation in the kernel sources)
//! and perf_event_open(2). The file is read as a stream: event names are derived from type and
//! config, because the names stored at the end of the file are not available yet.

use mpbond_units::Timestamp;
use rustc_hash::FxHashMap;

use crate::error::{Incomplete, TraceError};
use crate::event::{Sample, ThreadInfo};
use crate::sink::Sink;
use crate::source::Source;

/// Maximum size of the attributes and ids before the data; a larger one is a damaged header.
const MAX_PREFIX_BYTES: u64 = 64 << 20;

/// Bits of `sample_type` (perf_event_open(2)), in storage order of the fields.
mod sample_type {
    pub const IP: u64 = 1;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM: u64 = 1 << 9;
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of `read_format` (perf_event_open(2)).
mod read_format {
    pub const TIME_ENABLED: u64 = 1;
    pub const TIME_RUNNING: u64 = 1 << 1;
    pub const ID: u64 = 1 << 2;
    pub const GROUP: u64 = 1 << 3;
    pub const LOST: u64 = 1 << 4;
}

/// Record types (`enum perf_event_type` and perf's user-space types).
mod record_type {
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const SAMPLE: u32 = 9;
    pub const LOST_SAMPLES: u32 = 13;
    pub const HEADER_ATTR: u32 = 64;
    pub const TRACING_DATA: u32 = 66;
    pub const AUXTRACE: u32 = 71;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

struct Attr {
    name: String,
    sample_type: u64,
    read_format: u64,
    /// Period of an event with a fixed sample period.
    fixed: Option<u64>,
}

#[derive(Default)]
struct Reader {
    attrs: Vec<Attr>,
    ids: FxHashMap<u64, usize>,
    comms: FxHashMap<u32, Box<[u8]>>,
    /// Last value of each counter of a group; counters are cumulative.
    values: FxHashMap<u64, u64>,
    lost: u64,
    damaged: (u64, u64),
    compressed: bool,
}

/// A cursor over little-endian integers.
#[derive(Clone, Copy)]
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn u64(&mut self) -> Option<u64> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*head))
    }

    fn u32(&mut self) -> Option<u32> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*head))
    }

    fn skip(&mut self, n: usize) -> Option<()> {
        self.0 = self.0.get(n..)?;
        Some(())
    }
}

/// Reads records to the end of the data.
pub(crate) fn read(source: &mut Source<'_>, sink: &mut dyn Sink) -> Result<(), TraceError> {
    let mut reader = Reader::default();
    let cut = || TraceError::malformed(0, "the file ends inside its header");
    let mut head = Words(source.peek(72)?);
    head.skip(8).ok_or_else(cut)?;
    let size = head.u64().ok_or_else(cut)?;
    let data_bytes = if size == 16 {
        source.skip(16)?;
        None
    } else {
        let attr_bytes = head.u64().ok_or_else(cut)?;
        let attrs = (head.u64().ok_or_else(cut)?, head.u64().ok_or_else(cut)?);
        let data = (head.u64().ok_or_else(cut)?, head.u64().ok_or_else(cut)?);
        if data.0 > MAX_PREFIX_BYTES || !(16 + 64..=4096).contains(&attr_bytes) {
            return Err(TraceError::malformed(16, "invalid sizes in the header"));
        }
        let prefix = source.exactly(data.0 as usize)?.ok_or_else(cut)?;
        reader
            .attributes(prefix, attrs, attr_bytes as usize)
            .ok_or_else(|| {
                TraceError::malformed(24, "the event attributes lie outside of the header")
            })?;
        if data.1 == 0 {
            // perf writes the size at its end; until then the header has 0.
            sink.incomplete(Incomplete::Truncated {
                offset: data.0,
                what: "the recording (its size is 0: perf did not end properly)".into(),
            });
        }
        Some(data.1)
    };
    reader.records(source, data_bytes, sink)?;
    reader.finish(sink);
    Ok(())
}

impl Reader {
    fn attributes(&mut self, prefix: &[u8], table: (u64, u64), each: usize) -> Option<()> {
        let at = usize::try_from(table.0).ok()?;
        let len = usize::try_from(table.1).ok()?;
        let bytes = prefix.get(at..at.checked_add(len)?)?;
        for entry in bytes.chunks_exact(each) {
            let (attr, mut ids) = (entry, Words(entry.get(each - 16..)?));
            let i = self.attr(attr)?;
            let at = usize::try_from(ids.u64()?).ok()?;
            let len = usize::try_from(ids.u64()?).ok()?;
            let mut list = Words(prefix.get(at..at.checked_add(len)?)?);
            while let Some(id) = list.u64() {
                self.ids.insert(id, i);
            }
        }
        Some(())
    }

    /// Parses a `struct perf_event_attr` and returns its size.
    fn attr(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut w = Words(bytes);
        let (class, _size) = (w.u32()?, w.u32()?);
        let config = w.u64()?;
        let period = w.u64()?;
        let sample_type = w.u64()?;
        let read_format = w.u64()?;
        let flags = w.u64()?;
        const BY_FREQUENCY: u64 = 1 << 10;
        if self.attrs.len() >= 4096 {
            return None;
        }
        self.attrs.push(Attr {
            name: event_name(class, config),
            sample_type,
            read_format,
            fixed: (flags & BY_FREQUENCY == 0).then_some(period),
        });
        Some(self.attrs.len() - 1)
    }

    fn records(
        &mut self,
        source: &mut Source<'_>,
        data_bytes: Option<u64>,
        sink: &mut dyn Sink,
    ) -> Result<(), TraceError> {
        let begin = source.offset();
        loop {
            let at = source.offset();
            if data_bytes.is_some_and(|n| at - begin >= n) {
                return Ok(());
            }
            let mut head = Words(source.peek(8)?);
            let have = head.0.len();
            let record = (|| Some((head.u32()?, head.u32()? >> 16)))();
            let Some((kind, size)) = record else {
                if have > 0 || data_bytes.is_some() {
                    sink.incomplete(Incomplete::Truncated {
                        offset: at,
                        what: "the records".into(),
                    });
                }
                return Ok(());
            };
            if size < 8 {
                sink.incomplete(Incomplete::Skipped {
                    offset: at,
                    count: 1,
                    what: "invalid record (with the rest of the file)".into(),
                });
                return Ok(());
            }
            let Some(bytes) = source.exactly(size as usize)? else {
                sink.incomplete(Incomplete::Truncated {
                    offset: at,
                    what: "a record".into(),
                });
                return Ok(());
            };
            let body = bytes.get(8..).unwrap_or_default();
            // Some record types have their payload after the record.
            let behind = match kind {
                record_type::AUXTRACE => Words(body).u64().unwrap_or(0),
                record_type::TRACING_DATA => Words(body)
                    .u32()
                    .map_or(0, |n| u64::from(n).div_ceil(8) * 8),
                _ => 0,
            };
            if self.record(kind, body, sink).is_none() {
                if self.damaged.1 == 0 {
                    self.damaged.0 = at;
                }
                self.damaged.1 += 1;
            }
            if behind > 0 && !source.skip(behind)? {
                sink.incomplete(Incomplete::Truncated {
                    offset: at,
                    what: "the payload of a record".into(),
                });
                return Ok(());
            }
        }
    }

    fn record(&mut self, kind: u32, body: &[u8], sink: &mut dyn Sink) -> Option<()> {
        let mut w = Words(body);
        match kind {
            record_type::SAMPLE => self.sample(body, sink)?,
            record_type::COMM => {
                let (process, tid) = (w.u32()?, w.u32()?);
                let name = w.0.get(..memchr::memchr(0, w.0)?)?;
                self.comms.insert(tid, name.into());
                sink.thread(ThreadInfo {
                    tid,
                    process: Some(process),
                    name,
                    kernel: false,
                });
            }
            record_type::LOST => {
                w.u64()?;
                self.lost = self.lost.saturating_add(w.u64()?);
            }
            record_type::LOST_SAMPLES => self.lost = self.lost.saturating_add(w.u64()?),
            record_type::HEADER_ATTR => {
                let size = usize::try_from(Words(body.get(4..)?).u32()?).ok()?;
                let i = self.attr(body)?;
                let mut ids = Words(body.get(size..)?);
                while let Some(id) = ids.u64() {
                    self.ids.insert(id, i);
                }
            }
            record_type::COMPRESSED | record_type::COMPRESSED2 => self.compressed = true,
            _ => {}
        }
        Some(())
    }

    fn sample(&mut self, body: &[u8], sink: &mut dyn Sink) -> Option<()> {
        // Files with several events store the id where all events have it
        // (`PERF_SAMPLE_IDENTIFIER`).
        let first = self.attrs.first()?.sample_type;
        let index = if self.attrs.len() == 1 {
            0
        } else {
            let mut place = 0;
            if first & sample_type::IDENTIFIER == 0 {
                for p in [
                    sample_type::IP,
                    sample_type::TID,
                    sample_type::TIME,
                    sample_type::ADDR,
                ] {
                    place += if first & p != 0 { 8 } else { 0 };
                }
            }
            let id = Words(body.get(place..)?).u64()?;
            *self.ids.get(&id)?
        };
        let attr = self.attrs.get(index)?;
        let has = |p: u64| attr.sample_type & p != 0;
        let mut w = Words(body);
        let mut words = |p: u64| {
            if has(p) {
                w.u64().map(Some)
            } else {
                Some(None)
            }
        };
        words(sample_type::IDENTIFIER)?;
        let address = words(sample_type::IP)?;
        let ids = words(sample_type::TID)?;
        let time = words(sample_type::TIME)?;
        words(sample_type::ADDR)?;
        words(sample_type::ID)?;
        words(sample_type::STREAM)?;
        let cpu = words(sample_type::CPU)?;
        let period = words(sample_type::PERIOD)?;
        let (process, tid) = match ids {
            Some(ids) => (Some(ids as u32), (ids >> 32) as u32),
            None => (None, 0),
        };
        let mut group = Vec::new();
        if has(sample_type::READ) {
            read_values(&mut w, attr.read_format, &mut group)?;
        }
        // Addresses without symbols: `perf script` resolves them, this reader does not.
        let mut frames = Vec::new();
        if has(sample_type::CALLCHAIN) {
            let n = w.u64()?;
            if n > (w.0.len() / 8) as u64 {
                return None;
            }
            for _ in 0..n {
                // Context markers (`PERF_CONTEXT_KERNEL`, `PERF_CONTEXT_USER`) are at the top of
                // the address range.
                const CONTEXT_MAX: u64 = -4095i64 as u64;
                let address = w.u64()?;
                if address < CONTEXT_MAX {
                    frames.push(address);
                }
            }
        } else {
            frames.extend(address);
        }
        let mut sample = Sample {
            time: time.map(Timestamp::from_nanos),
            cpu: cpu.map(|c| c as u32),
            process,
            tid,
            comm: self.comms.get(&tid).map_or(&[], |c| c),
            event: &attr.name,
            period: period.or(attr.fixed),
            frames: &frames,
        };
        sink.sample(&sample);
        for (id, value) in group {
            let Some(other) = self.ids.get(&id).copied() else {
                continue;
            };
            let before = self.values.insert(id, value).unwrap_or(0);
            if other != index
                && let Some(attr) = self.attrs.get(other)
            {
                sample.event = &attr.name;
                sample.period = Some(value.saturating_sub(before));
                sink.counter(&sample);
            }
        }
        Some(())
    }

    fn finish(&self, sink: &mut dyn Sink) {
        if self.compressed {
            sink.incomplete(Incomplete::Dropped(
                "compressed records are not supported (record without -z)".into(),
            ));
        }
        if self.lost > 0 {
            sink.incomplete(Incomplete::LostEvents {
                cpu: None,
                count: Some(self.lost),
            });
        }
        if self.damaged.1 > 0 {
            sink.incomplete(Incomplete::Skipped {
                offset: self.damaged.0,
                count: self.damaged.1,
                what: "damaged records".into(),
            });
        }
    }
}

/// Parses `PERF_SAMPLE_READ`: ids and values of one counter or of a group.
fn read_values(w: &mut Words<'_>, format: u64, out: &mut Vec<(u64, u64)>) -> Option<()> {
    let grouped = format & read_format::GROUP != 0;
    let count = if grouped { w.u64()? } else { 1 };
    if count > 256 {
        return None;
    }
    let times = |w: &mut Words<'_>| {
        for t in [read_format::TIME_ENABLED, read_format::TIME_RUNNING] {
            if format & t != 0 {
                w.u64()?;
            }
        }
        Some(())
    };
    if grouped {
        times(w)?;
    }
    for _ in 0..count {
        let value = w.u64()?;
        if !grouped {
            times(w)?;
        }
        let id = if format & read_format::ID != 0 {
            w.u64()?
        } else {
            0
        };
        if format & read_format::LOST != 0 {
            w.u64()?;
        }
        out.push((id, value));
    }
    Some(())
}

/// perf's name of the event with this type and config.
fn event_name(class: u32, config: u64) -> String {
    const HARDWARE: [&str; 10] = [
        "cycles",
        "instructions",
        "cache-references",
        "cache-misses",
        "branches",
        "branch-misses",
        "bus-cycles",
        "stalled-cycles-frontend",
        "stalled-cycles-backend",
        "ref-cycles",
    ];
    const SOFTWARE: [&str; 11] = [
        "cpu-clock",
        "task-clock",
        "page-faults",
        "context-switches",
        "cpu-migrations",
        "minor-faults",
        "major-faults",
        "alignment-faults",
        "emulation-faults",
        "dummy",
        "bpf-output",
    ];
    const CACHES: [&str; 7] = [
        "L1-dcache",
        "L1-icache",
        "LLC",
        "dTLB",
        "iTLB",
        "branch",
        "node",
    ];
    let of = |list: &[&str]| {
        usize::try_from(config)
            .ok()
            .and_then(|i| Some((*list.get(i)?).to_owned()))
    };
    match class {
        // On hybrid machines the upper half is the PMU type.
        0 => of(&HARDWARE).or_else(|| event_name_low(&HARDWARE, config)),
        1 => of(&SOFTWARE),
        2 => Some(format!("tracepoint:{config}")),
        3 => {
            let cache = CACHES.get((config & 0xff) as usize);
            let op = ["load", "store", "prefetch"].get((config >> 8 & 0xff) as usize);
            let miss = config >> 16 & 0xff == 1;
            cache
                .zip(op)
                .map(|(cache, op)| format!("{cache}-{op}{}", if miss { "-misses" } else { "s" }))
        }
        4 => Some(format!("r{config:x}")),
        _ => None,
    }
    .unwrap_or_else(|| format!("event-{class}-{config:x}"))
}

fn event_name_low(list: &[&str], config: u64) -> Option<String> {
    let low = usize::try_from(config & 0xffff_ffff).ok()?;
    Some((*list.get(low)?).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(event_name(0, 1), "instructions");
        assert_eq!(event_name(1, 2), "page-faults");
        assert_eq!(event_name(3, 0x1_0001), "L1-icache-load-misses");
        assert_eq!(event_name(3, 4), "iTLB-loads");
        assert_eq!(event_name(4, 0x1b), "r1b");
        assert_eq!(event_name(9, 1), "event-9-1");
    }

    #[derive(Default)]
    struct Missing(Vec<Incomplete>);

    impl Sink for Missing {
        fn incomplete(&mut self, what: Incomplete) {
            self.0.push(what);
        }
    }

    #[test]
    fn a_recording_that_perf_did_not_end_is_reported() {
        let missing = |data_bytes: u64| {
            let mut file = b"PERFILE2".to_vec();
            // Size of the header, size of an attribute, no attributes, and data after the header.
            for word in [104, 128, 104, 0, 104, data_bytes, 0, 0, 0, 0, 0, 0] {
                file.extend(word.to_le_bytes());
            }
            // One record of 8 bytes: PERF_RECORD_FINISHED_ROUND.
            file.extend((68 | 8u64 << 48).to_le_bytes());
            let mut sink = Missing::default();
            read(&mut Source::new(Box::new(file.as_slice())), &mut sink).unwrap();
            sink.0
        };
        assert!(missing(8).is_empty());
        let found: Vec<String> = missing(0).iter().map(Incomplete::to_string).collect();
        assert_eq!(
            found,
            [
                "the file ends at byte 104 inside the recording (its size is 0: perf did not end \
              properly)"
            ]
        );
    }

    #[test]
    fn group_values() {
        let words =
            |list: &[u64]| -> Vec<u8> { list.iter().flat_map(|w| w.to_le_bytes()).collect() };
        let bytes = words(&[2, 100, 90, 11, 1, 22, 2]);
        let mut out = Vec::new();
        let all = read_format::GROUP
            | read_format::ID
            | read_format::TIME_ENABLED
            | read_format::TIME_RUNNING;
        read_values(&mut Words(&bytes), all, &mut out).unwrap();
        assert_eq!(out, vec![(1, 11), (2, 22)]);
        assert!(read_values(&mut Words(&bytes[..40]), all, &mut out).is_none());
        assert!(read_values(&mut Words(&words(&[1 << 40])), all, &mut out).is_none());
    }
}
