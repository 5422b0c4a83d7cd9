//! A model of TCP over [`crate::link`].
//!
//! It models the mechanisms that decide *when* bytes arrive (windows, congestion control, loss
//! recovery, delayed ACKs, timers) and leaves out all others (checksums, 32-bit wrap, options on
//! the wire). Constants follow Linux, whose TCP the daemons use.
//!
//! A [`Socket`] is one end. It does no I/O: segments that came go into
//! [`Socket::handle_segment`], segments to send come out of
//! [`Socket::poll_transmit`], and [`Socket::next_timeout`] says when
//! [`Socket::handle_timeout`] is due. After any call, transmit until nothing
//! comes. A [`Channel`] is two sockets with a link in each direction of their
//! own, driven together.
//!
//! Not modelled: pacing, proportional rate reduction, F-RTO, ECN, a receive
//! buffer that tunes itself, echoes of timestamps: an acknowledgement of a segment that was sent
//! more than once counts as that of the last time (compare RFC 8985, section 6.2, step 2).

mod channel;
mod cubic;
mod hystart;
mod keepalive;
mod rate;
mod receiver;
mod rtt;
mod sender;
mod socket;

#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use mpbond_units::BitRate;

pub use channel::{Channel, End};
pub use socket::{Socket, State};

/// Payload of a full segment in bytes.
pub const MSS: u64 = 1448;

/// IP and TCP header with timestamps, in bytes.
pub const HEADER_BYTES: u32 = 52;

/// Buffers and window of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Initial window in segments (RFC 6928).
    pub initial_window_segments: u64,
    /// Unacknowledged and unsent bytes together (SO_SNDBUF as far as Linux
    /// lets it grow).
    pub send_buffer_bytes: u64,
    /// Unsent bytes from which on a socket takes no more (TCP_NOTSENT_LOWAT).
    pub notsent_lowat_bytes: u64,
    /// Bytes that may have arrived and not been read (SO_RCVBUF).
    pub recv_buffer_bytes: u64,
    /// Full segments for each of which, together, a receiver sends an acknowledgement: 2 in Linux;
    /// 1 where it acknowledges each.
    pub ack_segments: u32,
    /// Whether an idle connection's window decays (the sysctl
    /// tcp_slow_start_after_idle; on by default in Linux).
    pub slow_start_after_idle: bool,
    /// Timeouts of a SYN before the time for its answer doubles with each
    /// (the sysctl tcp_syn_linear_timeouts; 4 in Linux from 6.5 on, before that none).
    pub syn_linear_timeouts: u32,
    /// Silence after which an idle connection is probed (SO_KEEPALIVE, TCP_KEEPIDLE): further
    /// probes follow at a third of it, and the connection is reset when the third has no answer,
    /// as the daemons' sockets are set.
    pub keepalive: Option<Duration>,
}

impl Default for Config {
    /// Linux's defaults, with buffers at their maximum, and the daemons' TCP_NOTSENT_LOWAT.
    fn default() -> Self {
        Self {
            initial_window_segments: 10,
            send_buffer_bytes: 4 << 20,
            notsent_lowat_bytes: 32 << 10,
            recv_buffer_bytes: 4 << 20,
            ack_segments: 2,
            slow_start_after_idle: true,
            syn_linear_timeouts: 4,
            keepalive: None,
        }
    }
}

/// Kind of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Opens a connection.
    Syn,
    /// Answers [`Kind::Syn`].
    SynAck,
    /// Data, an acknowledgement, or both.
    Data,
    /// The connection is gone.
    Reset,
}

/// A segment. Offsets count payload bytes from 0; the end of the stream takes one more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Kind.
    pub kind: Kind,
    /// Offset of the first byte of `payload`.
    pub seq: u64,
    /// The bytes; empty in a bare acknowledgement.
    pub payload: Bytes,
    /// The stream ends behind `payload`.
    pub fin: bool,
    /// Everything before this offset has arrived.
    pub ack: u64,
    /// The peer may send up to this offset.
    pub window_end: u64,
    /// Ranges beyond `ack` that have arrived, the most recent first (RFC 2018:
    /// three fit beside timestamps).
    pub sack: Sack,
}

/// Up to three ranges of offsets.
pub type Sack = [Option<(u64, u64)>; 3];

impl Segment {
    /// Its IP bytes.
    pub fn ip_bytes(&self) -> u32 {
        let ranges = self.sack.iter().flatten().count() as u32;
        let sack = if ranges == 0 { 0 } else { 4 + 8 * ranges };
        HEADER_BYTES + sack + self.payload.len() as u32
    }

    /// The offset behind it.
    fn end(&self) -> u64 {
        self.seq + self.payload.len() as u64 + u64::from(self.fin)
    }
}

/// The kernel's view of a connection (TCP_INFO and SIOCOUTQ).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Info {
    /// tcpi_snd_cwnd in bytes.
    pub cwnd_bytes: u64,
    /// tcpi_snd_ssthresh in bytes; `u64::MAX` before the first loss.
    pub ssthresh_bytes: u64,
    /// tcpi_rtt; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// tcpi_min_rtt over the life of the connection.
    pub min_rtt: Option<Duration>,
    /// The retransmission timeout as it stands, with its back-off.
    pub rto: Duration,
    /// tcpi_bytes_acked.
    pub bytes_acked: u64,
    /// tcpi_bytes_sent, copies included.
    pub bytes_sent: u64,
    /// tcpi_bytes_retrans.
    pub bytes_retransmitted: u64,
    /// tcpi_bytes_received, in order.
    pub bytes_received: u64,
    /// Sent and not acknowledged (tcpi_unacked, in bytes).
    pub unacked_bytes: u64,
    /// tcpi_sacked: the part of these that has arrived out of order.
    pub sacked_bytes: u64,
    /// tcpi_notsent_bytes (SIOCOUTQNSD). With `unacked_bytes` it is SIOCOUTQ.
    pub notsent_bytes: u64,
    /// Arrived and not read (SIOCINQ).
    pub readable_bytes: u64,
    /// tcpi_delivery_rate.
    pub delivery_rate: Option<BitRate>,
    /// tcpi_delivery_rate_app_limited: the rate was limited by the application, not by the path.
    pub app_limited: bool,
}
