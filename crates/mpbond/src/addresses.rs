//! Changes of this host's own addresses. A connection whose address is gone gets no error: it goes
//! silent, and would be given up only after 15 s.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tracing::{debug, warn};

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
    let (mut events, mut known) = match (listen(), own()) {
        (Ok(events), Ok(known)) => (events, known),
        (Err(e), _) | (_, Err(e)) => {
            return warn!(error = %e, "changes of addresses will not be noticed");
        }
    };
    let mut block = [0; 8192];
    loop {
        match events.read(&mut block).await {
            Err(e) if e.raw_os_error() != Some(libc::ENOBUFS) => {
                return warn!(error = %e, "changes of addresses are no longer noticed");
            }
            _ => {}
        }
        drain(&events);
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

/// A socket that becomes readable when an address comes or goes (rtnetlink(7)). It is wrapped as a
/// pipe, tokio's type for reading from any descriptor.
fn listen() -> io::Result<Receiver> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        SockProtocol::NetlinkRoute,
    )?;
    let groups = (libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR) as u32;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Receiver::from_owned_fd_unchecked(socket)
}

/// Discards all messages: their content, and lost ones, do not matter, since all addresses are
/// listed anyway.
fn drain(events: &Receiver) {
    let mut block = [0; 8192];
    loop {
        match recv(events.as_raw_fd(), &mut block, MsgFlags::empty()) {
            Ok(1..) | Err(Errno::EINTR | Errno::ENOBUFS) => {}
            Ok(0) | Err(_) => return,
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
