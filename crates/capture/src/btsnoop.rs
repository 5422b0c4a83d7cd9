//! The btsnoop format (layout of RFC 1761 with Bluetooth data links), written by Android, BlueZ and
//! vendors' tools for the host-controller interface.

use std::io::Read;

use mpbond_units::Timestamp;

use crate::error::CaptureError;
use crate::record::{Found, LinkType, MAX_PACKET};
use crate::source::{Source, u32_at};

const MAGIC: &[u8] = b"btsnoop\0";
const FILE_HEADER: usize = 16;
const RECORD_HEADER: usize = 24;
/// Microseconds from the year 0 to the Unix epoch.
const EPOCH_US: u64 = 0x00dc_ddb3_0f2f_8000;

/// Data link types: bare HCI, HCI with a type octet (H4), and the kernel's monitor.
const H1: u32 = 1001;
const H4: u32 = 1002;
const MONITOR: u32 = 2001;

/// Whether a file begins like btsnoop.
pub(crate) fn is(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

pub(crate) struct Btsnoop {
    link_type: LinkType,
}

impl Btsnoop {
    pub(crate) fn open<R: Read>(source: &mut Source<R>) -> Result<Self, CaptureError> {
        let head = source
            .header::<FILE_HEADER>("the file header")?
            .unwrap_or([0; FILE_HEADER]);
        let version = u32_at(&head, 8, true);
        if version != 1 {
            return Err(source.error(
                8,
                format!("unsupported btsnoop version {version}; only version 1 is supported"),
            ));
        }
        let link_type = match u32_at(&head, 12, true) {
            H1 => LinkType::BTSNOOP_H1,
            H4 => LinkType::BTSNOOP_H4,
            MONITOR => LinkType::BTSNOOP_MONITOR,
            other => {
                let reason = format!(
                    "unsupported btsnoop data link {other}; H1, H4 and monitor are supported"
                );
                return Err(source.error(12, reason));
            }
        };
        source.take(FILE_HEADER);
        Ok(Self { link_type })
    }

    pub(crate) fn next<R: Read>(
        &mut self,
        source: &mut Source<R>,
    ) -> Result<Option<Found>, CaptureError> {
        let offset = source.offset();
        let Some(head) = source.header::<RECORD_HEADER>("a record header")? else {
            return Ok(None);
        };
        let field = |i: usize| u32_at(&head, i * 4, true);
        let (original, captured, flags) = (field(0), field(1), field(2));
        let time_us = u64::from(field(4)) << 32 | u64::from(field(5));
        let captured = captured as usize;
        if captured > MAX_PACKET {
            let reason =
                format!("record length of {captured} bytes exceeds the maximum: file is damaged");
            return Err(source.error(offset, reason));
        }
        if captured > original as usize {
            let reason = format!(
                "record contains {captured} bytes of a packet of {original}: file is damaged"
            );
            return Err(source.error(offset, reason));
        }
        let since_1970 = time_us.checked_sub(EPOCH_US);
        // Nanoseconds since 1970 end in the year 2554.
        let ns = since_1970.and_then(|us| us.checked_mul(1000));
        let Some(ns) = ns else {
            return Err(source.error(offset, "packet timestamp out of range: file is damaged"));
        };
        let whole = source.peek(RECORD_HEADER + captured)?.len();
        if whole < RECORD_HEADER + captured {
            let got = whole.saturating_sub(RECORD_HEADER);
            let reason = format!("file ends inside a record ({got} of {captured} bytes)");
            return Err(source.error(offset, reason));
        }
        Ok(Some(Found {
            at: Timestamp::from_nanos(ns),
            link_type: self.link_type,
            interface: 0,
            flags,
            original_bytes: original,
            offset,
            before: RECORD_HEADER,
            captured,
            after: 0,
        }))
    }
}
