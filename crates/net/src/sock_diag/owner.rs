//! The owner of a socket: its user and control group, and the DSCP that its program has set.

/// Facts about a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOwner {
    /// User that the socket was made by.
    pub uid: u32,
    /// Id of the control group (version 2) in which it was made: the inode of the group's folder.
    /// Absent on kernels before 5.9, and without control groups.
    pub cgroup: Option<u64>,
    /// IP_TOS, or IPV6_TCLASS of a connection over IPv6.
    pub tos: Option<u8>,
}

impl SocketOwner {
    /// Differentiated services code point (RFC 2474, section 3).
    pub fn dscp(&self) -> Option<u8> {
        self.tos.map(|tos| tos >> 2)
    }
}
