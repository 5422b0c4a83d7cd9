//! Pages of the kernel's ring buffer.

use super::decode::Decoder;
use super::format::PageLayout;
use crate::error::Incomplete;
use crate::sink::Sink;

/// The byte order of the machine that recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    big: bool,
}

impl Order {
    pub(super) fn new(big: bool) -> Self {
        Self { big }
    }

    /// The number in the first `N` bytes; 0 where they are missing, so callers
    /// check lengths first where 0 would mislead.
    fn number<const N: usize>(self, bytes: &[u8]) -> u64 {
        let mut a = [0u8; N];
        if let Some(b) = bytes.get(..N) {
            a.copy_from_slice(b);
        }
        let fold = |acc: u64, b: &u8| acc << 8 | u64::from(*b);
        if self.big {
            a.iter().fold(0, fold)
        } else {
            a.iter().rev().fold(0, fold)
        }
    }

    pub(super) fn u16(self, bytes: &[u8]) -> u16 {
        self.number::<2>(bytes) as u16
    }

    pub(super) fn u32(self, bytes: &[u8]) -> u32 {
        self.number::<4>(bytes) as u32
    }

    pub(super) fn u64(self, bytes: &[u8]) -> u64 {
        self.number::<8>(bytes)
    }

    /// An unsigned number of 1, 2, 4 or 8 bytes.
    pub(super) fn sized(self, bytes: &[u8]) -> u64 {
        match bytes.len() {
            1 => self.number::<1>(bytes),
            2 => self.number::<2>(bytes),
            4 => self.number::<4>(bytes),
            8 => self.number::<8>(bytes),
            _ => 0,
        }
    }

    /// Splits the word that heads each entry: type and length, time delta.
    fn entry(self, word: u32) -> (u32, u64) {
        if self.big {
            (word >> 27, u64::from(word & 0x07ff_ffff))
        } else {
            (word & 31, u64::from(word >> 5))
        }
    }
}

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
const DELTA_BITS: u32 = 27;

/// Flags in the page's commit word.
const COMMIT_MASK: u64 = (1 << 27) - 1;
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// Absolute stamps hold 59 bits; the rest comes from the page.
const STAMP_HIGH: u64 = !((1 << 59) - 1);

/// Reads the pages of one CPU, one after the other.
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
            // The count follows the entries where there was room for it.
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
                what: format!("damaged pages of CPU {} (in part)", self.cpu),
            });
        }
    }
}
