//! Flow control: windows both ways, and the memory for bytes that applications leave unread.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::control::Control;
use super::error::SubflowError;
use super::streams::Streams;
use crate::config::SessionConfig;
use crate::stream::STALLED_WINDOW_BYTES;
use crate::wire::Limits;
use crate::{CloseCode, StreamId};

/// An application that leaves readable bytes alone for this long has stalled.
const STALL_AFTER: Duration = Duration::from_secs(1);

/// Least time between two searches for those: each looks at all streams.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// Most pieces that wait in all streams together: a hundred octets each beside their bytes. An
/// honest peer's full window comes in some thousand.
const MAX_PIECES: usize = 65_536;

/// Windows of a session, in unique bytes of all its streams.
#[derive(Debug)]
pub(super) struct Flow {
    /// The configured window.
    max_window: u64,
    /// Memory for unread bytes of stalled streams.
    stalled_memory: u64,
    initial_stream_window: u64,
    max_streams: u64,

    /// Limits that the peer has granted.
    pub(super) peer: Limits,
    /// Bytes scheduled, which the peer's session window bounds.
    sent: u64,

    /// Bytes that arrived or were announced.
    received: u64,
    /// Bytes that the application has read, or that were discarded.
    read: u64,
    /// Bytes that the peer may send in all.
    granted: u64,
    /// Bytes that the peer may have on the way or unread here: the configuration's or less.
    window: u64,
    /// Number of pieces in which the bytes of all streams wait.
    pieces: usize,
    stalled_streams: usize,
    /// Streams that the peer may open in all.
    granted_streams: u64,
}

/// Room of the session's window at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    received: u64,
    granted: u64,
}

impl Room {
    /// Whether the window covers `raised` more unique bytes.
    pub(super) fn covers(self, raised: u64) -> bool {
        self.received + raised <= self.granted
    }

    /// # Errors
    /// The window does not cover `raised` more unique bytes.
    pub(super) fn check(self, raised: u64) -> Result<(), SubflowError> {
        if self.covers(raised) {
            return Ok(());
        }
        Err(SubflowError::ours(
            CloseCode::FlowControl,
            format!(
                "session: {} bytes, where {} are granted",
                self.received + raised,
                self.granted
            ),
        ))
    }
}

impl Flow {
    pub(super) fn new(config: &SessionConfig) -> Self {
        Self {
            max_window: config.receive_window_bytes,
            stalled_memory: config.stalled_memory_bytes,
            initial_stream_window: config.initial_stream_window_bytes,
            max_streams: config.max_streams,
            peer: Limits {
                max_data: 0,
                max_stream_data: 0,
                max_streams: 0,
            },
            sent: 0,
            received: 0,
            read: 0,
            granted: config.receive_window_bytes,
            window: config.receive_window_bytes,
            pieces: 0,
            stalled_streams: 0,
            granted_streams: config.max_streams,
        }
    }

    // ---- sending --------------------------------------------------------------------------

    /// New bytes that the peer's session window lets go now.
    pub(super) fn credit(&self) -> u64 {
        self.peer.max_data.saturating_sub(self.sent)
    }

    /// New bytes were given to a subflow.
    pub(super) fn sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    // ---- what the peer may send -----------------------------------------------------------

