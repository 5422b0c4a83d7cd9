//! Errors of reading captures and logs.

use std::fmt;

/// Place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Byte offset; in a compressed file, of the decompressed data.
    Offset(u64),
    /// Line number, from one.
    Line(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => write!(f, "offset {offset}"),
            Self::Line(line) => write!(f, "line {line}"),
        }
    }
}

/// Error of reading a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {place}: {}", one_line(reason))]
pub struct CaptureError {
    /// File name, as given by the caller.
    pub file: String,
    /// Place where reading stopped.
    pub place: Place,
    /// Reason.
    pub reason: String,
}

/// Replaces control characters: the text comes from a file and may be printed to a terminal.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
