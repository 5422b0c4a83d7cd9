//! `socket(2)` of the packet family, and `ioctl(2)` for Ethernet settings.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Requested size of the receive buffer; the administrator may allow less.
pub(super) const ROOM_BYTES: libc::c_int = 4 << 20;

pub(super) fn check(rc: libc::c_int) -> io::Result<libc::c_int> {
    if rc < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(rc)
    }
}

/// A non-blocking socket for whole Ethernet frames of the device with index
/// `device`, in the calling thread's network namespace: each read takes one
/// frame that came in, each write sends one.
pub(crate) fn open(device: u32) -> io::Result<File> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // Protocol 0: nothing comes in before it is bound to one device.
    // SAFETY: a plain system call; the descriptor it gives is owned below.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: `fd` was just made and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    set(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, ROOM_BYTES);
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, ROOM_BYTES);

    bind(fd, device)?;
    Ok(File::from(socket))
}

/// Binds the socket to a device, whose packets it receives from then on.
pub(super) fn bind(fd: RawFd, device: u32) -> io::Result<()> {
    // SAFETY: an all-zero `sockaddr_ll` is a valid value of that C struct.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = device as libc::c_int;
    // SAFETY: the address outlives the call, and its true size is given.
    check(unsafe {
        libc::bind(
            fd,
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

pub(super) fn set(
    fd: RawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: `value` outlives the call, and its true size is given.
    check(unsafe {
        libc::setsockopt(
            fd,
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Number of frames dropped at a full socket of [`open`] since the last call.
pub(crate) fn lost(socket: &File) -> io::Result<u64> {
    let mut counts = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `counts`.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut counts).cast(),
            &raw mut length,
        )
    })?;
    Ok(u64::from(counts.tp_drops))
}

/// A request about the device called `name`.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: an all-zero `ifreq` is a valid value of that C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let longest = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(longest)) {
        *to = from as libc::c_char;
    }
    request
}

/// Whether the device called `name`, in the network namespace of `socket`, has a carrier. The
/// kernel processes changes of carriers at most once a second, but those of this device before it
/// answers.
pub(crate) fn see_carrier(socket: &std::net::UdpSocket, name: &str) -> io::Result<bool> {
    const ETHTOOL_GLINK: u32 = 0xa;
    let mut value = EthtoolValue {
        command: ETHTOOL_GLINK,
        data: 0,
    };
    let mut request = request(name);
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request names a device, ends its name in a zero, and points
    // to the structure that its command is about; all outlive it.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) })?;
    Ok(value.data != 0)
}

const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Sets the device called `name` in the network namespace of `socket` up or
/// down; the other end of a veth pair then gains or loses its carrier.
pub(crate) fn set_up(socket: &std::net::UdpSocket, name: &str, up: bool) -> io::Result<()> {
    let mut request = request(name);
    // SAFETY: the request names a device and ends its name in a zero.
    check(unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCGIFFLAGS as _,
            &raw mut request,
        )
    })?;
    // SAFETY: the call above has filled the flags in.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    let bit = libc::IFF_UP as libc::c_short;
    request.ifr_ifru.ifru_flags = if up { flags | bit } else { flags & !bit };
    // SAFETY: as above, with the flags set.
    check(unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as _,
            &raw mut request,
        )
    })
    .map(drop)
}

/// Makes the kernel finish every packet that it sends through the device
/// called `name`: checksums filled in, none larger than the MTU.
pub(crate) fn no_offloads(name: &str) -> io::Result<()> {
    const ETHTOOL_STXCSUM: u32 = 0x17;
    const ETHTOOL_STSO: u32 = 0x1f;
    const ETHTOOL_SGSO: u32 = 0x24;
    let any = std::net::UdpSocket::bind(("0.0.0.0", 0))?;
    for command in [ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_STXCSUM] {
        let mut value = EthtoolValue { command, data: 0 };
        let mut request = request(name);
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: the request names a device, ends its name in a zero, and
        // points to the structure that its command is about; all outlive it.
        check(unsafe { libc::ioctl(any.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) })?;
    }
    Ok(())
}
