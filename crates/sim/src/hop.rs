//! A socket as programs use it: TCP, or a byte stream to another program of their host.

use bytes::Bytes;
use mpbond_session::PathInfo;
use mpbond_units::Timestamp;

use crate::tcp::{Info, Socket, State};

/// One end of a connection.
pub trait Hop {
    /// State of the connection.
    fn state(&self) -> State;
    /// Number of bytes that [`Hop::write`] would take now.
    fn room(&self) -> usize;
    /// Takes bytes to send, as many as there is room for.
    fn write(&mut self, data: &[u8]) -> usize;
    /// Ends the stream of this side, behind what was written.
    fn finish(&mut self);
    /// Whether this side has called [`Hop::finish`].
    fn has_finished(&self) -> bool;
    /// Closes the connection at once.
    fn abort(&mut self);
    /// The next bytes in order, at most `max`; `None` when there are none.
    fn read(&mut self, max: usize) -> Option<Bytes>;
    /// Bytes that [`Hop::read`] would give.
    fn readable_bytes(&self) -> u64;
    /// Whether the peer has ended its stream and all of it was read.
    fn peer_finished(&self) -> bool;
    /// Bytes written that are still at this host.
    fn notsent_bytes(&self) -> u64;
    /// Whether epoll would call a socket writable again that took no more.
    fn is_writable(&self) -> bool;
    /// Keeps the kernel's queue of unsent bytes as short as this, where that can be set.
    fn set_notsent_lowat(&mut self, bytes: u64);
    /// The kernel's view of the connection, as far as there is one.
    fn info(&self) -> Info;
    /// The same as a session takes it in.
    fn path_info(&mut self, now: Timestamp) -> PathInfo;
}

impl Hop for Socket {
    fn state(&self) -> State {
        self.state()
    }

    fn room(&self) -> usize {
        self.room()
    }

    fn write(&mut self, data: &[u8]) -> usize {
        self.write(data)
    }

    fn finish(&mut self) {
        self.finish();
    }

    fn has_finished(&self) -> bool {
        self.has_finished()
    }

    fn abort(&mut self) {
        self.abort();
    }

    fn read(&mut self, max: usize) -> Option<Bytes> {
        self.read(max)
    }

    fn readable_bytes(&self) -> u64 {
        self.readable_bytes()
    }

    fn peer_finished(&self) -> bool {
        self.peer_finished()
    }

    fn notsent_bytes(&self) -> u64 {
        self.notsent_bytes()
    }

    /// Linux waits until half of the low-water mark is sent.
    fn is_writable(&self) -> bool {
        self.notsent_bytes() * 2 < self.notsent_lowat_bytes() && self.room() > 0
    }

    fn set_notsent_lowat(&mut self, bytes: u64) {
        self.set_notsent_lowat(bytes);
    }

    fn info(&self) -> Info {
        self.info()
    }

    fn path_info(&mut self, _now: Timestamp) -> PathInfo {
        let info = self.info();
        PathInfo {
            cwnd_bytes: info.cwnd_bytes,
            srtt: info.srtt.unwrap_or_default(),
            min_rtt: info.min_rtt.unwrap_or_default(),
            bytes_arrived: info.bytes_acked + info.sacked_bytes,
            delivery_rate: info.delivery_rate.unwrap_or_default(),
            app_limited: info.app_limited,
            slow_start: info.cwnd_bytes < info.ssthresh_bytes,
            bytes_acked: info.bytes_acked,
            all_acked: info.unacked_bytes == 0,
        }
    }
}
