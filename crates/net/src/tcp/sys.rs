//! System calls that neither the standard library nor socket2 wraps: TCP_INFO, queue lengths of a
//! socket, and a few socket options.
#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

/// `struct tcp_info` of Linux 6.18: 280 bytes. Field names, order and units are those of
/// include/uapi/linux/tcp.h; older kernels fill a prefix.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RawTcpInfo {
    pub state: u8,
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub options: u8,
    /// snd_wscale in the low four bits, rcv_wscale in the high four, on
    /// little-endian machines.
    pub wscale: u8,
    /// delivery_rate_app_limited in one bit, fastopen_client_fail in two.
    pub app_limited: u8,

    pub rto_us: u32,
    pub ato_us: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,

    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub fackets: u32,

    pub last_data_sent_ms: u32,
    pub last_ack_sent_ms: u32,
    pub last_data_recv_ms: u32,
    pub last_ack_recv_ms: u32,

    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt_us: u32,
    pub rttvar_us: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,

    pub rcv_rtt_us: u32,
    pub rcv_space: u32,

    pub total_retrans: u32,

    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,

    pub notsent_bytes: u32,
    pub min_rtt_us: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,

    pub delivery_rate: u64,

    pub busy_time_us: u64,
    pub rwnd_limited_us: u64,
    pub sndbuf_limited_us: u64,

    pub delivered: u32,
    pub delivered_ce: u32,

    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,

    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub rehash: u32,

    pub total_rto: u16,
    pub total_rto_recoveries: u16,
    pub total_rto_time_ms: u32,

    pub received_ce: u32,
    pub delivered_e1_bytes: u32,
    pub delivered_e0_bytes: u32,
    pub delivered_ce_bytes: u32,
    pub received_e1_bytes: u32,
    pub received_e0_bytes: u32,
    pub received_ce_bytes: u32,
    pub accecn_fail_mode: u16,
    pub accecn_opt_seen: u16,
}

const _: () = assert!(size_of::<RawTcpInfo>() == 280);

/// TCP_INFO of a socket and the number of bytes that the kernel filled; the rest is zero.
pub(super) fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<(RawTcpInfo, usize)> {
    // SAFETY: every field is an integer, for which all bits zero is a value.
    let mut info: RawTcpInfo = unsafe { zeroed() };
    let mut len = size_of::<RawTcpInfo>() as libc::socklen_t;
    // SAFETY: `info` is writable memory of `len` bytes that outlives the call,
    // and the kernel writes at most `len` bytes.
    let rc = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((info, len as usize))
}

/// SO_RCVLOWAT: minimum octets for epoll to report the socket readable.
pub(super) fn set_receive_lowat(fd: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_int(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
}

/// TCP_WINDOW_CLAMP: limit of the receive window, in force until the kernel enlarges the receive
/// buffer.
pub(super) fn set_window_clamp(fd: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_int(fd, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes)
}

/// SO_RCVBUFFORCE: SO_RCVBUF beyond the system's limit, with CAP_NET_ADMIN.
pub(super) fn force_recv_buffer(fd: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_int(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes)
}

/// SO_MAX_PACING_RATE in bytes a second: a pipe of a test.
#[cfg(test)]
pub(super) fn set_max_pacing_rate(fd: BorrowedFd<'_>, rate: u32) -> io::Result<()> {
    set_int(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate)
}

fn set_int(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: u32,
) -> io::Result<()> {
    let value = libc::c_int::try_from(value).unwrap_or(libc::c_int::MAX);
    // SAFETY: the option is one int, and `value` is one that outlives the call.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Not in every libc; from include/uapi/linux/sockios.h.
const SIOCOUTQNSD: libc::Ioctl = 0x894B;

fn queue_bytes(fd: BorrowedFd<'_>, request: libc::Ioctl) -> io::Result<u64> {
    let mut value: libc::c_int = 0;
    // SAFETY: all requests passed here write one int through the pointer,
    // which is valid for the call.
    let rc = unsafe { libc::ioctl(fd.as_raw_fd(), request, &raw mut value) };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(value).unwrap_or(0))
}

/// SIOCOUTQ: octets sent and not acknowledged, plus those not sent.
pub(super) fn send_queue_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    queue_bytes(fd, libc::TIOCOUTQ)
}

/// SIOCOUTQNSD: octets not sent yet.
pub(super) fn unsent_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    queue_bytes(fd, SIOCOUTQNSD)
}

/// SIOCINQ of a socket, FIONREAD of a pipe: octets waiting to be read.
pub(super) fn receive_queue_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    queue_bytes(fd, libc::FIONREAD)
}
