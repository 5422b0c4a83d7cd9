//! Changes of this host's own addresses. A connection whose address is gone gets no error: it goes
//! silent, and would be given up only after 15 s.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use tracing::{debug, warn};

use crate::network_changes::NetworkChanges;

/// The addresses of all interfaces.
pub(crate) fn own() -> io::Result<HashSet<IpAddr>> {
    Ok(getifaddrs()?.filter_map(|i| of(&i)).collect())
}

/// The interface with this address.
pub(crate) fn interface_of(ip: IpAddr) -> Option<String> {
    let owner = getifaddrs().ok()?.find(|i| of(i) == Some(ip));
    owner.map(|i| i.interface_name)
}

/// The address of an entry of getifaddrs(3).
pub(crate) fn of(entry: &InterfaceAddress) -> Option<IpAddr> {
    let address = entry.address.as_ref()?;
    let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
}

/// Calls `changed` with the host's addresses whenever they have changed. Wakes up for nothing else;
/// returns only where the kernel sends no notifications.
pub(crate) async fn watch(changed: impl Fn(&HashSet<IpAddr>)) {
    let (mut changes, mut known) = match (NetworkChanges::of_addresses(), own()) {
        (Ok(changes), Ok(known)) => (changes, known),
        (Err(e), _) | (_, Err(e)) => {
            return warn!(error = %e, "changes of addresses will not be noticed");
        }
    };
    loop {
        if let Err(e) = changes.next().await {
            return warn!(error = %e, "changes of addresses are no longer noticed");
        }
        match own() {
            Ok(now) if now != known => {
                debug!(addresses = now.len(), "own addresses have changed");
                changed(&now);
                known = now;
            }
            Ok(_) => {}
            Err(e) => debug!(error = %e, "cannot list own addresses"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn the_kernel_is_listened_to() {
        let watch = watch(|_| {});
        let ended = tokio::time::timeout(std::time::Duration::from_millis(50), watch).await;
        assert!(ended.is_err(), "it watches on");
    }
}
