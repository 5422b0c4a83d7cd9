//! The classic pcap format (draft-ietf-opsawg-pcap).

use std::io::Read;

use mpbond_units::Timestamp;

use crate::error::CaptureError;
use crate::record::{Found, LinkType, MAX_PACKET};
use crate::source::{Source, u16_at, u32_at};

const MICROS: u32 = 0xa1b2_c3d4;
const NANOS: u32 = 0xa1b2_3c4d;
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

fn magic(head: &[u8]) -> Option<(bool, bool)> {
    for big in [false, true] {
        match u32_at(head, 0, big) {
            MICROS => return Some((big, false)),
            NANOS => return Some((big, true)),
            _ => {}
        }
    }
    None
}

/// Whether a file begins like pcap.
pub(crate) fn is(head: &[u8]) -> bool {
    head.len() >= 4 && magic(head).is_some()
}

pub(crate) struct Pcap {
    big: bool,
    nanos: bool,
    link_type: LinkType,
}

impl Pcap {
    pub(crate) fn open<R: Read>(source: &mut Source<R>) -> Result<Self, CaptureError> {
        let head = source
            .header::<FILE_HEADER>("the file header")?
            .unwrap_or([0; FILE_HEADER]);
        let Some((big, nanos)) = magic(&head) else {
            return Err(source.error(0, "not a pcap file"));
        };
        let major = u16_at(&head, 4, big);
        if major != 2 {
            return Err(source.error(
                4,
                format!("unsupported pcap version {major}; only version 2 is supported"),
            ));
        }
        source.take(FILE_HEADER);
        Ok(Self {
            big,
            nanos,
            // The upper four bits say whether frames end in a checksum.
            link_type: LinkType(u32_at(&head, 20, big) & 0x0fff_ffff),
        })
    }

    pub(crate) fn next<R: Read>(
        &mut self,
        source: &mut Source<R>,
    ) -> Result<Option<Found>, CaptureError> {
        let offset = source.offset();
        let Some(head) = source.header::<RECORD_HEADER>("a record header")? else {
            return Ok(None);
        };
        let field = |i: usize| u32_at(&head, i * 4, self.big);
        let (seconds, fraction, captured, original) = (field(0), field(1), field(2), field(3));
        let captured = captured as usize;
        if captured > MAX_PACKET {
            let reason =
                format!("record length of {captured} bytes exceeds the maximum: file is damaged");
            return Err(source.error(offset, reason));
        }
        let (limit, unit) = if self.nanos {
            (1_000_000_000, 1)
        } else {
            (1_000_000, 1_000)
        };
        if fraction >= limit {
            let reason = format!(
                "packet timestamp out of range ({fraction} fractions of a second): file is damaged"
            );
            return Err(source.error(offset, reason));
        }
        let whole = source.peek(RECORD_HEADER + captured)?.len();
        if whole < RECORD_HEADER + captured {
            let got = whole.saturating_sub(RECORD_HEADER);
            let reason = format!("file ends inside a record ({got} of {captured} bytes)");
            return Err(source.error(offset, reason));
        }
        let ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * unit;
        Ok(Some(Found {
            at: Timestamp::from_nanos(ns),
            link_type: self.link_type,
            interface: 0,
            flags: 0,
            original_bytes: original,
            offset,
            before: RECORD_HEADER,
            captured,
            after: 0,
        }))
    }
}
