//! Variable-length integers: the two top bits of the first octet give the
//! length (1, 2, 4 or 8 octets), the rest is the value in network order, as
//! in RFC 9000, section 16.

use bytes::{Buf, BufMut};

/// Largest value a varint holds.
pub const VARINT_MAX: u64 = (1 << 62) - 1;

/// Octets that `v` takes as a varint.
pub const fn varint_len(v: u64) -> usize {
    match v {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Appends `v`, which must not exceed [`VARINT_MAX`]; larger values saturate.
#[inline]
pub(super) fn put(out: &mut impl BufMut, v: u64) {
    match varint_len(v) {
        1 => out.put_u8(v as u8),
        2 => out.put_u16(v as u16 | 0x4000),
        4 => out.put_u32(v as u32 | 0x8000_0000),
        _ => out.put_u64(v.min(VARINT_MAX) | 0xc000_0000_0000_0000),
    }
}

/// Takes a varint off the front; `None` when the buffer is too short.
#[inline]
pub(super) fn take(buf: &mut impl Buf) -> Option<u64> {
    if !buf.has_remaining() {
        return None;
    }
    let first = buf.chunk().first().copied()?;
    let len = 1usize << (first >> 6);
    if buf.remaining() < len {
        return None;
    }
    Some(match len {
        1 => u64::from(buf.get_u8()),
        2 => u64::from(buf.get_u16() & 0x3fff),
        4 => u64::from(buf.get_u32() & 0x3fff_ffff),
        _ => buf.get_u64() & VARINT_MAX,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_at_every_border() {
        for v in [
            0,
            0x3f,
            0x40,
            0x3fff,
            0x4000,
            0x3fff_ffff,
            0x4000_0000,
            VARINT_MAX,
        ] {
            let mut out = Vec::new();
            put(&mut out, v);
            assert_eq!(out.len(), varint_len(v));
            for cut in 0..out.len() {
                assert_eq!(take(&mut &out[..cut]), None);
            }
            assert_eq!(take(&mut &out[..]), Some(v));
        }
    }
}
