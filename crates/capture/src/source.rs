//! Octets of a file with their offset, for error messages.

use std::io::{ErrorKind, Read};

use crate::error::{CaptureError, Place};

/// Size of a read from the file.
const CHUNK: usize = 64 * 1024;

/// A file read from start to end in a bounded window.
pub(crate) struct Source<R> {
    file: String,
    from: R,
    buffer: Vec<u8>,
    /// Start of the unread octets in the buffer.
    start: usize,
    /// End of the filled part of the buffer.
    end: usize,
    /// Offset in the file of `start`.
    offset: u64,
    ended: bool,
}

impl<R: Read> Source<R> {
    pub(crate) fn new(file: &str, from: R) -> Self {
        Self {
            file: file.to_owned(),
            from,
            buffer: vec![0; CHUNK],
            start: 0,
            end: 0,
            offset: 0,
            ended: false,
        }
    }

    /// Offset of the next unread byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    pub(crate) fn error(&self, offset: u64, reason: impl Into<String>) -> CaptureError {
        CaptureError {
            file: self.file.clone(),
            place: Place::Offset(offset),
            reason: reason.into(),
        }
    }

    /// The next `wanted` octets without consuming them; fewer only at the end of the file. The
    /// caller must bound `wanted`.
    pub(crate) fn peek(&mut self, wanted: usize) -> Result<&[u8], CaptureError> {
        if self.end - self.start < wanted && !self.ended {
            self.fill(wanted)?;
        }
        let end = self.end.min(self.start + wanted);
        Ok(self.buffer.get(self.start..end).unwrap_or_default())
    }

    fn fill(&mut self, wanted: usize) -> Result<(), CaptureError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted.max(CHUNK), 0);
        }
        while self.end < wanted && !self.ended {
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.from.read(room) {
                Ok(0) => self.ended = true,
                Ok(n) => self.end += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    let at = self.offset + (self.end - self.start) as u64;
                    return Err(self.error(at, format!("cannot be read: {e}")));
                }
            }
        }
        Ok(())
    }

    /// Consumes `count` octets, which must have been peeked.
    pub(crate) fn take(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// The last `count` octets consumed, while nothing was read since.
    pub(crate) fn taken(&self, count: usize) -> &[u8] {
        let start = self.start.saturating_sub(count);
        self.buffer.get(start..self.start).unwrap_or_default()
    }

    /// The next `N` octets without consuming them; `None` at the end of the file, an error when the
    /// file ends in between.
    pub(crate) fn header<const N: usize>(
        &mut self,
        what: &str,
    ) -> Result<Option<[u8; N]>, CaptureError> {
        let offset = self.offset;
        let got = self.peek(N)?;
        if got.is_empty() {
            return Ok(None);
        }
        match <[u8; N]>::try_from(got) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(_) => {
                let reason = format!("file ends inside {what} ({} of {N} bytes)", got.len());
                Err(self.error(offset, reason))
            }
        }
    }
}

/// Number of two octets at `at`; zero beyond the end.
pub(crate) fn u16_at(bytes: &[u8], at: usize, big: bool) -> u16 {
    let mut b = [0; 2];
    if let Some(from) = bytes.get(at..at + 2) {
        b.copy_from_slice(from);
    }
    if big {
        u16::from_be_bytes(b)
    } else {
        u16::from_le_bytes(b)
    }
}

/// Number of four octets at `at`; zero beyond the end.
pub(crate) fn u32_at(bytes: &[u8], at: usize, big: bool) -> u32 {
    let mut b = [0; 4];
    if let Some(from) = bytes.get(at..at + 4) {
        b.copy_from_slice(from);
    }
    if big {
        u32::from_be_bytes(b)
    } else {
        u32::from_le_bytes(b)
    }
}
