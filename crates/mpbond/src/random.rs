//! Fresh random octets from the operating system.

use std::io;

/// `N` octets.
///
/// # Errors
/// When the system has no random octets, which does not occur on a running Linux.
pub(crate) fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut out = [0; N];
    getrandom::fill(&mut out).map_err(io::Error::other)?;
    Ok(out)
}
