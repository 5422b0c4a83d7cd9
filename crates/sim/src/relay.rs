//! Two connections joined by a bounded buffer: the TCP split at a helper.
//!
//! The bound covers bytes that have arrived and were not read, bytes held by the relay, and bytes
//! that the next connection has not sent yet, as in the helper's relay. Below the bound the relay
//! reads eagerly.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Buf, Bytes};
use mpbond_units::{QueueBound, SenderState, Sojourn, Timestamp, most_unsent_bytes};

use crate::hop::Hop;
use crate::tcp::{MSS, State};

/// One direction of a relay.
#[derive(Debug, Default)]
struct Half {
    held: VecDeque<Bytes>,
    held_bytes: u64,
    relayed_bytes: u64,
    /// Queue of the socket that is written to, if that is kept short.
    queue: Option<Queue>,
    /// How long bytes stay, if that is measured.
    sojourn: Option<Sojourn>,
}

/// Interval at which the limit of unsent bytes follows the rate.
const TUNE_EVERY: Duration = Duration::from_millis(50);

/// The queue of a pipe over TCP.
#[derive(Debug, Default)]
struct Queue {
    bound: QueueBound,
    /// The helper has other pipes to the same primary.
    is_one_of_several: bool,
    beside_messages: bool,
    /// Limit of what is unsent: by the configuration, and when it was set by the rate.
    most_unsent_bytes: u64,
    tuned: Option<Timestamp>,
}

/// The relay between two sockets, the first one of which is that of a pipe. It owns neither: call
/// [`Relay::handle`] with both whenever either may have changed, and transmit from both afterwards.
#[derive(Debug)]
pub struct Relay {
    bound_bytes: u64,
    forward: Half,
    backward: Half,
}

impl Relay {
    /// A relay that holds up to `bound_bytes` in each direction. The receive buffers of its sockets
    /// should be a small part of that: they add to it while the relay is full.
    pub fn new(bound_bytes: u64) -> Self {
        Self {
            bound_bytes,
            forward: Half::default(),
            backward: Half::default(),
        }
    }

    /// With a bound of what the first socket, a pipe over TCP, has in flight or unsent: at any time
    /// if it is one of several pipes, otherwise beside messages.
    pub fn with_short_queue(mut self, is_one_of_several: bool) -> Self {
        self.backward.queue = Some(Queue {
            is_one_of_several,
            most_unsent_bytes: self.bound_bytes / 4,
            ..Queue::default()
        });
        self
    }

    /// Messages come over other connections in the same pipe, or no longer.
    pub fn set_beside_messages(&mut self, beside_messages: bool) {
        if let Some(queue) = &mut self.backward.queue {
            queue.beside_messages = beside_messages;
        }
    }

    /// With a measurement of how long bytes to the first socket stay.
    pub fn with_sojourn(mut self) -> Self {
        self.backward.sojourn = Some(Sojourn::default());
        self
    }

    /// Sojourn time of the last byte that the first socket has sent, if it is measured.
    pub fn backward_sojourn(&self) -> Option<Duration> {
        self.backward.sojourn.as_ref()?.last()
    }

    /// Moves bytes both ways, and passes on the end of a stream or a reset. Returns whether
    /// anything moved.
    pub fn handle(&mut self, now: Timestamp, first: &mut dyn Hop, second: &mut dyn Hop) -> bool {
        if let Some(moved) = pass_reset(first, second) {
            return moved;
        }
        let forward = self.forward.pump(now, first, second, self.bound_bytes);
        let backward = self.backward.pump(now, second, first, self.bound_bytes);
        // The end of a byte stream is found behind its last byte.
        let ended = pass_reset(first, second).unwrap_or_default();
        forward | backward | ended
    }

    /// Bytes queued from the first socket to the second.
    pub fn forward_level_bytes(&self, first: &dyn Hop, second: &dyn Hop) -> u64 {
        self.forward.level(first, second)
    }

    /// Bytes queued from the second socket to the first.
    pub fn backward_level_bytes(&self, first: &dyn Hop, second: &dyn Hop) -> u64 {
        self.backward.level(second, first)
    }

    /// Bytes taken from the second socket so far.
    pub fn backward_taken_bytes(&self) -> u64 {
        self.backward.relayed_bytes + self.backward.held_bytes
    }

    /// Bytes handed from the first socket to the second so far.
    pub fn forward_relayed_bytes(&self) -> u64 {
        self.forward.relayed_bytes
    }

    /// Bytes handed from the second socket to the first so far.
    pub fn backward_relayed_bytes(&self) -> u64 {
        self.backward.relayed_bytes
    }
}

