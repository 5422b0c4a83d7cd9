//! Apple's PacketLogger format (.pklg): records without a file header, in either byte order.

use std::io::Read;

use mpbond_units::Timestamp;

use crate::error::CaptureError;
use crate::record::{Found, LinkType, MAX_PACKET};
use crate::source::{Source, u32_at};

/// Length, seconds, microseconds, kind.
const HEADER: usize = 13;
/// Octets besides the packet that the length includes.
const COUNTED: usize = 9;

/// Whether a file begins like PacketLogger. The format has no magic number: length, microseconds
/// and kind of the first record must all be valid.
pub(crate) fn is(head: &[u8]) -> bool {
    byte_order(head).is_some()
}

fn byte_order(head: &[u8]) -> Option<bool> {
    let kind = *head.get(HEADER - 1)?;
    if !matches!(kind, 0..=0x0e | 0xf8..=0xff) {
        return None;
    }
    [true, false].into_iter().find(|big| {
        let length = u32_at(head, 0, *big) as usize;
        (COUNTED..=1 << 16).contains(&length) && u32_at(head, 8, *big) < 1_000_000
    })
}

pub(crate) struct PacketLogger {
    big: bool,
}

impl PacketLogger {
    pub(crate) fn open<R: Read>(source: &mut Source<R>) -> Result<Self, CaptureError> {
        let head = source.peek(HEADER)?;
        match byte_order(head) {
            Some(big) => Ok(Self { big }),
            None => Err(source.error(0, "not a PacketLogger file")),
        }
    }

    pub(crate) fn next<R: Read>(
        &mut self,
        source: &mut Source<R>,
    ) -> Result<Option<Found>, CaptureError> {
        let offset = source.offset();
        let Some(head) = source.header::<HEADER>("a record header")? else {
            return Ok(None);
        };
        let field = |i: usize| u32_at(&head, i * 4, self.big);
        let (length, seconds, micros) = (field(0) as usize, field(1), field(2));
        if !(COUNTED..=MAX_PACKET).contains(&length) || micros >= 1_000_000 {
            let reason =
                format!("invalid record of {length} bytes at {micros} us: file is damaged");
            return Err(source.error(offset, reason));
        }
        let captured = length - COUNTED;
        let whole = source.peek(HEADER + captured)?.len();
        if whole < HEADER + captured {
            let got = whole.saturating_sub(HEADER);
            let reason = format!("file ends inside a record ({got} of {captured} bytes)");
            return Err(source.error(offset, reason));
        }
        let kind = head.last().copied().unwrap_or_default();
        Ok(Some(Found {
            at: Timestamp::from_nanos(
                u64::from(seconds) * 1_000_000_000 + u64::from(micros) * 1000,
            ),
            link_type: LinkType::PACKET_LOGGER,
            interface: 0,
            flags: u32::from(kind),
            original_bytes: captured as u32,
            offset,
            before: HEADER,
            captured,
            after: 0,
        }))
    }
}
