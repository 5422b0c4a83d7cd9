use std::fmt;
use std::io;

/// Why a trace could not be read at all.
///
/// A file that breaks off part-way is no error: what came before is delivered
/// and the break is reported as an [`Incomplete`].
#[derive(Debug)]
pub struct TraceError {
    /// Where in the (decompressed) stream, in bytes.
    pub offset: u64,
    /// What went wrong there.
    pub kind: ErrorKind,
}

/// Kinds of [`TraceError`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The source itself failed.
    Io(io::Error),
    /// None of the known formats; the first bytes are shown.
    UnknownFormat(String),
    /// A known format whose content contradicts it.
    Malformed(String),
    /// A known format in a version or variant that is not read.
    Unsupported(String),
    /// There is nothing to read.
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
            ErrorKind::Empty => write!(f, "the file is empty"),
        }
    }
}

/// Control characters come from the file and would reach a terminal.
fn one_line(text: &str) -> String {
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

/// What is wrong with a file of rules, and where, in one line.
pub(crate) fn toml_error(text: &str, e: &toml::de::Error) -> String {
    let message = one_line(&e.message().trim().replace('\n', "; "));
    match e.span().and_then(|s| text.get(..s.start)) {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message,
    }
}

/// Something that a trace lacks, as its reader noticed it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incomplete {
    /// The file ends inside a record.
    Truncated {
        /// Offset of the record that is cut, in bytes of the decompressed stream.
        offset: u64,
        /// What was being read.
        what: String,
    },
    /// The kernel dropped events because the reader was too slow.
    LostEvents {
        /// CPU whose buffer overflowed, where the trace says.
        cpu: Option<u32>,
        /// How many, where the trace says.
        count: Option<u64>,
    },
    /// A ring buffer overwrote its oldest entries.
    Overwritten {
        /// Entries that are still there.
        kept: u64,
        /// Entries that were written.
        written: u64,
    },
    /// The recorder says that it lost packets, chunks or records.
    Dropped(String),
    /// Bytes or lines that are no part of the format were stepped over.
    Skipped {
        /// Offset of the first one.
        offset: u64,
        /// How many pieces.
        count: u64,
        /// What they were.
        what: String,
    },
    /// Records of one CPU come out of time order by more than clock noise.
    OutOfOrder(u64),
    /// Records that repeat another one exactly.
    Duplicate(u64),
    /// Records so far from all others that they can't belong to the recording.
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
                "the ring buffer kept {kept} of {written} entries: the beginning is missing"
            ),
            Self::Dropped(what) => f.write_str(what),
            Self::Skipped {
                offset,
                count,
                what,
            } => write!(f, "{count} {what} skipped, the first at byte {offset}"),
            Self::OutOfOrder(n) => write!(f, "{n} records out of time order (sorted)"),
            Self::Duplicate(n) => write!(f, "{n} records repeat another one (counted once)"),
            Self::Stray(n) => write!(
                f,
                "{n} records lie far outside the recording and are left off the timeline"
            ),
        }
    }
}