/// Passes a reset on, if there is one; whether that has changed anything.
fn pass_reset(first: &mut dyn Hop, second: &mut dyn Hop) -> Option<bool> {
    match (first.state(), second.state()) {
        (State::Reset, State::Reset) => return Some(false),
        (State::Reset, _) => second.abort(),
        (_, State::Reset) => first.abort(),
        _ => return None,
    }
    Some(true)
}

impl Half {
    fn level(&self, from: &dyn Hop, to: &dyn Hop) -> u64 {
        from.readable_bytes() + self.held_bytes + to.notsent_bytes()
    }

    fn pump(&mut self, now: Timestamp, from: &mut dyn Hop, to: &mut dyn Hop, bound: u64) -> bool {
        let mut moved = self.drain(now, to);
        let unsent = to.notsent_bytes();
        let mut room = bound.saturating_sub(self.held_bytes + unsent);
        while room > 0
            && let Some(bytes) = from.read(usize::try_from(room).unwrap_or(usize::MAX))
        {
            room -= bytes.len() as u64;
            self.held_bytes += bytes.len() as u64;
            self.held.push_back(bytes);
            moved = true;
        }
        moved |= self.drain(now, to);
        if let Some(sojourn) = &mut self.sojourn {
            let now = now.since(Timestamp::ZERO);
            let came = self.relayed_bytes + self.held_bytes + from.readable_bytes();
            sojourn.came(came, now, Duration::ZERO);
            sojourn.left(self.relayed_bytes - to.notsent_bytes(), now);
        }
        if self.held.is_empty() && from.peer_finished() && !to.has_finished() {
            to.finish();
            moved = true;
        }
        moved
    }

    /// Bytes that may be written, by the bound of what is in flight or unsent.
    fn room(&mut self, now: Timestamp, to: &mut dyn Hop) -> usize {
        let room = self.queue.as_mut().and_then(|queue| queue.room(now, to));
        room.map_or(usize::MAX, |bytes| bytes as usize)
    }

    fn drain(&mut self, now: Timestamp, to: &mut dyn Hop) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let mut moved = false;
        let mut room = self.room(now, to);
        while let Some(first) = self.held.front_mut() {
            let taken = to.write(&first[..first.len().min(room)]);
            room -= taken;
            if taken == 0 {
                break;
            }
            moved = true;
            first.advance(taken);
            self.held_bytes -= taken as u64;
            self.relayed_bytes += taken as u64;
            if first.is_empty() {
                self.held.pop_front();
            }
        }
        if room == 0
            && let Some(queue) = &mut self.queue
        {
            queue.bound.note_reached();
        }
        moved
    }
}

impl Queue {
    fn room(&mut self, now: Timestamp, to: &mut dyn Hop) -> Option<u64> {
        let info = to.info();
        if self.tuned.is_none_or(|at| now.since(at) >= TUNE_EVERY) {
            self.tuned = Some(now);
            let most = most_unsent_bytes(info.delivery_rate);
            to.set_notsent_lowat(most.min(self.most_unsent_bytes));
        }
        if !self.is_one_of_several && !self.beside_messages {
            return None;
        }
        self.bound.set_beside_messages(self.beside_messages);
        let queued = info.unacked_bytes + info.notsent_bytes;
        if self.bound.is_due(now) {
            let state = SenderState {
                arrived_bytes: info.bytes_acked + info.sacked_bytes,
                queued_bytes: queued,
                min_rtt: info.min_rtt,
                segment_bytes: MSS,
            };
            self.bound.look(now, state);
        }
        self.bound.room_bytes(queued)
    }
}

#[cfg(test)]
mod tests {
    use mpbond_units::BitRate;

    use super::*;
    use crate::link::{LinkChange, LinkConfig, Rate};
    use crate::tcp::{Channel, Config, End};

    /// A download through a helper: the HS-Path's A end is the proxy, the
    /// pipe's B end the primary.
    struct Split {
        hs: Channel,
        pipe: Channel,
        relay: Relay,
        written: u64,
        received: Vec<(Timestamp, u64)>,
    }

    fn mbps(rate: f64) -> Rate {
        Rate::Constant(BitRate::from_mbps(rate))
    }

    fn link(rate: f64, delay_ms: u64) -> LinkConfig {
        LinkConfig::new(mbps(rate)).with_delay(Duration::from_millis(delay_ms))
    }

    impl Split {
        fn new(hs_mbps: f64, pipe_mbps: f64, bound: u64) -> Self {
            let config = Config {
                recv_buffer_bytes: 128 << 10,
                ..Config::default()
            };
            Self {
                hs: Channel::established(config, link(hs_mbps, 25), link(hs_mbps, 25), 1),
                pipe: Channel::established(config, link(pipe_mbps, 2), link(pipe_mbps, 2), 2),
                relay: Relay::new(bound),
                written: 0,
                received: Vec::new(),
            }
        }

