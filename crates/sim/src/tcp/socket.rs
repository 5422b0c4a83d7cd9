//! One end of a connection: handshake, data, close, reset.

use bytes::Bytes;
use mpbond_units::Timestamp;

use super::keepalive::KeepAlive;
use super::receiver::Receiver;
use super::sender::{Outgoing, Sender};
use super::{Config, Info, Kind, Segment};

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Waits for a peer to connect.
    Listening,
    /// Has sent SYN.
    Connecting,
    /// Has answered SYN, and waits for the first segment.
    Answering,
    /// Data can be sent.
    Established,
    /// Reset by either end.
    Reset,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Socket {
    state: State,
    sender: Sender,
    receiver: Receiver,
    /// Handshake segment or reset to be sent.
    due: Option<Kind>,
    handshake_timer: Option<Timestamp>,
    /// Timeouts of its SYN that do not double the time for an answer yet.
    linear_timeouts: u32,
    /// When the handshake segment went out; `None` once it was repeated.
    asked_at: Option<Timestamp>,
    asked: bool,
    keepalive: KeepAlive,
}

impl Socket {
    /// An end that connects.
    pub fn connect(config: Config) -> Self {
        Self::new(config, State::Connecting, Some(Kind::Syn), 0)
    }

    /// An end that listens.
    pub fn listen(config: Config) -> Self {
        Self::new(config, State::Listening, None, 0)
    }

    /// Both ends of an established connection, without a handshake.
    pub fn pair(a: Config, b: Config) -> (Self, Self) {
        let established =
            |own, peer: Config| Self::new(own, State::Established, None, peer.recv_buffer_bytes);
        (established(a, b), established(b, a))
    }

    fn new(config: Config, state: State, due: Option<Kind>, peer_window: u64) -> Self {
        Self {
            state,
            sender: Sender::new(config, peer_window),
            receiver: Receiver::new(config.recv_buffer_bytes, config.ack_segments),
            due,
            handshake_timer: None,
            linear_timeouts: match state {
                State::Connecting => config.syn_linear_timeouts,
                _ => 0,
            },
            asked_at: None,
            asked: false,
            keepalive: KeepAlive::new(config.keepalive, state == State::Listening),
        }
    }

    /// State of the connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// Number of bytes that [`Socket::write`] would take now.
    pub fn room(&self) -> usize {
        match self.state {
            State::Reset => 0,
            _ => usize::try_from(self.sender.room()).unwrap_or(usize::MAX),
        }
    }

    /// Takes bytes to send, as many as there is room for. The send buffer bounds all bytes held,
    /// the low-water mark the unsent ones. Bytes may be written before the connection is
    /// established.
    pub fn write(&mut self, data: &[u8]) -> usize {
        match self.state {
            State::Reset => 0,
            _ => self.sender.write(data),
        }
    }

    /// Ends the stream of this side, behind what was written.
    pub fn finish(&mut self) {
        self.sender.finish();
    }

    /// Whether this side has called [`Socket::finish`].
    pub fn has_finished(&self) -> bool {
        self.sender.has_finished()
    }

    /// Resets the connection, and sends one reset to the peer.
    pub fn abort(&mut self) {
        if self.state != State::Reset {
            self.state = State::Reset;
            self.due = Some(Kind::Reset);
            self.handshake_timer = None;
        }
    }

    /// The next bytes in order, at most `max`; `None` when there are none.
    pub fn read(&mut self, max: usize) -> Option<Bytes> {
        self.receiver.read(max)
    }

    /// Bytes that [`Socket::read`] would give.
    pub fn readable_bytes(&self) -> u64 {
        self.receiver.readable()
    }

    /// Lets the peer send at most `bytes` beyond what has arrived (TCP_WINDOW_CLAMP). A window that
    /// was advertised is not taken back.
    pub fn limit_window(&mut self, bytes: u64) {
        self.receiver.limit_window(bytes);
    }

    /// Bytes that may be written and not sent (TCP_NOTSENT_LOWAT).
    pub fn notsent_lowat_bytes(&self) -> u64 {
        self.sender.notsent_lowat()
    }

    /// Sets [`Socket::notsent_lowat_bytes`].
    pub fn set_notsent_lowat(&mut self, bytes: u64) {
        self.sender.set_notsent_lowat(bytes);
    }

    /// Bytes written and not sent.
    pub fn notsent_bytes(&self) -> u64 {
        self.sender.notsent()
    }

    /// Whether the peer has ended its stream and all of it was read.
    pub fn peer_finished(&self) -> bool {
        self.receiver.is_finished()
    }

    /// Whether our own stream has ended and the peer has all of it.
    pub fn own_finished(&self) -> bool {
        self.sender.is_finished()
    }

