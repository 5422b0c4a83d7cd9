//! Loss statistics of the recorder.

use rustc_hash::FxHashMap;

use crate::error::Incomplete;
use crate::protobuf::Fields;
use crate::sink::Sink;

#[derive(Default)]
pub(super) struct Stats {
    /// Overruns and drops of each CPU's kernel buffer at the start of tracing.
    start: FxHashMap<u64, u64>,
    end: FxHashMap<u64, u64>,
    /// Latest statistics of the service, summed over its buffers.
    overwritten_chunks: u64,
    discarded_chunks: u64,
    lost_packets: u64,
}

impl Stats {
    /// Reads `FtraceStats`. The counters are cumulative since before the recording, so only the
    /// difference between its start and its end counts.
    pub(super) fn ftrace(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> bool {
        const PHASE: u32 = 1;
        const CPU_STATS: u32 = 2;
        const END_OF_TRACE: u64 = 2;
        let mut fields = Fields::new(bytes);
        let at_end = Fields::new(bytes).any(|(n, v)| n == PHASE && v.int() == END_OF_TRACE);
        for (number, value) in fields.by_ref() {
            match number {
                CPU_STATS => {
                    let (mut cpu, mut lost) = (0, 0u64);
                    for (n, v) in Fields::new(value.bytes()) {
                        match n {
                            1 => cpu = v.int(),
                            3 | 4 | 8 => lost = lost.saturating_add(v.int()),
                            _ => {}
                        }
                    }
                    let map = if at_end {
                        &mut self.end
                    } else {
                        &mut self.start
                    };
                    if map.len() < 4096 {
                        map.insert(cpu, lost);
                    }
                }
                5..=7 => {
                    if let Ok(text) = std::str::from_utf8(value.bytes())
                        && !text.trim().is_empty()
                    {
                        sink.header("ftrace-errors", text.trim());
                    }
                }
                _ => {}
            }
        }
        fields.broken().is_none()
    }

    /// Reads `TraceStats`, which is repeated during the trace; the last one counts.
    pub(super) fn service(&mut self, bytes: &[u8]) -> bool {
        const BUFFER: u32 = 1;
        self.overwritten_chunks = 0;
        self.discarded_chunks = 0;
        self.lost_packets = 0;
        let mut fields = Fields::new(bytes);
        for (number, value) in fields.by_ref() {
            if number != BUFFER {
                continue;
            }
            for (n, v) in Fields::new(value.bytes()) {
                let sum = match n {
                    3 => &mut self.overwritten_chunks,
                    18 => &mut self.discarded_chunks,
                    19 | 22 => &mut self.lost_packets,
                    _ => continue,
                };
                *sum = sum.saturating_add(v.int());
            }
        }
        fields.broken().is_none()
    }

    pub(super) fn finish(&self, sink: &mut dyn Sink) {
        for (cpu, end) in &self.end {
            let lost = end.saturating_sub(self.start.get(cpu).copied().unwrap_or(0));
            if lost > 0 && self.start.contains_key(cpu) {
                sink.incomplete(Incomplete::LostEvents {
                    cpu: u32::try_from(*cpu).ok(),
                    count: Some(lost),
                });
            }
        }
        for (count, what) in [
            (self.overwritten_chunks, "chunks overwritten"),
            (self.discarded_chunks, "chunks discarded"),
            (self.lost_packets, "packets lost"),
        ] {
            if count > 0 {
                sink.incomplete(Incomplete::Dropped(format!(
                    "recorder statistics: {count} {what}"
                )));
            }
        }
    }
}
