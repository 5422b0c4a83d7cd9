use std::fmt;

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Bytes from the start; of a packed file, of what it unpacks to.
    Offset(u64),
    /// A line, from one.
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

/// Why a file can't be read, or not any further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {place}: {}", one_line(reason))]
pub struct CaptureError {
    /// The file, as the caller named it.
    pub file: String,
    /// Where reading stopped.
    pub place: Place,
    /// What is wrong there.
    pub reason: String,
}

/// Control characters come from the file and would reach a terminal.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
