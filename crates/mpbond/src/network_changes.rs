//! Notifications of the kernel that addresses, links or routes of this host have changed
//! (rtnetlink(7)).

use std::io;
use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

/// A socket that becomes readable at a change. It is wrapped as a pipe, tokio's type for reading
/// from any descriptor.
#[derive(Debug)]
pub(crate) struct NetworkChanges(Receiver);

impl NetworkChanges {
    /// Addresses that come or go.
    pub(crate) fn of_addresses() -> io::Result<Self> {
        Self::of(libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR)
    }

    /// Routes that come or go, and links, the end of which ends routes without a notification.
    pub(crate) fn of_routes() -> io::Result<Self> {
        Self::of(libc::RTMGRP_IPV4_ROUTE | libc::RTMGRP_IPV6_ROUTE | libc::RTMGRP_LINK)
    }

    /// Links that come or go, or lose their carriers.
    pub(crate) fn of_links() -> io::Result<Self> {
        Self::of(libc::RTMGRP_LINK)
    }

    fn of(groups: libc::c_int) -> io::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            SockProtocol::NetlinkRoute,
        )?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups as u32))?;
        Receiver::from_owned_fd_unchecked(socket).map(Self)
    }

    /// Waits for a change. Cancel-safe.
    ///
    /// # Errors
    /// The kernel sends no more notifications.
    pub(crate) async fn next(&mut self) -> io::Result<()> {
        match self.0.read(&mut [0; 8192]).await {
            Err(e) if e.raw_os_error() != Some(libc::ENOBUFS) => return Err(e),
            _ => {}
        }
        self.drain();
        Ok(())
    }

    /// Discards all messages: their content, and lost ones, do not matter, since the caller looks
    /// at everything anyway.
    fn drain(&self) {
        let mut block = [0; 8192];
        loop {
            match recv(self.0.as_raw_fd(), &mut block, MsgFlags::empty()) {
                Ok(1..) | Err(Errno::EINTR | Errno::ENOBUFS) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mpbond_testing::namespaces::{is_called_for, play, sh};
    use tokio::time::timeout;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(60);

    #[test]
    fn routes_that_come_and_links_that_go_down_are_notified() {
        play("-Urn", "network_changes::tests::role");
    }

    #[tokio::test]
    #[ignore = "a role: see mpbond_testing::namespaces"]
    async fn role() {
        if !is_called_for() {
            return;
        }
        sh("ip link set lo up
            ip link add a0 type veth peer name b0
            ip link set b0 up
            ip link set a0 up");
        for lines in [
            "ip route add 192.0.2.0/24 dev a0",
            "ip -6 route add 2001:db8:7::/48 dev a0",
            "ip link set a0 down",
        ] {
            let mut changes = NetworkChanges::of_routes().unwrap();
            sh(lines);
            timeout(WITHIN, changes.next()).await.expect(lines).unwrap();
        }
    }
}
