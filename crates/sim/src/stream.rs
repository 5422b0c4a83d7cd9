//! A Unix socket behind which a process carries the bytes over Bluetooth (docs/pipes.md).
//!
//! What is written waits until that process takes it ([`Stream::take`]); what it brings
//! ([`Stream::give`]) waits until the program reads it. There is no window, no loss, and no
//! kernel's view of the path: its rate is that at which the process takes bytes.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Buf, Bytes};
use mpbond_session::{PathInfo, UnixQueue};
use mpbond_units::Timestamp;

use crate::hop::Hop;
use crate::link::SOCKET_BYTES;
use crate::tcp::{Info, State};

/// Bytes that the daemons' sockets hold: SO_SNDBUF of 8 KiB, which the kernel doubles.
const SEND_BYTES: u64 = 16 << 10;
/// Bytes that the process writes ahead of the program: its SO_SNDBUF, doubled as well.
const RECEIVE_BYTES: u64 = 2 * SOCKET_BYTES;
/// Round-trip time of an active link, as the helper's PINGs measure it: each of PING and PONG takes
/// a packet and its answer, of up to three slots and one (2.5 ms).
const ROUND_TRIP: Duration = Duration::from_millis(5);

/// One end: the program's socket.
#[derive(Debug)]
pub struct Stream {
    /// Written and not taken.
    unsent: VecDeque<Bytes>,
    unsent_bytes: u64,
    written_bytes: u64,
    /// The program has ended its stream, or closed the socket.
    finished: bool,
    closed: bool,
    /// Brought and not read.
    arrived: VecDeque<Bytes>,
    arrived_bytes: u64,
    received_bytes: u64,
    /// Nothing more is brought.
    ended: bool,
    rate: UnixQueue,
}

impl Default for Stream {
    fn default() -> Self {
        let mut rate = UnixQueue::default();
        rate.told_rtt(ROUND_TRIP);
        Self {
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            written_bytes: 0,
            finished: false,
            closed: false,
            arrived: VecDeque::new(),
            arrived_bytes: 0,
            received_bytes: 0,
            ended: false,
            rate,
        }
    }
}

impl Stream {
    /// The process takes at most `most` bytes that were written.
    pub fn take(&mut self, most: u64) -> Option<Bytes> {
        let bytes = next(&mut self.unsent, most)?;
        self.unsent_bytes -= bytes.len() as u64;
        Some(bytes)
    }

    /// Bytes that may be brought.
    pub fn takes(&self) -> u64 {
        match self.closed || self.ended {
            true => 0,
            false => RECEIVE_BYTES.saturating_sub(self.arrived_bytes),
        }
    }

    /// The process brings bytes.
    pub fn give(&mut self, bytes: Bytes) {
        self.arrived_bytes += bytes.len() as u64;
        self.received_bytes += bytes.len() as u64;
        self.arrived.push_back(bytes);
    }

    /// The process has closed its socket: the program finds the end behind what was brought.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Whether nothing more comes from the program.
    pub fn is_over(&self) -> bool {
        (self.finished || self.closed) && self.unsent.is_empty()
    }

    /// Whether the program reads no more.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}

/// The next bytes of a queue, at most `most`.
fn next(queue: &mut VecDeque<Bytes>, most: u64) -> Option<Bytes> {
    let first = queue.front_mut().filter(|_| most > 0)?;
    let len = first.len().min(usize::try_from(most).unwrap_or(usize::MAX));
    let bytes = first.split_to(len);
    if !first.has_remaining() {
        queue.pop_front();
    }
    Some(bytes)
}

impl Hop for Stream {
    /// The end of an ended one is found once all that was brought is read.
    fn state(&self) -> State {
        match self.closed || (self.ended && self.arrived.is_empty()) {
            true => State::Reset,
            false => State::Established,
        }
    }

    fn room(&self) -> usize {
        match self.closed || self.ended || self.finished {
            true => 0,
            false => SEND_BYTES.saturating_sub(self.unsent_bytes) as usize,
        }
    }

    fn write(&mut self, data: &[u8]) -> usize {
        let taken = data.len().min(self.room());
        if taken > 0 {
            self.unsent
                .push_back(Bytes::copy_from_slice(&data[..taken]));
            self.unsent_bytes += taken as u64;
            self.written_bytes += taken as u64;
        }
        taken
    }

    fn finish(&mut self) {
        self.finished = true;
    }

    fn has_finished(&self) -> bool {
        self.finished
    }

    /// What was written before is carried.
    fn abort(&mut self) {
        self.closed = true;
        self.arrived.clear();
        self.arrived_bytes = 0;
    }

    fn read(&mut self, max: usize) -> Option<Bytes> {
        let bytes = next(&mut self.arrived, max as u64)?;
        self.arrived_bytes -= bytes.len() as u64;
        Some(bytes)
    }

    fn readable_bytes(&self) -> u64 {
        self.arrived_bytes
    }

    fn peer_finished(&self) -> bool {
        self.ended && self.arrived.is_empty()
    }

    fn notsent_bytes(&self) -> u64 {
        self.unsent_bytes
    }

    /// `unix_writable` of the kernel: a quarter is in use.
    fn is_writable(&self) -> bool {
        self.unsent_bytes * 4 <= SEND_BYTES && self.room() > 0
    }

    fn set_notsent_lowat(&mut self, _bytes: u64) {}

    fn info(&self) -> Info {
        Info {
            min_rtt: Some(ROUND_TRIP),
            bytes_received: self.received_bytes,
            notsent_bytes: self.unsent_bytes,
            readable_bytes: self.arrived_bytes,
            ..Info::default()
        }
    }

    fn path_info(&mut self, now: Timestamp) -> PathInfo {
        self.rate
            .observe(now, self.written_bytes, self.unsent_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_before_the_end_is_carried_and_read() {
        let (mut a, mut b) = (Stream::default(), Stream::default());
        assert_eq!(a.write(&vec![7; 100_000]), SEND_BYTES as usize);
        assert_eq!((a.room(), a.is_writable()), (0, false));
        a.abort();
        assert_eq!((a.state(), a.is_over()), (State::Reset, false));
        while let Some(bytes) = a.take(b.takes().min(5_000)) {
            b.give(bytes);
        }
        assert!(a.is_over());
        b.end();
        assert_eq!(b.state(), State::Established, "not read yet");
        let mut read = 0;
        while let Some(bytes) = b.read(999) {
            read += bytes.len() as u64;
        }
        assert_eq!(read, SEND_BYTES);
        assert_eq!((b.state(), b.peer_finished()), (State::Reset, true));
    }

    #[test]
    fn a_program_that_does_not_read_is_given_two_sockets_full() {
        let mut stream = Stream::default();
        stream.give(vec![0; 15_000].into());
        assert_eq!(stream.takes(), 4_800);
        stream.read(10_000);
        assert_eq!(stream.takes(), 14_800);
    }

    #[test]
    fn its_rate_is_that_of_the_process() {
        let mut stream = Stream::default();
        for ms in 0..1_000 {
            stream.write(&[0; 1_000]);
            stream.path_info(Timestamp::from_millis(ms));
            stream.take(125);
        }
        let path = stream.path_info(Timestamp::from_millis(1_000));
        assert!((path.delivery_rate.mbps() - 1.0).abs() < 0.01, "{path:?}");
    }
}
