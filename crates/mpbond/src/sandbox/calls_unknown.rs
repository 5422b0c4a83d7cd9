//! Processors for which the filter's crate has no system call numbers.

/// Refuses nothing.
pub(super) fn refuse() -> Result<usize, &'static str> {
    Err("there is no filter for this processor")
}
