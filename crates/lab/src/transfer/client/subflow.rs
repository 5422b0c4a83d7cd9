//! Subflows of Multipath TCP connections: kernel support, and bytes of each.

use std::net::Ipv4Addr;

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Error, Result};
use crate::sys::mptcp::Subflow;

/// Bytes of a subflow in one transfer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Used {
    /// Source address.
    pub source: Ipv4Addr,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent, retransmissions not counted.
    pub bytes_out: u64,
    /// Arrival of the last byte received, in seconds since the start.
    pub last_in_s: f64,
}

/// Bytes of each subflow between two readings; the second one was taken `now_s` seconds after the
/// start.
pub(crate) fn used(before: &[Subflow], after: &[Subflow], now_s: f64) -> Vec<Used> {
    let difference = |subflow: &Subflow| {
        let same = |b: &&Subflow| b.source == subflow.source;
        let (bytes_in, bytes_out) = before
            .iter()
            .find(same)
            .map_or((0, 0), |b| (b.bytes_in, b.bytes_out));
        Used {
            source: subflow.source,
            bytes_in: subflow.bytes_in.saturating_sub(bytes_in),
            bytes_out: subflow.bytes_out.saturating_sub(bytes_out),
            last_in_s: (now_s - subflow.idle_in.as_secs_f64()).max(0.0),
        }
    };
    after.iter().map(difference).collect()
}

/// Checks that the kernel has MPTCP sockets.
///
/// # Errors
/// [`Error::Missing`] with the remedy.
pub(crate) fn check_mptcp() -> Result<()> {
    match Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)) {
        Ok(_) => Ok(()),
        // Disabled in this namespace; a new one starts with it enabled.
        Err(e) if e.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(()),
        Err(e) => Err(Error::Missing(format!(
            "this kernel makes no MPTCP sockets, which scheme kibbutz needs ({e}): \
             it has to be built with CONFIG_MPTCP"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_carried_before_is_taken_off() {
        let subflow = |last, bytes_in, bytes_out, idle_ms| Subflow {
            source: Ipv4Addr::new(10, 77, 0, last),
            bytes_in,
            bytes_out,
            idle_in: Duration::from_millis(idle_ms),
        };
        let before = [subflow(1, 100, 10, 0)];
        let after = [subflow(1, 350, 15, 250), subflow(2, 70, 5, 9_000)];
        let used = used(&before, &after, 2.0);
        let figures: Vec<_> = used
            .iter()
            .map(|u| (u.bytes_in, u.bytes_out, u.last_in_s))
            .collect();
        assert_eq!(figures, [(250, 5, 1.75), (70, 5, 0.0)]);
    }
}
