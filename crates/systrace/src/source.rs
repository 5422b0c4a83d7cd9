//! Buffered reading of a byte stream, with the offset of each byte.

use std::io::{ErrorKind as IoKind, Read};

use crate::error::TraceError;

/// Bytes requested from the stream at a time: large enough to make system calls negligible, small
/// enough for the L2 cache.
const CHUNK_BYTES: usize = 256 * 1024;

/// Maximum length of a line. Longer lines occur in HTML scripts and binary data only, never in
/// trace text.
const MAX_LINE_BYTES: usize = 1 << 20;

pub(crate) struct Source<'r> {
    inner: Box<dyn Read + 'r>,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the stream of `buf[start]`.
    offset: u64,
    eof: bool,
    cut: Option<String>,
}

/// A line without its line feed.
pub(crate) struct Line<'a> {
    pub bytes: &'a [u8],
    pub offset: u64,
    /// Whether a line feed ends the line; false for the last line of a truncated file.
    pub terminated: bool,
    /// Whether the line exceeds the maximum length, in which case `bytes` is empty.
    pub overlong: bool,
}

impl<'r> Source<'r> {
    pub(crate) fn new(inner: Box<dyn Read + 'r>) -> Self {
        Self {
            inner,
            buf: vec![0; CHUNK_BYTES],
            start: 0,
            end: 0,
            offset: 0,
            eof: false,
            cut: None,
        }
    }

    /// Offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Error message of a decompressor that ended the stream early.
    pub(crate) fn cut(&self) -> Option<&str> {
        self.cut.as_deref()
    }

    fn window(&self) -> &[u8] {
        self.buf.get(self.start..self.end).unwrap_or_default()
    }

    fn advance(&mut self, n: usize) {
        let n = n.min(self.end - self.start);
        self.start += n;
        self.offset += n as u64;
    }

    /// Reads more bytes; false at the end of the stream.
    fn refill(&mut self) -> Result<bool, TraceError> {
        if self.eof {
            return Ok(false);
        }
        if self.start > 0 {
            self.buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buf.len() - self.end < CHUNK_BYTES / 2 {
            // The buffer doubles only as bytes arrive, so that a hostile length field cannot make
            // it allocate more than the file holds.
            let grown = (self.buf.len() * 2).max(self.end + CHUNK_BYTES);
            self.buf.resize(grown, 0);
        }
        loop {
            let room = self.buf.get_mut(self.end..).unwrap_or_default();
            match self.inner.read(room) {
                Ok(0) => {
                    self.eof = true;
                    return Ok(false);
                }
                Ok(n) => {
                    self.end += n.min(room.len());
                    return Ok(true);
                }
                Err(e) if e.kind() == IoKind::Interrupted => {}
                // Decompressors report truncated or damaged input this way; the bytes delivered
                // before are valid.
                Err(e)
                    if matches!(
                        e.kind(),
                        IoKind::UnexpectedEof
                            | IoKind::InvalidData
                            | IoKind::InvalidInput
                            | IoKind::Other
                    ) =>
                {
                    self.eof = true;
                    self.cut = Some(e.to_string());
                    return Ok(false);
                }
                Err(e) => {
                    return Err(TraceError::io(
                        self.offset + (self.end - self.start) as u64,
                        e,
                    ));
                }
            }
        }
    }

    /// Up to `n` bytes, not consumed; fewer only at the end of the stream.
    pub(crate) fn peek(&mut self, n: usize) -> Result<&[u8], TraceError> {
        while self.end - self.start < n {
            if !self.refill()? {
                break;
            }
        }
        let w = self.window();
        Ok(w.get(..n).unwrap_or(w))
    }

    /// The next `n` bytes, or `None` (and nothing consumed) if fewer are left.
    pub(crate) fn exactly(&mut self, n: usize) -> Result<Option<&[u8]>, TraceError> {
        while self.end - self.start < n {
            if !self.refill()? {
                return Ok(None);
            }
        }
        let from = self.start;
        self.advance(n);
        Ok(self.buf.get(from..from + n))
    }

    /// Skips `n` bytes; false if fewer are left.
    pub(crate) fn skip(&mut self, mut n: u64) -> Result<bool, TraceError> {
        loop {
            let have = (self.end - self.start) as u64;
            if n <= have {
                self.advance(n as usize);
                return Ok(true);
            }
            self.advance(have as usize);
            n -= have;
            if !self.refill()? {
                return Ok(false);
            }
        }
    }

    /// The next line, or `None` at the end of the stream.
    pub(crate) fn line(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        let offset = self.offset;
        let mut seen = 0;
        loop {
            let w = self
                .buf
                .get(self.start + seen..self.end)
                .unwrap_or_default();
            if let Some(i) = memchr::memchr(b'\n', w) {
                let len = seen + i;
                let from = self.start;
                self.advance(len + 1);
                return Ok(Some(Line {
                    bytes: self.buf.get(from..from + len).unwrap_or_default(),
                    offset,
                    terminated: true,
                    overlong: false,
                }));
            }
            seen = self.end - self.start;
            if seen > MAX_LINE_BYTES {
                return self.skip_line(offset).map(Some);
            }
            if !self.refill()? {
                if seen == 0 {
                    return Ok(None);
                }
                let from = self.start;
                self.advance(seen);
                return Ok(Some(Line {
                    bytes: self.buf.get(from..from + seen).unwrap_or_default(),
                    offset,
                    terminated: false,
                    overlong: false,
                }));
            }
        }
    }

    fn skip_line(&mut self, offset: u64) -> Result<Line<'_>, TraceError> {
        let mut terminated = true;
        loop {
            if let Some(i) = memchr::memchr(b'\n', self.window()) {
                self.advance(i + 1);
                break;
            }
            self.advance(self.end - self.start);
            if !self.refill()? {
                terminated = false;
                break;
            }
        }
        Ok(Line {
            bytes: &[],
            offset,
            terminated,
            overlong: true,
        })
    }
}

/// Reads the rest of the stream, for a decompressor on top of it.
impl Read for Source<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            if let Err(e) = self.refill() {
                return Err(std::io::Error::other(e.to_string()));
            }
        }
        let n = out.len().min(self.end - self.start);
        let from = self.start;
        if let (Some(dst), Some(src)) = (out.get_mut(..n), self.buf.get(from..from + n)) {
            dst.copy_from_slice(src);
        }
        self.advance(n);
        Ok(n)
    }
}
