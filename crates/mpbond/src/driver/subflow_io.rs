//! A subflow's connection, and the kernel's view of it.

use std::task::Waker;
use std::time::Duration;

use mpbond_net::pipe::PipeStream;
use mpbond_net::tcp::{self, TcpInfo};
use mpbond_net::tls::TlsStream;
use mpbond_session::{PathInfo, UnixQueue, driving};
use mpbond_units::{BitRate, Timestamp};
use tracing::debug;

/// The connection of one subflow.
pub(super) struct SubflowIo {
    /// Name of its path.
    pub(super) name: String,
    pub(super) tls: TlsStream,
    /// Difference of `bytes_acked` in TCP_INFO to the octets of the TLS stream.
    acked_base: Option<i128>,
    /// What the queue of a Unix socket, or of a channel over Ethernet frames, shows; TCP has
    /// TCP_INFO.
    unix_queue: UnixQueue,
    pub(super) asked: Option<Timestamp>,
    lowat: u64,
    /// Delivery rate of the path.
    rate: BitRate,
    /// The socket takes no more; the task waits until it does.
    pub(super) blocked: bool,
    pub(super) room: u64,
    pub(super) closing: bool,
    pub(super) waker: Option<Waker>,
}

impl SubflowIo {
    pub(super) fn new(name: String, tls: TlsStream) -> Self {
        let acked_base = acked_base(&tls);
        let unix_queue = match tls.get_ref() {
            PipeStream::L2(_) => UnixQueue::of_a_local_network(),
            PipeStream::Tcp(_) | PipeStream::Unix(_) => UnixQueue::default(),
        };
        Self {
            name,
            tls,
            acked_base,
            unix_queue,
            asked: None,
            lowat: 0,
            rate: BitRate::ZERO,
            blocked: false,
            room: 0,
            closing: false,
            waker: None,
        }
    }

    /// The near hop as the kernel sees it.
    pub(super) fn path_info(&mut self, now: Timestamp) -> Option<PathInfo> {
        match self.tls.get_ref() {
            PipeStream::Tcp(tcp) => self.of_tcp(&TcpInfo::read(tcp).ok()?),
            PipeStream::Unix(unix) => {
                let queued = unix.queued_bytes().ok()?;
                Some(self.unix_queue.observe(now, self.written(), queued))
            }
            // What the helper's end has acknowledged has arrived.
            PipeStream::L2(l2) => {
                let queued = l2.with_channel(|channel| channel.unacknowledged());
                Some(self.unix_queue.observe(now, self.written(), queued))
            }
        }
    }

    /// The helper has told the round-trip time of the pipe: the near hop of a Unix socket.
    pub(super) fn told_rtt(&mut self, rtt: Duration) {
        self.unix_queue.told_rtt(rtt);
    }

    fn of_tcp(&self, info: &TcpInfo) -> Option<PathInfo> {
        let acked = i128::from(info.bytes_acked?) - self.acked_base?;
        let bytes_acked = u64::try_from(acked).unwrap_or(0);
        Some(PathInfo {
            cwnd_bytes: info.cwnd_bytes,
            srtt: info.rtt.unwrap_or_default(),
            min_rtt: info.min_rtt.unwrap_or_default(),
            bytes_arrived: bytes_acked + info.sacked_bytes,
            delivery_rate: info.delivery_rate.unwrap_or_default(),
            app_limited: info.delivery_rate_app_limited,
            slow_start: info.slow_start,
            bytes_acked,
            all_acked: info.unacked_bytes == 0,
        })
    }

    /// Octets that the socket has taken and given since its connection began.
    pub(super) fn octets(&self) -> u64 {
        self.written() + self.tls.ciphertext_in()
    }

    fn written(&self) -> u64 {
        self.tls.ciphertext_out() - self.tls.queued_bytes() as u64
    }

    /// Octets that may be handed to the socket in one go.
    pub(super) fn room_bytes(&self) -> u64 {
        driving::room_bytes(self.rate)
    }

    /// Keeps the kernel's queue of unsent octets as short as the path's rate allows.
    pub(super) fn tune(&mut self, rate: BitRate) {
        self.rate = rate;
        if let Some(wanted) = driving::tuned_lowat_bytes(self.lowat, rate) {
            let tcp = self.tls.tcp().map(socket2::SockRef::from);
            let tuning = tcp.map(|tcp| tcp.set_tcp_notsent_lowat(wanted as u32));
            if let Some(Err(e)) = tuning {
                debug!(error = %e, "cannot set TCP_NOTSENT_LOWAT");
            }
            self.lowat = wanted;
        }
    }
}

/// Octets that the peer's TCP had acknowledged when the TLS stream began: those of the SYN, and of
/// what went before TLS. Taken twice, until nothing moved in between.
fn acked_base(tls: &TlsStream) -> Option<i128> {
    let connection = tls.tcp()?;
    for _ in 0..8 {
        let before = TcpInfo::read(connection).ok()?.bytes_acked?;
        let queued = tcp::send_queue_bytes(connection).ok()?;
        let after = TcpInfo::read(connection).ok()?.bytes_acked?;
        if before == after {
            let written = tls.ciphertext_out() - tls.queued_bytes() as u64;
            return Some(i128::from(before) + i128::from(queued) - i128::from(written));
        }
    }
    None
}
