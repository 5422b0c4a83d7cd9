//! Errors of trace readers, and descriptions of missing data.

use std::fmt;
use std::io;

/// Error that prevents a trace from being read at all.
///
/// A file that ends early is not an error: the reader delivers the records before the end and
/// reports the rest as [`Incomplete`].
#[derive(Debug)]
pub struct TraceError {
    /// Offset in the decompressed stream, bytes.
    pub offset: u64,
    /// Kind of the error.
    pub kind: ErrorKind,
}

/// Kinds of [`TraceError`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Reading the source failed.
    Io(io::Error),
    /// Unknown format; holds the first bytes of the file.
    UnknownFormat(String),
    /// Content that violates the detected format.
    Malformed(String),
    /// Unsupported version or variant of a known format.
    Unsupported(String),
    /// Empty file.
    Empty,
}

impl TraceError {
    pub(crate) fn malformed(offset: u64, what: impl Into<String>) -> Self {
        Self {
            offset,
            kind: ErrorKind::Malformed(what.into()),
        }
    }

    pub(crate) fn unsupported(offset: u64, what: impl Into<String>) -> Self {
        Self {
            offset,
            kind: ErrorKind::Unsupported(what.into()),
        }
    }

    pub(crate) fn io(offset: u64, e: io::Error) -> Self {
        Self {
            offset,
            kind: ErrorKind::Io(e),
        }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.offset;
        match &self.kind {
            ErrorKind::Io(e) => write!(f, "byte {at}: {}", one_line(&e.to_string())),
            ErrorKind::UnknownFormat(head) => write!(
                f,
                "byte {at}: no known trace format; the file begins with {}",
                one_line(head)
            ),
            ErrorKind::Malformed(what) => write!(f, "byte {at}: {}", one_line(what)),
            ErrorKind::Unsupported(what) => {
                write!(f, "byte {at}: not supported: {}", one_line(what))
            }
            ErrorKind::Empty => write!(f, "empty file"),
        }
    }
}

/// Replaces control characters: they come from the file and would reach a terminal.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Io(e) => Some(e),
            _ => None,
        }
    }
}

/// Error message of a TOML rule file in one line, with the line number.
pub(crate) fn toml_error(text: &str, e: &toml::de::Error) -> String {
    let message = one_line(&e.message().trim().replace('\n', "; "));
    match e.span().and_then(|s| text.get(..s.start)) {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message,
    }
}

/// Missing or damaged data in a trace that was read otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incomplete {
    /// The file ends inside a record.
    Truncated {
        /// Offset of the truncated record in the decompressed stream, bytes.
        offset: u64,
        /// Name of the truncated record.
        what: String,
    },
    /// The kernel dropped events because the reader was too slow.
    LostEvents {
        /// CPU whose buffer overflowed, if the trace has it.
        cpu: Option<u32>,
        /// Number of lost events, if the trace has it.
        count: Option<u64>,
    },
    /// A ring buffer overwrote its oldest entries.
    Overwritten {
        /// Entries left in the buffer.
        kept: u64,
        /// Entries written to the buffer.
        written: u64,
    },
    /// The recorder reports lost packets, chunks or records.
    Dropped(String),
    /// Bytes or lines outside of the format were skipped.
    Skipped {
        /// Offset of the first skipped piece, bytes.
        offset: u64,
        /// Number of skipped pieces.
        count: u64,
        /// Description of the skipped pieces.
        what: String,
    },
    /// Number of records of one CPU that are out of time order by more than clock noise.
    OutOfOrder(u64),
    /// Number of exact repetitions of another record.
    Duplicate(u64),
    /// Number of records too far from all others to belong to the recording.
    Stray(u64),
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { offset, what } => {
                write!(f, "the file ends at byte {offset} inside {what}")
            }
            Self::LostEvents { cpu, count } => {
                match count {
                    Some(n) => write!(f, "{n} events lost")?,
                    None => write!(f, "events lost")?,
                }
                match cpu {
                    Some(c) => write!(f, " on CPU {c}"),
                    None => Ok(()),
                }
            }
            Self::Overwritten { kept, written } => write!(
                f,
                "the ring buffer kept {kept} of {written} entries: the start is missing"
            ),
            Self::Dropped(what) => f.write_str(what),
            Self::Skipped {
                offset,
                count,
                what,
            } => write!(f, "{count} {what} skipped, first at byte {offset}"),
            Self::OutOfOrder(n) => write!(f, "{n} records out of time order (sorted)"),
            Self::Duplicate(n) => write!(f, "{n} repeated records (counted once)"),
            Self::Stray(n) => write!(
                f,
                "{n} records far outside the recording (left off the timeline)"
            ),
        }
    }
}
