//! Unwraps zip and zstd as streams.

use std::io::Read;

use crate::error::TraceError;
use crate::source::Source;

/// The first non-empty file of a zip archive.
///
/// Reads local headers only, so that an archive can come through a pipe; sizes
/// that follow the data (bit 3) are no hindrance, because deflate knows its
/// own end.
///
/// # Errors
/// When there is no such file, or it is stored in a way that is not read.
pub(crate) fn first_file<'r>(mut source: Source<'r>) -> Result<Box<dyn Read + 'r>, TraceError> {
    loop {
        let at = source.offset();
        let cut = || TraceError::malformed(at, "the zip archive ends inside a header");
        let head = source.exactly(30)?.ok_or_else(cut)?;
        if !head.starts_with(b"PK\x03\x04") {
            return Err(TraceError::malformed(
                at,
                "the zip archive holds no file with content",
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
            return Err(TraceError::unsupported(at, "an encrypted zip archive"));
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

/// A zstd stream.
///
/// # Errors
/// When its first frame header is damaged.
pub(crate) fn zstd<'r>(source: Source<'r>) -> Result<impl Read + use<'r>, TraceError> {
    ruzstd::decoding::StreamingDecoder::new(source)
        .map_err(|e| TraceError::malformed(0, format!("zstd: {e}")))
}
