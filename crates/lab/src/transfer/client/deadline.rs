//! Time left until a deadline, as socket timeouts.

use std::io;
use std::time::{Duration, Instant};

/// Time until `deadline`. Sockets refuse a timeout of zero, so that is an error.
pub(super) fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}
