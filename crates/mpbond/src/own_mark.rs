//! Mark of this host's own connections, which interception and kill switch let through.

use socket2::{Domain, Socket, Type};

/// `SO_MARK` of own connections: "mp" and a one.
pub const OWN_MARK: u32 = 0x6d70_0001;

/// The mark, if this process may set it (CAP_NET_RAW or CAP_NET_ADMIN).
pub fn if_allowed() -> Option<u32> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).ok()?;
    socket.set_mark(OWN_MARK).ok()?;
    Some(OWN_MARK)
}