        fn run(&mut self, start: Timestamp, end: Timestamp, total: u64) {
            let mut now = start;
            loop {
                self.hs.handle(now);
                self.pipe.handle(now);
                loop {
                    let mut moved = self.relay.handle(
                        now,
                        self.hs.socket_mut(End::B),
                        self.pipe.socket_mut(End::A),
                    );
                    let room = self.hs.socket(End::A).room() as u64;
                    let data = vec![3; room.min(total - self.written) as usize];
                    let written = self.hs.write(now, End::A, &data) as u64;
                    self.written += written;
                    moved |= written > 0;
                    self.hs.handle(now);
                    self.pipe.handle(now);
                    while let Some(bytes) = self.pipe.read(now, End::B, usize::MAX) {
                        let before = self.received.last().map_or(0, |r| r.1);
                        self.received.push((now, before + bytes.len() as u64));
                        moved = true;
                    }
                    if !moved {
                        break;
                    }
                }
                let events = [self.hs.next_event(), self.pipe.next_event()];
                match events.into_iter().flatten().min() {
                    Some(next) if next <= end => now = next,
                    _ => return,
                }
            }
        }

        fn level(&self) -> u64 {
            self.relay
                .forward_level_bytes(self.hs.socket(End::B), self.pipe.socket(End::A))
        }

        /// Payload rate at the primary between two instants, in Mbit/s.
        fn rate(&self, from: Timestamp, to: Timestamp) -> f64 {
            let until = |at: Timestamp| {
                let index = self.received.partition_point(|r| r.0 <= at);
                self.received[..index].last().map_or(0, |r| r.1)
            };
            BitRate::over(until(to) - until(from), to.since(from)).mbps()
        }
    }

    fn s(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_fast_hs_path_fills_the_relay_and_the_pipe_sets_the_rate() {
        let bound = 2 << 20;
        let mut split = Split::new(10.0, 5.0, bound);
        // 5 Mbit/s more come than go: 0.6 MB a second, until the bound.
        split.run(s(0), s(2), u64::MAX);
        let level = split.level();
        assert!((900_000..1_250_000).contains(&level), "{level}");
        split.run(s(2), s(10), u64::MAX);
        let level = split.level();
        assert!(level >= bound && level <= bound + (128 << 10), "{level}");
        let rate = split.rate(s(1), s(10));
        let payload = 5.0 * 1448.0 / 1500.0;
        assert!((0.95..1.01).contains(&(rate / payload)), "{rate}");
        // What the helper holds pays when the HS-Path fails: 2 MB last 3.4 s.
        split.hs.set_up(s(10), false);
        split.run(s(10), s(16), u64::MAX);
        let rate = split.rate(s(10), s(13));
        assert!(rate >= 0.95 * payload, "{rate}");
        assert_eq!(split.level(), 0);
    }

    #[test]
    fn a_slow_hs_path_leaves_the_relay_empty() {
        let mut split = Split::new(3.0, 5.0, 2 << 20);
        split.run(s(0), s(5), u64::MAX);
        assert!(split.level() <= 20_000, "{}", split.level());
        let rate = split.rate(s(1), s(5));
        assert!(rate >= 0.95 * 3.0 * 1448.0 / 1500.0, "{rate}");
    }

    #[test]
    fn ends_and_resets_pass() {
        let mut split = Split::new(10.0, 5.0, 1 << 20);
        split.run(s(0), s(5), 1_000_000);
        split.hs.socket_mut(End::A).finish();
        split.run(s(5), s(6), 1_000_000);
        assert_eq!(split.received.last().unwrap().1, 1_000_000);
        assert!(split.pipe.socket(End::B).peer_finished());
        assert_eq!(split.relay.forward_relayed_bytes(), 1_000_000);
        assert_eq!(split.relay.backward_relayed_bytes(), 0);
        split.pipe.socket_mut(End::B).abort();
        split.run(s(6), s(7), 1_000_000);
        assert_eq!(split.hs.socket(End::A).state(), State::Reset);
    }

    #[test]
    fn nothing_is_lost_when_the_pipe_falls() {
        let mut split = Split::new(10.0, 5.0, 256 << 10);
        split.run(s(0), s(1), 2 << 20);
        let change = LinkChange::rate(mbps(1.0));
        split.pipe.apply(s(1), End::A, &change);
        split.run(s(1), s(60), 2 << 20);
        assert_eq!(split.received.last().unwrap().1, 2 << 20);
    }
}
