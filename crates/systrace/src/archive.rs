//! Streaming decompression of zip and zstd.

use std::io::Read;

use crate::error::TraceError;
use crate::source::Source;

/// First non-empty file of a zip archive.
///
/// Only local file headers are read, so that an archive may arrive through a pipe. Sizes in a data
/// descriptor after the data (general purpose flag bit 3 of the ZIP application note, APPNOTE
/// section 4.4.4) are not needed, because a deflate stream (RFC 1951) marks its own end.
///
/// # Errors
/// If the archive has no such file, or the file is encrypted or uses an unsupported compression
/// method.
pub(crate) fn first_file<'r>(mut source: Source<'r>) -> Result<Box<dyn Read + 'r>, TraceError> {
    loop {
        let at = source.offset();
        let cut = || TraceError::malformed(at, "the zip archive ends inside a header");
        let head = source.exactly(30)?.ok_or_else(cut)?;
        if !head.starts_with(b"PK\x03\x04") {
            return Err(TraceError::malformed(
                at,
                "the zip archive has no non-empty file",
            ));
        }
        let u16_at = |i: usize| u16::from_le_bytes([byte(head, i), byte(head, i + 1)]);
        let flags = u16_at(6);
        let method = u16_at(8);
        let packed = u64::from(u16_at(18)) | u64::from(u16_at(20)) << 16;
        let names = u64::from(u16_at(26)) + u64::from(u16_at(28));
        if !source.skip(names)? {
            return Err(cut());
        }
        let sized = flags & 8 == 0;
        if flags & 1 != 0 {
            return Err(TraceError::unsupported(at, "encrypted zip archive"));
        }
        match method {
            8 if !sized || packed > 0 => {
                return Ok(Box::new(flate2::read::DeflateDecoder::new(source)));
            }
            0 if sized && packed == 0 => {}
            0 if sized => return Ok(Box::new(Read::take(source, packed))),
            m => {
                return Err(TraceError::unsupported(
                    at,
                    format!("zip compression method {m}"),
                ));
            }
        }
    }
}

fn byte(bytes: &[u8], i: usize) -> u8 {
    bytes.get(i).copied().unwrap_or_default()
}

/// A zstd stream (RFC 8878).
///
/// # Errors
/// If the first frame header is damaged.
pub(crate) fn zstd<'r>(source: Source<'r>) -> Result<impl Read + use<'r>, TraceError> {
    ruzstd::decoding::StreamingDecoder::new(source)
        .map_err(|e| TraceError::malformed(0, format!("zstd: {e}")))
}
