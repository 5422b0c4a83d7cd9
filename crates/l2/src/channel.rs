//! One channel: both directions, the opening, silence and the end.

use std::time::Duration;

use mpbond_units::Timestamp;

use crate::frame::{self, Frame, HEADER_BYTES, Header, Kind, Refused};
use crate::ping::Pings;
use crate::receiver::{Acknowledgement, Receiver};
use crate::sender::{Counts, Sender, Transmission};
use crate::tag::{Key, Side};

/// Silence after which a peer counts as gone while an answer is due; four time-outs, if that is
/// more.
pub const SILENCE: Duration = Duration::from_millis(300);
const SILENT_TIMEOUTS: u32 = 4;
/// Time-outs in this silence, at least: where this host itself has paused, its frames are late, not
/// the answers.
const MIN_SILENT_TIMEOUTS: u32 = 2;
/// Time for which a helper waits for the first frame of its primary.
const OPENING: Duration = Duration::from_secs(10);
/// Smallest MTU: that of IPv4 (RFC 791).
pub const MIN_MTU: u16 = 576;
/// Largest window, and largest send buffer: 84 ms at 100 Mbit/s.
pub const MAX_WINDOW_BYTES: u32 = 1 << 20;
/// Smallest window: some frames.
pub const MIN_WINDOW_BYTES: u32 = 8 << 10;

/// Parameters of a channel.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Number of the channel, which both ends know from their control connection.
    pub channel: u32,
    /// Key of the channel.
    pub key: Key,
    /// This end.
    pub side: Side,
    /// MTU of the interface; smaller values than [`MIN_MTU`] count as that.
    pub mtu: u16,
    /// Octets that wait to be read or are missing, at most; and those written that are not
    /// acknowledged. From [`MIN_WINDOW_BYTES`] to [`MAX_WINDOW_BYTES`].
    pub window_bytes: u32,
}

/// Reason for which a channel has failed. The connection is to be continued over TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No frame for 300 ms, while an answer was due.
    #[error("the peer does not answer over Ethernet frames: TCP has to be used")]
    Silent,
    /// Frames come, but none that acknowledges or answers what is sent again and again.
    #[error("the peer answers, but does not receive frames with data: TCP has to be used")]
    Stalled,
    /// More than 1 % of the frames were lost: something between the ends drops them.
    #[error("more than 1 % of the Ethernet frames are lost: TCP has to be used")]
    Lossy,
    /// The peer has given the channel up.
    #[error("the peer has closed the channel")]
    Reset,
    /// This end has given the channel up.
    #[error("the channel is closed")]
    Closed,
}

/// Answer to a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// This many octets, at least one.
    Octets(usize),
    /// The stream has ended.
    End,
    /// Nothing at the moment.
    Nothing,
}

/// One end of a byte stream in both directions over Ethernet frames.
///
/// A driver passes frames from the network to [`handle_frame`](Self::handle_frame), takes frames
/// from [`poll_frame`](Self::poll_frame) until there are none, and calls
/// [`handle_timeout`](Self::handle_timeout) at [`next_timeout`](Self::next_timeout). After each of
/// its calls, any other call may have something new.
pub struct Channel {
    config: Config,
    sender: Sender,
    receiver: Receiver,
    last_frame_at: Timestamp,
    /// A frame has arrived.
    is_open: bool,
    /// Beginning of the wait for any frame; `None` when none is due.
    waits_since: Option<Timestamp>,
    /// Time-outs since a frame arrived.
    timeouts: u32,
    pings: Pings,
    reset: Reset,
    error: Option<Error>,
    /// Instant at which both directions had ended.
    done_at: Option<Timestamp>,
    fails_at_loss: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reset {
    None,
    Due,
    Sent,
}

impl Channel {
    /// Opens a channel. The first frame of the primary asks the helper for its credit; a helper
    /// waits 10 s for it, since its end may exist earlier.
    pub fn new(now: Timestamp, config: Config) -> Self {
        let window = config
            .window_bytes
            .clamp(MIN_WINDOW_BYTES, MAX_WINDOW_BYTES);
        let mtu = config.mtu.max(MIN_MTU);
        let opens = config.side == Side::Primary;
        Self {
            config: Config {
                mtu,
                window_bytes: window,
                ..config
            },
            sender: Sender::new(usize::try_from(window).unwrap_or(usize::MAX)),
            receiver: Receiver::new(window),
            last_frame_at: now,
            is_open: false,
            waits_since: opens.then_some(now),
            timeouts: 0,
            pings: Pings::new(now, opens),
            reset: Reset::None,
            error: None,
            done_at: None,
            fails_at_loss: false,
        }
    }

