//! `socket(2)` of the packet family and `recvmsg(2)`, for packets with the kernel's time stamps
//! (packet(7), socket(7): SO_TIMESTAMPNS).

use std::fs::File;
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::packet::{ROOM_BYTES, bind, check, set};

/// A packet seen by a tap.
pub(crate) struct Seen {
    /// Octets from the IP header on.
    pub(crate) bytes: usize,
    /// Time stamp of the kernel, ns since the Unix epoch.
    pub(crate) at_ns: Option<u64>,
}

/// A socket for all packets that the device with index `device`, in the calling thread's network
/// namespace, sends and receives, without their link-layer headers.
pub(crate) fn open(device: u32) -> io::Result<File> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: a plain system call; the descriptor it gives is owned below.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: `fd` was just made and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, ROOM_BYTES);
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, ROOM_BYTES);
    bind(fd, device)?;
    Ok(File::from(socket))
}

/// The next packet; `None` when there is none.
pub(crate) fn receive(socket: &File, buffer: &mut [u8]) -> io::Result<Option<Seen>> {
    let mut control = [0_u64; 16];
    // SAFETY: a plain C structure, for which zero is valid.
    let mut message = unsafe { zeroed::<libc::msghdr>() };
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the message points to live buffers of the lengths that it says.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    if got < 0 {
        let e = io::Error::last_os_error();
        return match e.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(e),
        };
    }
    Ok(Some(Seen {
        bytes: got as usize,
        at_ns: stamp(&message),
    }))
}

fn stamp(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel wrote this control buffer and its length; the macros stay within it, and
    // what is read is no longer than the header says. The read needs no alignment.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let is_stamp = (*header).cmsg_level == libc::SOL_SOCKET
                && (*header).cmsg_type == libc::SCM_TIMESTAMPNS;
            let length = ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            if is_stamp && length >= size_of::<libc::timespec>() {
                let at = libc::CMSG_DATA(header)
                    .cast::<libc::timespec>()
                    .read_unaligned();
                let seconds = u64::try_from(at.tv_sec).ok()?;
                return Some(seconds * 1_000_000_000 + u64::try_from(at.tv_nsec).ok()?);
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}
