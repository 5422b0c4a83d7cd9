//! Recordings of links, as files beside the experiment's.

use std::io::Read;
use std::path::Path;

/// Maximum size of a recording.
const MAX_TRACE_BYTES: u64 = 64 << 20;

/// The text of a recording.
pub(crate) fn read_recording(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    let length = file.take(MAX_TRACE_BYTES + 1).read_to_string(&mut text)?;
    if length as u64 > MAX_TRACE_BYTES {
        return Err(std::io::Error::other("too long for a recording"));
    }
    Ok(text)
}