    /// The kernel's view of the connection.
    pub fn info(&self) -> Info {
        let mut info = Info {
            bytes_received: self.receiver.received(),
            readable_bytes: self.receiver.readable(),
            ..Info::default()
        };
        self.sender.fill_info(&mut info);
        info
    }

    /// A segment has arrived.
    pub fn handle_segment(&mut self, now: Timestamp, segment: Segment) {
        self.keepalive.heard(now);
        match (segment.kind, self.state) {
            (Kind::Reset, _) => {
                self.state = State::Reset;
                self.due = None;
                self.handshake_timer = None;
            }
            (_, State::Reset) => self.due = Some(Kind::Reset),
            (Kind::Syn, State::Listening | State::Answering) => {
                self.state = State::Answering;
                self.due = Some(Kind::SynAck);
                self.sender.on_ack(now, &segment);
            }
            (Kind::SynAck, State::Connecting) => {
                self.establish(now);
                self.receiver.acknowledge_at_once();
                self.sender.on_ack(now, &segment);
            }
            // The answer to it was lost.
            (Kind::SynAck, State::Established) => self.receiver.acknowledge_at_once(),
            (Kind::Data, State::Answering) => {
                self.establish(now);
                self.handle_data(now, segment);
            }
            (Kind::Data, State::Established) => self.handle_data(now, segment),
            (Kind::Syn | Kind::SynAck | Kind::Data, _) => {}
        }
    }

    fn establish(&mut self, now: Timestamp) {
        self.state = State::Established;
        self.due = None;
        self.handshake_timer = None;
        if let Some(asked) = self.asked_at.take() {
            self.sender.sample_rtt(asked, now);
        }
    }

    fn handle_data(&mut self, now: Timestamp, segment: Segment) {
        self.sender.on_ack(now, &segment);
        if !segment.payload.is_empty() || segment.fin {
            let Segment {
                seq, payload, fin, ..
            } = segment;
            self.receiver.on_data(now, seq, payload, fin);
        } else if segment.end() < self.receiver.next() {
            // Old and empty: a probe, to be answered with an ACK.
            self.receiver.acknowledge_at_once();
        }
    }

    /// Time of the next call of [`Socket::handle_timeout`].
    pub fn next_timeout(&self) -> Option<Timestamp> {
        match self.state {
            State::Listening | State::Reset => None,
            State::Connecting | State::Answering => self.handshake_timer,
            State::Established => {
                let sender = self.sender.timer();
                // What is in flight is repeated, and needs no probe.
                let idle = self.keepalive.timer().filter(|_| sender.is_none());
                let timers = [sender, self.receiver.ack_timer(), idle];
                timers.into_iter().flatten().min()
            }
        }
    }

    /// Handles timers that are due.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        match self.state {
            State::Listening | State::Reset => {}
            State::Connecting | State::Answering => {
                if self.handshake_timer.is_some_and(|at| at <= now) {
                    match self.linear_timeouts.checked_sub(1) {
                        Some(left) => self.linear_timeouts = left,
                        None => self.sender.back_off(),
                    }
                    self.handshake_timer = None;
                    self.due = Some(match self.state {
                        State::Connecting => Kind::Syn,
                        _ => Kind::SynAck,
                    });
                }
            }
            State::Established => {
                self.sender.handle_timeout(now);
                self.receiver.handle_timeout(now);
                if self.sender.timer().is_none() && self.keepalive.handle_timeout(now) {
                    self.abort();
                }
            }
        }
    }

    /// The next segment to put on the link.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Segment> {
        if let Some(kind) = self.due.take() {
            if kind != Kind::Reset {
                self.asked_at = (!self.asked).then_some(now);
                self.asked = true;
                self.handshake_timer = Some(now + self.sender.rtt_timeout());
            }
            return Some(self.segment(kind, None));
        }
        if self.state != State::Established {
            return None;
        }
        let outgoing = self.sender.poll_transmit(now);
        if std::mem::take(&mut self.keepalive.is_due) && outgoing.is_none() {
            return Some(self.probe());
        }
        if outgoing.is_none() && !self.receiver.wants_to_ack() {
            return None;
        }
        Some(self.segment(Kind::Data, outgoing))
    }

    /// A keep-alive probe: an old offset, which the peer answers with an acknowledgement.
    fn probe(&mut self) -> Segment {
        let mut segment = self.segment(Kind::Data, None);
        segment.seq = segment.seq.saturating_sub(1);
        segment
    }

    fn segment(&mut self, kind: Kind, outgoing: Option<Outgoing>) -> Segment {
        let (ack, window_end, sack) = self.receiver.acknowledge();
        let outgoing = outgoing.unwrap_or_else(|| Outgoing {
            seq: self.sender.next_offset(),
            payload: Bytes::new(),
            fin: false,
        });
        Segment {
            kind,
            seq: outgoing.seq,
            payload: outgoing.payload,
            fin: outgoing.fin,
            ack,
            window_end,
            sack,
        }
    }
}
