//! TCP statistics of the kernel (`TCP_INFO`) with units.

use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::time::Duration;

use mpbond_units::BitRate;

use super::sys::{self, RawTcpInfo};

/// Statistics of a TCP connection (`TCP_INFO`), converted to typed units.
///
/// A field is `None` when the kernel has no value yet, or is too old to report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    /// Connection state.
    pub state: TcpState,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Minimum round-trip time, in the kernel's window (tcp_min_rtt_wlen, 300 s by default).
    pub min_rtt: Option<Duration>,
    /// Congestion window: segments times the segment size.
    pub cwnd_bytes: u64,
    /// Whether the congestion window is below the slow start threshold (RFC 5681, section 3.1).
    pub slow_start: bool,
    /// Payload octets of one segment.
    pub mss_bytes: u64,
    /// Octets the peer has acknowledged, counted from the SYN: a connection
    /// starts at 0 or 1 depending on its role, so use differences.
    pub bytes_acked: Option<u64>,
    /// Octets received in order, without the SYN.
    pub bytes_received: Option<u64>,
    /// Octets sent, retransmissions included.
    pub bytes_sent: Option<u64>,
    /// Octets retransmitted, part of `bytes_sent`.
    pub bytes_retransmitted: Option<u64>,
    /// Segments received, also without payload.
    pub segments_received: Option<u64>,
    /// Segments sent, also without payload, and those sent again.
    pub segments_sent: Option<u64>,
    /// Octets written and not sent.
    pub notsent_bytes: Option<u64>,
    /// Octets sent and not acknowledged: segments times the segment size, so up to one segment too
    /// much when the last one is short.
    pub unacked_bytes: u64,
    /// Octets selectively acknowledged (SACK, RFC 2018), part of `unacked_bytes`.
    pub sacked_bytes: u64,
    /// Most recent delivery rate sample; see `delivery_rate_app_limited`.
    pub delivery_rate: Option<BitRate>,
    /// Whether the sample was limited by the application rather than by the path.
    pub delivery_rate_app_limited: bool,
    /// Receive window of the peer in octets.
    pub snd_wnd_bytes: Option<u64>,
    /// Receive window last advertised to the peer, in octets.
    pub rcv_wnd_bytes: Option<u64>,
    /// Consecutive retransmission timeouts without an acknowledgement.
    pub retransmits: u32,
    /// Current number of doublings of the retransmission timeout.
    pub backoff: u32,
    /// Time since data last arrived.
    pub since_data_received: Duration,
    /// Time since an acknowledgement last arrived.
    pub since_ack_received: Duration,
}

/// Connection state (RFC 9293, section 3.3.2), reduced to what a path needs to distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpState {
    /// SYN-SENT, SYN-RECEIVED or LISTEN.
    Opening,
    /// ESTABLISHED.
    Established,
    /// CLOSE-WAIT: the peer has finished sending.
    PeerFinished,
    /// FIN-WAIT-1 or FIN-WAIT-2: this end has finished sending.
    WeFinished,
    /// Closed, or closing at both ends.
    Closed,
}

impl TcpState {
    fn from_kernel(state: u8) -> Self {
        // include/net/tcp_states.h
        match state {
            1 => Self::Established,
            2 | 3 | 10 | 12 => Self::Opening,
            4 | 5 => Self::WeFinished,
            8 => Self::PeerFinished,
            _ => Self::Closed,
        }
    }
}

impl TcpInfo {
    /// Reads `TCP_INFO` of a socket.
    ///
    /// # Errors
    /// Error of getsockopt(2), for example when the socket is not TCP.
    pub fn read(socket: &impl AsFd) -> io::Result<Self> {
        let (raw, len) = sys::tcp_info(socket.as_fd())?;
        Ok(Self::from_raw(&raw, len))
    }

