//! Processors whose system calls the filter's crate does not know.

/// Refuses nothing.
pub(super) fn refuse() -> Result<usize, &'static str> {
    Err("there is no filter for this processor")
}
