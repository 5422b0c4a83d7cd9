//! Lines of a text file, bounded in length and numbered.

use std::io::Read;

use crate::error::{CaptureError, Place};
use crate::source::Source;

/// Maximum length of a line.
const MAX_LINE: usize = 4096;

pub(crate) struct Lines<R> {
    source: Source<R>,
    number: u64,
    line: String,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(source: Source<R>) -> Self {
        Self {
            source,
            number: 0,
            line: String::new(),
        }
    }

    /// Advances to the next line; `false` at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, CaptureError> {
        self.number += 1;
        let front = self.source.peek(MAX_LINE + 1)?;
        if front.is_empty() {
            return Ok(false);
        }
        let (length, taken) = match front.iter().position(|b| *b == b'\n') {
            Some(end) => (end, end + 1),
            None if front.len() <= MAX_LINE => {
                return Err(self.error("file ends inside a line"));
            }
            None => return Err(self.error("line exceeds the maximum length")),
        };
        let Ok(text) = std::str::from_utf8(front.get(..length).unwrap_or_default()) else {
            return Err(self.error("not text"));
        };
        self.line.clear();
        self.line.push_str(text.trim_end_matches('\r'));
        self.source.take(taken);
        Ok(true)
    }

    pub(crate) fn line(&self) -> &str {
        &self.line
    }

    /// Number of the line that was read last, from one.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn error(&self, reason: impl Into<String>) -> CaptureError {
        self.error_at(self.number, reason)
    }

    pub(crate) fn error_at(&self, line: u64, reason: impl Into<String>) -> CaptureError {
        CaptureError {
            file: self.source.file().to_owned(),
            place: Place::Line(line),
            reason: reason.into(),
        }
    }
}

/// Fields of a CSV line; these formats have no quotes.
pub(crate) fn fields<const N: usize>(line: &str) -> Option<[&str; N]> {
    let mut found = [""; N];
    let mut count = 0;
    for (i, field) in line.split(',').enumerate() {
        *found.get_mut(i)? = field.trim();
        count = i + 1;
    }
    (count == N).then_some(found)
}