    fn from_raw(raw: &RawTcpInfo, len: usize) -> Self {
        // A field is known when the kernel's answer covers it completely.
        let known = |offset: usize, size: usize| len >= offset + size;
        let u32_at = |offset: usize, value: u32| known(offset, 4).then_some(u64::from(value));
        let u64_at = |offset: usize, value: u64| known(offset, 8).then_some(value);
        let mss = u64::from(raw.snd_mss);
        Self {
            state: TcpState::from_kernel(raw.state),
            rtt: (raw.rtt_us != 0).then(|| Duration::from_micros(raw.rtt_us.into())),
            min_rtt: u32_at(offset_of!(RawTcpInfo, min_rtt_us), raw.min_rtt_us)
                // All ones until the first sample.
                .filter(|&us| us != 0 && us != u64::from(u32::MAX))
                .map(Duration::from_micros),
            cwnd_bytes: u64::from(raw.snd_cwnd) * mss,
            slow_start: raw.snd_cwnd < raw.snd_ssthresh,
            mss_bytes: mss,
            bytes_acked: u64_at(offset_of!(RawTcpInfo, bytes_acked), raw.bytes_acked),
            bytes_received: u64_at(offset_of!(RawTcpInfo, bytes_received), raw.bytes_received),
            bytes_sent: u64_at(offset_of!(RawTcpInfo, bytes_sent), raw.bytes_sent),
            bytes_retransmitted: u64_at(offset_of!(RawTcpInfo, bytes_retrans), raw.bytes_retrans),
            segments_received: u32_at(offset_of!(RawTcpInfo, segs_in), raw.segs_in),
            segments_sent: u32_at(offset_of!(RawTcpInfo, segs_out), raw.segs_out),
            notsent_bytes: u32_at(offset_of!(RawTcpInfo, notsent_bytes), raw.notsent_bytes),
            unacked_bytes: u64::from(raw.unacked) * mss,
            sacked_bytes: u64::from(raw.sacked) * mss,
            delivery_rate: u64_at(offset_of!(RawTcpInfo, delivery_rate), raw.delivery_rate)
                .filter(|&rate| rate != 0)
                .map(|bytes_per_s| BitRate::from_bps(bytes_per_s.saturating_mul(8))),
            delivery_rate_app_limited: raw.app_limited & app_limited_bit() != 0,
            snd_wnd_bytes: u32_at(offset_of!(RawTcpInfo, snd_wnd), raw.snd_wnd),
            rcv_wnd_bytes: u32_at(offset_of!(RawTcpInfo, rcv_wnd), raw.rcv_wnd),
            retransmits: raw.retransmits.into(),
            backoff: raw.backoff.into(),
            since_data_received: Duration::from_millis(raw.last_data_recv_ms.into()),
            since_ack_received: Duration::from_millis(raw.last_ack_recv_ms.into()),
        }
    }
}

/// Mask of the first bit-field of its byte: C allocates it from the least significant bit on
/// little-endian machines and from the most significant on big-endian ones.
const fn app_limited_bit() -> u8 {
    if cfg!(target_endian = "little") {
        1
    } else {
        0x80
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_an_old_kernel_does_not_fill_are_unknown() {
        let (listener, stream) = loopback();
        let (raw, len) = sys::tcp_info(stream.as_fd()).unwrap();
        assert!(len >= 192, "this kernel fills only {len} bytes");
        let full = TcpInfo::from_raw(&raw, len);
        assert!(full.bytes_acked.is_some() && full.delivery_rate.is_none());
        let at_bytes_acked = offset_of!(RawTcpInfo, bytes_acked);
        for len in [104, at_bytes_acked, at_bytes_acked + 7] {
            let old = TcpInfo::from_raw(&raw, len);
            assert_eq!(old.bytes_acked, None);
            assert_eq!(old.min_rtt, None);
            assert_eq!(old.snd_wnd_bytes, None);
            assert_eq!(old.cwnd_bytes, full.cwnd_bytes);
        }
        assert!(
            TcpInfo::from_raw(&raw, at_bytes_acked + 8)
                .bytes_acked
                .is_some()
        );
        drop(listener);
    }

    #[test]
    fn offsets_are_those_of_the_kernel_header() {
        for (offset, expected) in [
            (offset_of!(RawTcpInfo, rto_us), 8),
            (offset_of!(RawTcpInfo, rtt_us), 68),
            (offset_of!(RawTcpInfo, snd_cwnd), 80),
            (offset_of!(RawTcpInfo, bytes_acked), 120),
            (offset_of!(RawTcpInfo, segs_out), 136),
            (offset_of!(RawTcpInfo, notsent_bytes), 144),
            (offset_of!(RawTcpInfo, min_rtt_us), 148),
            (offset_of!(RawTcpInfo, delivery_rate), 160),
            (offset_of!(RawTcpInfo, bytes_sent), 200),
            (offset_of!(RawTcpInfo, snd_wnd), 228),
        ] {
            assert_eq!(offset, expected);
        }
    }

    fn loopback() -> (std::net::TcpListener, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener, stream)
    }
}
