//! Links between two hosts over which accuracy is measured.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::error::{Doing, Result};
use crate::network::host::Host;

/// One-way delay of the link.
pub(super) const DELAY: Duration = Duration::from_millis(25);
/// Queue of a link: it bridges shorter interruptions of the sender.
pub(super) const QUEUE: Duration = Duration::from_secs(1);
/// IPv4 and UDP headers.
pub(super) const HEADER_BYTES: usize = 28;

/// Address of the far host, the destination of packets up.
const FAR: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

/// The near host's address on a link.
pub(super) fn near_address(link: usize) -> Ipv4Addr {
    // Addresses count links, of which there are few.
    Ipv4Addr::new(10, 77, u8::try_from(link).unwrap_or(u8::MAX), 1)
}

/// Name of a link and its devices.
pub(super) fn name(link: usize) -> String {
    format!("link{link}")
}

/// A direction of all links.
pub(super) struct Way<'n> {
    pub from: &'n Host,
    pub to: &'n Host,
    pub is_down: bool,
}

impl Way<'_> {
    /// A receiver with a timeout, and a sender to it over `link`.
    pub fn sockets(&self, link: usize) -> Result<(UdpSocket, UdpSocket)> {
        let port = 7000 + link as u16;
        let near = near_address(link);
        let [source, target] = match self.is_down {
            true => [(Ipv4Addr::UNSPECIFIED, 0), (near, port)],
            // Packets from a link's address take that link.
            false => [(near, 0), (FAR, port)],
        }
        .map(SocketAddr::from);
        let receiver = self.to.enter(|| -> std::io::Result<_> {
            let socket = UdpSocket::bind(target)?;
            socket.set_read_timeout(Some(Duration::from_secs(1)))?;
            Ok(socket)
        })?;
        let sender = self.from.enter(|| -> std::io::Result<_> {
            let socket = UdpSocket::bind(source)?;
            socket.connect(target)?;
            Ok(socket)
        })?;
        Ok((
            receiver.doing("cannot open a UDP socket")?,
            sender.doing("cannot open a UDP socket")?,
        ))
    }
}
