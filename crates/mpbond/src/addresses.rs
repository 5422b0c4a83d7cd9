//! This host's own addresses. A connection does not hear that its address is gone: it goes silent,
//! and would be given up only after 15 s.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tracing::{debug, warn};

/// The addresses of all interfaces.
pub(crate) fn own() -> io::Result<HashSet<IpAddr>> {
    let of = |i: nix::ifaddrs::InterfaceAddress| {
        let address = i.address?;
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
    };
    Ok(getifaddrs()?.filter_map(of).collect())
}

/// Whether a connection from `local` can still carry anything, where these are the host's
/// addresses. All of 127.0.0.0/8 is the host's own, listed or not.
pub(crate) fn is_left(own: &HashSet<IpAddr>, local: IpAddr) -> bool {
    let local = local.to_canonical();
    local.is_loopback() || local.is_unspecified() || own.contains(&local)
}

/// Calls `changed` with the host's addresses whenever they are others than before. Wakes up for
/// nothing else; never returns unless the kernel can't be heard.
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
                return warn!(error = %e, "changes of addresses are noticed no more");
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
            Err(e) => debug!(error = %e, "can't list own addresses"),
        }
    }
}

/// What becomes readable when an address comes or goes (rtnetlink(7)). A pipe is what tokio reads
/// from a descriptor that somebody else made.
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

/// What a message says does not matter, nor that some were lost: all addresses are listed anyway.
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

    #[test]
    fn connections_from_addresses_that_are_gone_are_told_apart() {
        let own = ["192.0.2.1", "2001:db8::1"].map(|a| a.parse().unwrap());
        let own = HashSet::from(own);
        for (local, left) in [
            ("192.0.2.1", true),
            ("::ffff:192.0.2.1", true),
            ("192.0.2.2", false),
            ("2001:db8::1", true),
            ("2001:db8::2", false),
            ("127.0.0.9", true),
        ] {
            assert_eq!(is_left(&own, local.parse().unwrap()), left, "{local}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_kernel_is_listened_to() {
        let watch = watch(|_| {});
        let ended = tokio::time::timeout(std::time::Duration::from_millis(50), watch).await;
        assert!(ended.is_err(), "it watches on");
    }
}
