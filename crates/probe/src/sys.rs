//! System calls without a wrapper in the standard library or socket2: packet time stamps
//! (Documentation/networking/timestamping.rst), and waiting with nanosecond timeouts.
#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Flags of include/uapi/linux/net_tstamp.h; libc lacks some of them on some targets.
mod flags {
    pub(super) const TX_HARDWARE: u32 = 1;
    pub(super) const TX_SOFTWARE: u32 = 1 << 1;
    pub(super) const RX_HARDWARE: u32 = 1 << 2;
    pub(super) const RX_SOFTWARE: u32 = 1 << 3;
    pub(super) const SOFTWARE: u32 = 1 << 4;
    pub(super) const RAW_HARDWARE: u32 = 1 << 6;
    pub(super) const OPT_ID: u32 = 1 << 7;
    pub(super) const OPT_TSONLY: u32 = 1 << 11;
    pub(super) const OPT_TX_SWHW: u32 = 1 << 14;
}

/// `ee_origin` and `ee_info` of a transmit stamp (include/uapi/linux/errqueue.h).
const ORIGIN_TIMESTAMPING: u8 = 4;
const STAMP_SENT: u32 = 0;

/// Result of a receive call besides the bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) bytes: usize,
    /// Time stamps, in ns.
    pub(crate) software_ns: Option<u64>,
    pub(crate) hardware_ns: Option<u64>,
    /// Packet or byte that a transmit stamp belongs to.
    pub(crate) sent_key: Option<u32>,
}

/// Current time, by the clock of software stamps.
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// Enables all stamps, for packets in both directions.
pub(crate) fn ask_for_stamps(socket: &impl AsFd) -> io::Result<()> {
    use flags::{
        OPT_ID, OPT_TSONLY, OPT_TX_SWHW, RAW_HARDWARE, RX_HARDWARE, RX_SOFTWARE, SOFTWARE,
        TX_HARDWARE, TX_SOFTWARE,
    };
    let all = TX_HARDWARE
        | TX_SOFTWARE
        | RX_HARDWARE
        | RX_SOFTWARE
        | SOFTWARE
        | RAW_HARDWARE
        | OPT_ID
        | OPT_TSONLY
        | OPT_TX_SWHW;
    set(
        socket.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_TIMESTAMPING,
        &all,
    )
}

/// Enables stamps of received packets only.
pub(crate) fn ask_for_receive_stamps(socket: &impl AsFd) -> io::Result<()> {
    let some = flags::RX_SOFTWARE | flags::SOFTWARE;
    set(
        socket.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_TIMESTAMPING,
        &some,
    )
}

/// Enlarges the receive buffer, which holds answers and transmit stamps: to the size that the
/// largest burst needs if this user may set it, else to the administrator's limit.
pub(crate) fn make_room(socket: &impl AsFd) {
    const ROOM_BYTES: libc::c_int = 8 << 20;
    let socket = socket.as_fd();
    if set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &ROOM_BYTES).is_err() {
        let _ = set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &ROOM_BYTES);
    }
}

fn set<T>(socket: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: `value` is a live T, and its size is given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of_val(value) as libc::socklen_t,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Receives without waiting; `None` when nothing is there. Reads the error queue, with transmit
/// stamps, on request.
pub(crate) fn receive(
    socket: &impl AsFd,
    buffer: &mut [u8],
    error_queue: bool,
) -> io::Result<Option<Received>> {
    let from = match error_queue {
        true => libc::MSG_ERRQUEUE,
        false => 0,
    };
    receive_how(socket, buffer, libc::MSG_DONTWAIT | from)
}

/// Receives within the socket's read timeout; `None` when nothing arrives. A blocking call returns
/// the bytes directly; with `poll` a second call would add delay.
pub(crate) fn await_bytes(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<Option<Received>> {
    receive_how(socket, buffer, 0)
}

fn receive_how(
    socket: &impl AsFd,
    buffer: &mut [u8],
    how: libc::c_int,
) -> io::Result<Option<Received>> {
    let mut control = [0_u64; 64];
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
    let got = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, how) };
    if got < 0 {
        let e = io::Error::last_os_error();
        return match e.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(e),
        };
    }
    let mut received = Received {
        bytes: got as usize,
        ..Received::default()
    };
    read_control(&message, &mut received);
    Ok(Some(received))
}

fn read_control(message: &libc::msghdr, received: &mut Received) {
    let mut is_sent_stamp = true;
    // SAFETY: the kernel wrote this control buffer and its length; the macros stay within it, and
    // what is read is no longer than the header says. Reads need no alignment.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let (level, kind) = ((*header).cmsg_level, (*header).cmsg_type);
            let length = ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            let data = libc::CMSG_DATA(header);
            let is_error = (level == libc::SOL_IP && kind == libc::IP_RECVERR)
                || (level == libc::SOL_IPV6 && kind == libc::IPV6_RECVERR);
            if level == libc::SOL_SOCKET
                && kind == libc::SO_TIMESTAMPING
                && length >= 3 * size_of::<libc::timespec>()
            {
                let stamps = data.cast::<[libc::timespec; 3]>().read_unaligned();
                received.software_ns = nanos(&stamps[0]).or(received.software_ns);
                received.hardware_ns = nanos(&stamps[2]).or(received.hardware_ns);
            } else if is_error && length >= size_of::<libc::sock_extended_err>() {
                let error = data.cast::<libc::sock_extended_err>().read_unaligned();
                if error.ee_origin == ORIGIN_TIMESTAMPING {
                    received.sent_key = Some(error.ee_data);
                    is_sent_stamp = error.ee_info == STAMP_SENT;
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    if !is_sent_stamp {
        received.sent_key = None;
    }
}

fn nanos(at: &libc::timespec) -> Option<u64> {
    let seconds = u64::try_from(at.tv_sec).ok()?;
    let ns = seconds * 1_000_000_000 + u64::try_from(at.tv_nsec).ok()?;
    (ns > 0).then_some(ns)
}

/// Waits until a socket is readable; `false` on timeout.
pub(crate) fn wait(socket: &impl AsFd, limit: Duration) -> io::Result<bool> {
    let mut one = libc::pollfd {
        fd: socket.as_fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let limit = libc::timespec {
        tv_sec: limit.as_secs().min(3600) as _,
        tv_nsec: limit.subsec_nanos() as _,
    };
    // SAFETY: one live pollfd and a live timespec; no signal mask.
    let ready = unsafe { libc::ppoll(&raw mut one, 1, &raw const limit, std::ptr::null()) };
    if ready < 0 {
        let e = io::Error::last_os_error();
        return if e.kind() == io::ErrorKind::Interrupted {
            Ok(false)
        } else {
            Err(e)
        };
    }
    Ok(ready > 0)
}

/// Round trip of the handshake in µs, as measured by TCP; read right after the handshake, when it
/// is the only measurement.
pub(crate) fn handshake_us(socket: &impl AsFd) -> io::Result<u32> {
    // SAFETY: a plain C structure, for which zero is valid.
    let mut info = unsafe { zeroed::<libc::tcp_info>() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` is live and as long as `length` says.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(info.tcpi_rtt)
}