    /// Has the channel fail where more than 1 % of 2000 frames in succession are lost.
    pub fn fail_at_loss(&mut self) {
        self.fails_at_loss = true;
    }

    /// Takes octets to be sent; returns their number, 0 when there is no room.
    ///
    /// # Errors
    /// The reason for which the channel has failed.
    pub fn write(&mut self, octets: &[u8]) -> Result<usize, Error> {
        match self.error {
            Some(error) => Err(error),
            None if self.sender.is_finished() => Err(Error::Closed),
            None => Ok(self.sender.write(octets)),
        }
    }

    /// Ends the stream of this direction after the octets that were written.
    pub fn finish(&mut self) {
        self.sender.finish();
    }

    /// Gives the channel up, and tells the peer.
    pub fn reset(&mut self) {
        if self.error.is_none() && self.done_at.is_none() {
            self.error = Some(Error::Closed);
            self.reset = Reset::Due;
        }
    }

    /// Copies octets that have arrived, in order.
    ///
    /// # Errors
    /// The reason for which the channel has failed, once all that had arrived is read.
    pub fn read(&mut self, into: &mut [u8]) -> Result<Read, Error> {
        match self.receiver.read(into) {
            0 if into.is_empty() && self.receiver.readable() > 0 => Ok(Read::Nothing),
            0 if self.receiver.has_ended() => Ok(Read::End),
            0 => self.error.map_or(Ok(Read::Nothing), Err),
            count => Ok(Read::Octets(count)),
        }
    }

    /// Number of octets that can be read.
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// Number of octets that [`write`](Self::write) takes at present.
    pub fn room(&self) -> u64 {
        self.sender.room()
    }

    /// Number of octets written that were never sent.
    pub fn unsent(&self) -> u64 {
        self.sender.unsent()
    }

    /// Number of octets written that the peer has not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.sender.unacknowledged()
    }

    /// Whether a frame of the peer has arrived.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether all octets of the peer and the end of its direction have arrived.
    pub fn has_ended(&self) -> bool {
        self.receiver.has_ended()
    }

    /// Whether an acknowledgement waits to be sent.
    pub fn is_ack_due(&self, now: Timestamp) -> bool {
        self.receiver.is_ack_due(now)
    }

    /// Adopts another MTU of the interface. Frames that are longer are sent again in parts.
    pub fn set_mtu(&mut self, mtu: u16) {
        self.config.mtu = mtu.max(MIN_MTU);
        self.sender.shrink(self.max_payload());
    }

    /// Frames with data that were sent.
    pub fn counts(&self) -> Counts {
        self.sender.counts()
    }

    /// The reason for which the channel has failed.
    pub fn error(&self) -> Option<Error> {
        self.error
    }

    /// Whether the peer has acknowledged all octets and the end of this direction.
    pub fn is_acknowledged(&self) -> bool {
        self.sender.is_done()
    }

    /// Whether the channel can be forgotten: it has failed and its RESET was sent, or both
    /// directions have ended and the peer has had time to ask for the last acknowledgement again.
    pub fn is_over(&self, now: Timestamp) -> bool {
        match self.error {
            Some(_) => self.reset != Reset::Due,
            None => self.done_at.is_some_and(|at| now >= at + SILENCE),
        }
    }

    /// Frames with octets have no ranges.
    fn max_payload(&self) -> u16 {
        self.config.mtu - HEADER_BYTES as u16
    }

    /// Takes a frame, without its Ethernet header.
    ///
    /// # Errors
    /// The reason for which it was dropped; the channel goes on.
    pub fn handle_frame(&mut self, now: Timestamp, octets: &[u8]) -> Result<(), Refused> {
        let Config {
            channel, key, side, ..
        } = &self.config;
        let Frame { header, payload } = frame::decode(octets, *channel, key, side.peer())?;
        if self.error.is_some() {
            return Ok(());
        }
        if header.kind == Kind::Reset {
            if self.done_at.is_none() {
                self.error = Some(Error::Reset);
            }
            return Ok(());
        }
        self.sender.handle_ack(now, &header)?;
        self.note_frame(now);
        match header.kind {
            Kind::Data => self.receiver.handle_data(now, header.offset, payload)?,
            Kind::Fin => self.receiver.handle_fin(header.offset)?,
            Kind::Ping => {
                self.pings.handle_ping(now, header.offset);
                self.receiver.acknowledge_now();
            }
            Kind::Ack => self.pings.handle_ack(now, header.offset),
            Kind::Reset => {}
        }
        self.after_change(now);
        Ok(())
    }

