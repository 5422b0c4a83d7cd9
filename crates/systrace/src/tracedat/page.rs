//! Ring-buffer pages of the kernel (Documentation/trace/ring-buffer-design.rst and
//! include/linux/ring_buffer.h in the kernel sources).

use super::decode::Decoder;
use super::format::PageLayout;
use crate::error::Incomplete;
use crate::sink::Sink;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
const DELTA_BITS: u32 = 27;

/// Length bits of the page's commit word; the bits above are flags.
const COMMIT_MASK: u64 = (1 << 27) - 1;
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// Bits that an absolute time stamp lacks: it has 59 bits, the rest comes from the page header.
const STAMP_HIGH: u64 = !((1 << 59) - 1);

/// Reader of the pages of one CPU, in order.
pub(super) struct Pages {
    layout: PageLayout,
    cpu: u32,
    missed_pages: u64,
    missed: u64,
    damaged: (u64, u64),
}

impl Pages {
    pub(super) fn new(layout: PageLayout, cpu: u32) -> Self {
        Self {
            layout,
            cpu,
            missed_pages: 0,
            missed: 0,
            damaged: (0, 0),
        }
    }

    pub(super) fn read(
        &mut self,
        page: &[u8],
        offset: u64,
        decoder: &mut Decoder,
        sink: &mut dyn Sink,
    ) {
        if self.entries(page, decoder, sink).is_none() {
            if self.damaged.1 == 0 {
                self.damaged.0 = offset;
            }
            self.damaged.1 += 1;
        }
    }

    fn entries(&mut self, page: &[u8], decoder: &mut Decoder, sink: &mut dyn Sink) -> Option<()> {
        let order = self.layout.order;
        let base = order.u64(page.get(..8)?);
        let commit = self.layout.commit;
        let word = order.sized(page.get(commit.offset..commit.offset + commit.size)?);
        let size = (word & COMMIT_MASK) as usize;
        let data = page.get(self.layout.data..)?;
        if word & MISSED_EVENTS != 0 {
            self.missed_pages += 1;
            // The number of lost events follows the entries if there is room for it.
            if word & MISSED_STORED != 0 {
                let count = data.get(size..size + 8)?;
                self.missed = self.missed.saturating_add(order.u64(count));
            }
        }
        let mut rest = data.get(..size)?;
        let mut time = base;
        while !rest.is_empty() {
            let (kind, delta) = order.entry(order.u32(rest.get(..4)?));
            let body = rest.get(4..)?;
            let first = || Some(u64::from(order.u32(body.get(..4)?)));
            let used = match kind {
                0 => {
                    let len = first()? as usize;
                    time = time.wrapping_add(delta);
                    decoder.record(self.cpu, time, body.get(4..len)?, sink);
                    len
                }
                PADDING if delta == 0 => return Some(()),
                PADDING => {
                    time = time.wrapping_add(delta);
                    first()? as usize
                }
                TIME_EXTEND => {
                    time = time.wrapping_add(delta | first()? << DELTA_BITS);
                    4
                }
                TIME_STAMP => {
                    time = base & STAMP_HIGH | delta | first()? << DELTA_BITS;
                    4
                }
                words => {
                    let len = words as usize * 4;
                    time = time.wrapping_add(delta);
                    decoder.record(self.cpu, time, body.get(..len)?, sink);
                    len
                }
            };
            rest = body.get(used..)?;
        }
        Some(())
    }

    pub(super) fn finish(&self, sink: &mut dyn Sink) {
        if self.missed_pages > 0 {
            sink.incomplete(Incomplete::LostEvents {
                cpu: Some(self.cpu),
                count: (self.missed > 0).then_some(self.missed),
            });
        }
        if self.damaged.1 > 0 {
            sink.incomplete(Incomplete::Skipped {
                offset: self.damaged.0,
                count: self.damaged.1,
                what: format!("partly damaged pages of CPU {}", self.cpu),
            });
        }
    }
}