    /// Limits as the hello carries them.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            max_data: self.granted,
            max_stream_data: self.hello_stream_window(),
            max_streams: self.granted_streams,
        }
    }

    /// Session window as MAX_DATA carries it.
    pub(super) fn granted(&self) -> u64 {
        self.granted
    }

    /// Limit of streams as MAX_STREAMS carries it.
    pub(super) fn granted_streams(&self) -> u64 {
        self.granted_streams
    }

    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Initial window of every stream of the peer, as the hello carries it.
    pub(super) fn hello_stream_window(&self) -> u64 {
        self.initial_stream_window.min(self.memory() / 32)
    }

    /// Window of a new stream. All windows together never exceed the session's memory, so that
    /// applications that stop reading leave something to others.
    pub(super) fn new_stream_window(&self, streams: &Streams) -> u64 {
        self.initial_stream_window
            .min(self.ungranted(streams) / 4)
            .max(STALLED_WINDOW_BYTES)
    }

    /// Memory for arriving bytes that no stream has been granted.
    fn ungranted(&self, streams: &Streams) -> u64 {
        self.memory().saturating_sub(streams.granted_bytes())
    }

    fn memory(&self) -> u64 {
        self.max_window + self.stalled_memory
    }

    /// Sets the window: bytes that the peer may have on the way or unread here, at most those of
    /// the configuration. Windows that were granted stay granted.
    pub(super) fn limit(&mut self, window: u64, streams: &Streams, control: &mut Control) {
        self.window = window.min(self.max_window);
        self.grant_session(streams, control);
    }

    /// The same before anything has been granted.
    pub(super) fn limit_at_first(&mut self, window: u64) {
        self.window = window.min(self.max_window);
        self.granted = self.window;
    }

    /// Raises windows after bytes of a stream were consumed, a quarter of a window at a time.
    pub(super) fn grant(&mut self, id: StreamId, streams: &mut Streams, control: &mut Control) {
        streams.update_receiving(id);
        self.grant_session(streams, control);
        let cap = self.window;
        let half_used = streams.get(id).is_some_and(|s| {
            let read = s.recv.buffer.read_offset();
            read - s.recv.grown_at >= s.recv.window / 2 && s.recv.window < cap
        });
        let free = if half_used {
            self.ungranted(streams)
        } else {
            0
        };
        let Some(s) = streams.get_mut(id) else {
            return;
        };
        let recv = &mut s.recv;
        let read = recv.buffer.read_offset();
        if half_used && free / 4 >= recv.window {
            recv.window = (recv.window * 2).min(cap);
            recv.grown_at = read;
        }
        let grant = read + recv.window;
        let over = recv.buffer.fin().is_some();
        if !over && grant >= recv.granted + recv.window / 4 {
            recv.granted = grant;
            recv.grant_wanted = true;
            streams.update_receiving(id);
            streams.signal(id);
        }
    }

    /// Raises the session's window, a quarter at a time.
    pub(super) fn grant_session(&mut self, streams: &Streams, control: &mut Control) {
        let stalled = match self.stalled_streams {
            0 => 0,
            _ => streams.stalled_bytes(),
        };
        let most = self.stalled_memory.min(self.window * 3);
        let grant = self.read + self.window + stalled.min(most);
        if grant >= self.granted + self.window / 4 {
            self.granted = grant;
            control.max_data_wanted = true;
        }
    }

    /// Server: a stream is over, `open` are left; the peer may open as many as may be open, above
    /// those that are over. It learns of a quarter at a time, and of each one when it has used all
    /// but a quarter: its applications may wait for it.
    pub(super) fn stream_over(&mut self, open: u64, closed: u64, control: &mut Control) {
        let grant = closed + self.max_streams;
        let quarter = self.max_streams / 4;
        let left = self.granted_streams.saturating_sub(open + closed);
        let raised = grant.saturating_sub(self.granted_streams);
        if raised >= quarter || (raised > 0 && left < quarter) {
            self.granted_streams = grant;
            control.max_streams_wanted = true;
        }
    }

    // ---- what arrives ---------------------------------------------------------------------

    /// Room of the session's window now.
    pub(super) fn room(&self) -> Room {
        Room {
            received: self.received,
            granted: self.granted,
        }
    }

    /// Unique bytes arrived, or were announced.
    pub(super) fn received(&mut self, raised: u64) {
        self.received += raised;
    }

    /// Bytes wait in `pieces` more pieces.
    pub(super) fn add_pieces(&mut self, pieces: usize) {
        self.pieces += pieces;
    }

    /// # Errors
    /// Bytes of all streams wait in too many pieces.
    pub(super) fn check_pieces(&self) -> Result<(), SubflowError> {
        if self.pieces > MAX_PIECES {
            return Err(SubflowError::ours(
                CloseCode::TooMuch,
                format!("the session's bytes wait in more than {MAX_PIECES} pieces"),
            ));
        }
        Ok(())
    }

    /// Bytes that arrived or were announced, and were not read.
    pub(super) fn unread(&self) -> u64 {
        self.received - self.read
    }

    /// Pieces in which bytes of all streams wait.
    pub(super) fn pieces(&self) -> usize {
        self.pieces
    }

    /// Whether nothing has arrived.
    pub(super) fn is_unused(&self) -> bool {
        self.received == 0
    }

    // ---- what applications read -----------------------------------------------------------

    /// A piece of a stream was read or discarded.
    pub(super) fn consumed(&mut self, bytes: u64) {
        self.read += bytes;
        self.pieces -= 1;
    }

    /// A stream was reset: `bytes` in `pieces` will never be read.
    pub(super) fn abandoned(&mut self, bytes: u64, pieces: usize) {
        self.read += bytes;
        self.pieces -= pieces;
    }

    /// Discards the readable bytes of a stream: they count as read.
    pub(super) fn discard(&mut self, id: StreamId, streams: &mut Streams, control: &mut Control) {
        let Some(s) = streams.get_mut(id) else {
            return;
        };
        while let Some(bytes) = s.recv.buffer.read() {
            self.consumed(bytes.len() as u64);
        }
        self.grant(id, streams, control);
    }

    /// The session is over: drops the bytes of a stream that was reset.
    pub(super) fn drop_reset(&mut self, id: StreamId, streams: &mut Streams) {
        let Some(s) = streams.get_mut(id).filter(|s| s.recv.reset.is_some()) else {
            return;
        };
        let buffer = &mut s.recv.buffer;
        let (end, pieces) = (buffer.highest(), buffer.pieces());
        let unread = end - buffer.read_offset();
        if buffer.abandon(end).is_ok() {
            self.abandoned(unread, pieces);
        }
        if std::mem::take(&mut s.recv.stalled) {
            self.unstalled();
        }
        streams.update_receiving(id);
    }

    /// A stream has stalled no longer.
    pub(super) fn unstalled(&mut self) {
        self.stalled_streams -= 1;
    }

    /// Looks for streams whose application has stopped reading, so that what they hold does not
    /// starve the others. Returns when to look again.
    pub(super) fn check_stalls(
        &mut self,
        now: Timestamp,
        streams: &mut Streams,
        control: &mut Control,
    ) -> Option<Timestamp> {
        let mut next: Option<Timestamp> = None;
        let mut found = Vec::new();
        for (id, s) in streams.iter_mut() {
            let recv = &mut s.recv;
            if recv.stalled || !recv.buffer.readable() {
                continue;
            }
            let at = recv.read_at + STALL_AFTER;
            if at <= now {
                recv.stalled = true;
                self.stalled_streams += 1;
                found.push(id);
            } else {
                next = Some(next.map_or(at, |n| n.min(at)));
            }
        }
        if !found.is_empty() {
            found
                .into_iter()
                .for_each(|id| streams.update_receiving(id));
            self.grant_session(streams, control);
        }
        next.map(|at| at.max(now + CHECK_EVERY))
    }

    /// When a stream that has something to read since now would have stalled.
    pub(super) fn stalls_at(now: Timestamp) -> Timestamp {
        now + STALL_AFTER
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::StreamClass;
    use crate::stream::Stream;

    const MIB: u64 = 1 << 20;

    fn ms(v: u64) -> Timestamp {
        Timestamp::from_millis(v)
    }

    /// A session with one stream, its window, and `arrived` bytes in it.
    fn with_stream(arrived: usize) -> (Flow, Streams, Control, StreamId) {
        let config = SessionConfig {
            receive_window_bytes: MIB,
            stalled_memory_bytes: 2 * MIB,
            initial_stream_window_bytes: MIB / 4,
            ..SessionConfig::default()
        };
        let mut flow = Flow::new(&config);
        let mut streams = Streams::new();
        let window = flow.new_stream_window(&streams);
        let id = streams.open(Stream::new(StreamClass::Bulk, None, ms(0), window));
        let recv = &mut streams.get_mut(id).unwrap().recv;
        let bytes = Bytes::from(vec![0; arrived]);
        recv.buffer.insert(0, bytes, false).unwrap();
        flow.received(arrived as u64);
        flow.add_pieces(recv.buffer.pieces());
        (flow, streams, Control::default(), id)
    }

    #[test]
    fn windows_are_raised_a_quarter_at_a_time() {
        let (mut flow, mut streams, mut control, id) = with_stream(200_000);
        assert!(flow.room().covers(MIB - 200_000) && !flow.room().covers(MIB - 199_999));
        flow.grant(id, &mut streams, &mut control);
        assert!(!control.is_due() && !streams.has_signals());
        flow.discard(id, &mut streams, &mut control);
        // Not yet a quarter of the session's window, but more than half of the stream's.
        assert!(!control.max_data_wanted);
        let recv = &streams.get(id).unwrap().recv;
        assert!(recv.grant_wanted && streams.has_signals());
        assert_eq!(recv.window, MIB / 2);
        assert_eq!(flow.unread(), 0);
    }

    #[test]
    fn a_stalled_stream_does_not_use_up_the_window() {
        let (mut flow, mut streams, mut control, id) = with_stream(600_000);
        let next = flow.check_stalls(ms(500), &mut streams, &mut control);
        assert_eq!(next, Some(ms(1_000)));
        assert!(!control.max_data_wanted && !flow.room().covers(MIB - 500_000));
        assert_eq!(
            flow.check_stalls(ms(1_000), &mut streams, &mut control),
            None
        );
        assert!(control.max_data_wanted && flow.room().covers(MIB));
        assert!(streams.get(id).unwrap().recv.stalled);
    }

    #[test]
    fn a_smaller_window_takes_nothing_back() {
        let (mut flow, streams, mut control, _) = with_stream(0);
        flow.limit(1_000, &streams, &mut control);
        assert_eq!((flow.window(), flow.granted()), (1_000, MIB));
        flow.limit(u64::MAX, &streams, &mut control);
        assert_eq!(flow.window(), MIB);
        flow.limit_at_first(1_000);
        assert_eq!(flow.limits().max_data, 1_000);
    }

    #[test]
    fn streams_are_granted_a_quarter_at_a_time_and_one_by_one_when_few_are_left() {
        let mut flow = Flow::new(&SessionConfig {
            max_streams: 100,
            ..SessionConfig::default()
        });
        let mut control = Control::default();
        let mut over = |open, closed| {
            flow.stream_over(open, closed, &mut control);
            let wanted = std::mem::take(&mut control.max_streams_wanted);
            wanted.then_some(flow.granted_streams())
        };
        assert_eq!(over(1, 1), None);
        assert_eq!(over(1, 24), None);
        assert_eq!(over(1, 25), Some(125));
        // 99 of 125 were used.
        assert_eq!(over(73, 26), None);
        assert_eq!(over(74, 27), Some(127));
        assert_eq!(over(99, 28), Some(128));
        assert_eq!(over(1, 50), None, "few are open: there is no hurry");
    }

    #[test]
    fn credit_is_what_the_peer_grants() {
        let (mut flow, ..) = with_stream(0);
        assert_eq!(flow.credit(), 0);
        flow.peer.max_data = 1_000;
        flow.sent(400);
        assert_eq!(flow.credit(), 600);
        flow.sent(700);
        assert_eq!(flow.credit(), 0);
    }
}
