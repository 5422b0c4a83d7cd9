//! The host's own addresses and its sleep: changes that connections do not notice by themselves.

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::Duration;

/// A host that slept for less keeps its connections; a dead one shows by its silence.
pub const LONG_SLEEP: Duration = Duration::from_secs(10);

/// Whether a connection from `local` can still carry data, if `own` are the host's addresses. All
/// of 127.0.0.0/8 is the host's own, listed or not.
pub fn is_own(own: &HashSet<IpAddr>, local: IpAddr) -> bool {
    let local = local.to_canonical();
    local.is_loopback() || local.is_unspecified() || own.contains(&local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_gone_are_recognised() {
        let own = ["192.0.2.1", "2001:db8::1"].map(|a| a.parse().unwrap());
        let own = HashSet::from(own);
        for (local, expected) in [
            ("192.0.2.1", true),
            ("::ffff:192.0.2.1", true),
            ("192.0.2.2", false),
            ("2001:db8::1", true),
            ("2001:db8::2", false),
            ("127.0.0.9", true),
        ] {
            assert_eq!(is_own(&own, local.parse().unwrap()), expected, "{local}");
        }
    }
}