    fn note_frame(&mut self, now: Timestamp) {
        self.last_frame_at = now;
        self.is_open = true;
        self.timeouts = 0;
        self.waits_since = self.sender.has_segments().then_some(now);
    }

    fn after_change(&mut self, now: Timestamp) {
        if self.sender.is_done() && self.receiver.has_ended() {
            self.done_at.get_or_insert(now);
            self.waits_since = None;
            self.pings.end();
        }
        let is_blocked = self.is_open && self.sender.is_blocked();
        self.pings.set_blocked(now, is_blocked);
    }

    /// The next frame to be sent, written into `into` without an Ethernet header; its length.
    /// `into` is at least as long as the MTU.
    pub fn poll_frame(&mut self, now: Timestamp, into: &mut [u8]) -> Option<usize> {
        if self.reset == Reset::Due {
            self.reset = Reset::Sent;
            return self.encode(Kind::Reset, 0, into);
        }
        if self.error.is_some() {
            return None;
        }
        if let Some(number) = self.pings.poll(now) {
            self.waits_since.get_or_insert(now);
            return self.encode(Kind::Ping, number, into);
        }
        if self.pings.is_answer_due() || self.receiver.has_untold() {
            return self.acknowledge(into);
        }
        if let Some(next) = self.sender.poll(now, self.max_payload()) {
            self.waits_since.get_or_insert(now);
            return self.encode_data(next, into);
        }
        self.after_change(now);
        match self.receiver.is_ack_due(now) {
            true => self.acknowledge(into),
            false => None,
        }
    }

    fn acknowledge(&mut self, into: &mut [u8]) -> Option<usize> {
        let number = self.pings.answer();
        self.encode(Kind::Ack, number, into)
    }

    /// A frame without payload.
    fn encode(&mut self, kind: Kind, offset: u64, into: &mut [u8]) -> Option<usize> {
        let acknowledgement = match kind {
            Kind::Ack => self.receiver.full(),
            _ => self.receiver.brief(),
        };
        self.header(kind, offset, acknowledgement).encode(
            0,
            &self.config.key,
            self.config.side,
            into,
        )
    }

    fn encode_data(&mut self, next: Transmission, into: &mut [u8]) -> Option<usize> {
        let acknowledgement = self.receiver.brief();
        let header = self.header(next.kind, next.offset, acknowledgement);
        let start = header.encoded_bytes();
        let payload = into.get_mut(start..start + usize::from(next.bytes))?;
        self.sender.payload(next.offset, payload);
        header.encode(next.bytes, &self.config.key, self.config.side, into)
    }

    fn header(&self, kind: Kind, offset: u64, acknowledgement: Acknowledgement) -> Header {
        let Acknowledgement {
            acked,
            credit,
            ranges,
        } = acknowledgement;
        Header {
            kind,
            channel: self.config.channel,
            offset,
            acked,
            credit,
            ranges,
        }
    }

    /// Instant at which [`handle_timeout`](Self::handle_timeout) is to be called, or at which a
    /// frame is due. It may have passed.
    pub fn next_timeout(&self) -> Option<Timestamp> {
        if self.error.is_some() {
            return None;
        }
        let over = self.done_at.map(|at| at + SILENCE);
        let timers = [
            self.sender.deadline(),
            self.receiver.deadline(),
            self.silent_at(),
            self.pings.deadline(self.sender.timeout()),
            over,
        ];
        timers.into_iter().flatten().min()
    }

    fn silent_at(&self) -> Option<Timestamp> {
        if !self.is_open && self.config.side == Side::Helper {
            return Some(self.last_frame_at + OPENING);
        }
        if self.timeouts < MIN_SILENT_TIMEOUTS {
            return None;
        }
        let since = self.waits_since?.max(self.last_frame_at);
        Some(since + SILENCE.max(self.sender.timeout() * SILENT_TIMEOUTS))
    }

    /// Applies the passing of time. Frames that have arrived are to be handled before.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if self.error.is_some() {
            return;
        }
        self.timeouts += u32::from(self.sender.handle_timeout(now));
        let timeout = self.sender.timeout();
        self.timeouts += u32::from(self.pings.handle_timeout(now, timeout));
        let failure = match self.silent_at() {
            Some(at) if now >= at => Some(Error::Silent),
            _ if self.fails_at_loss && self.sender.is_lossy() => Some(Error::Lossy),
            _ if self.sender.is_stalled() || self.pings.is_unanswered() => Some(Error::Stalled),
            _ => None,
        };
        if failure.is_some() {
            self.error = failure;
            // The peer may hear this end all the same.
            self.reset = Reset::Due;
        }
    }
}
