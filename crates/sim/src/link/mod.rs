//! One direction of a link: rate over time, propagation, drop-tail queue, loss.
//!
//! ```
//! use mpbond_sim::link::{Link, LinkConfig, Rate};
//! use mpbond_units::{BitRate, Timestamp};
//! use std::time::Duration;
//!
//! let rate = Rate::Constant(BitRate::from_mbps(12.0));
//! let config = LinkConfig::new(rate).with_delay(Duration::from_millis(25));
//! let mut link = Link::new(config, 1);
//! link.enqueue(Timestamp::ZERO, 1500, "packet").unwrap();
//!
//! // 1 ms to send at 12 Mbit/s, then 25 ms on the way.
//! let arrival = link.next_event().unwrap();
//! assert_eq!(arrival, Timestamp::from_millis(26));
//! assert_eq!(link.poll(arrival).unwrap().packet, "packet");
//! ```

mod airtime;
mod burst;
mod config;
mod group;
mod hold;
mod models;
mod pace;
mod probability;
mod rfcomm;
mod spec;
mod wifi;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_units::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

pub use airtime::Medium;
pub use burst::BurstLoss;
pub use config::{LinkChange, LinkConfig, Queue, Rate};
pub use group::{Group, MediumId, RadioId};
pub use models::{Models, Seat, Shared, SharedMedium, SharedRadio};
pub use rfcomm::{
    Channel as RfcommChannel, NEAR_DBM, RFCOMM_RATE, Rfcomm, SOCKET_BYTES, SUPERVISION_TIMEOUT,
    packet_loss,
};
pub use spec::{LinkChangeSpec, LinkSpec, RateSpec, ResolveError};
pub use wifi::WifiPlace;

use burst::Channel;
use hold::Held;
use pace::{Finish, Pace, Position, work_of};

/// Reason for which a link did not take a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The queue had no room for it.
    QueueFull,
    /// Random loss.
    Loss,
    /// The link is down.
    Down,
}

/// A packet that a link did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped<P> {
    /// The packet.
    pub packet: P,
    /// Reason.
    pub reason: DropReason,
}

/// A packet at the far end of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered<P> {
    /// The packet.
    pub packet: P,
    /// Its IP bytes.
    pub bytes: u32,
    /// Time at which it was offered.
    pub enqueued: Timestamp,
    /// Time at which its last bit left the queue.
    pub departed: Timestamp,
    /// Time of arrival: departure plus propagation and jitter.
    pub arrived: Timestamp,
}

/// Counters of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkStats {
    /// Packets offered, taken or not.
    pub offered_packets: u64,
    /// Packets whose last bit has left the queue.
    pub departed_packets: u64,
    /// Their IP bytes.
    pub departed_bytes: u64,
    /// Packets refused because the queue was full.
    pub dropped_queue_full: u64,
    /// Packets lost at random.
    pub dropped_loss: u64,
    /// Packets lost because the link was or went down.
    pub dropped_down: u64,
    /// Maximum queue length, in IP bytes.
    pub max_queue_bytes: u64,
}

#[derive(Debug)]
struct Queued<P> {
    packet: P,
    bytes: u32,
    enqueued: Timestamp,
    tries: Tries,
}

/// How often a packet is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tries {
    /// At least one.
    count: u32,
    /// Whether the last one fails, too.
    is_lost: bool,
}

/// The packet at the head of the queue is being sent.
#[derive(Debug, Clone, Copy)]
struct Sending {
    /// End of the time for which its sending is accounted.
    from: Position,
    /// Work left then.
    work: u64,
    /// End of the sending if the link does not change; `None`: never.
    finish: Option<Finish>,
}

/// One direction of a link: rate schedule, propagation delay, drop-tail queue, loss. Time is an
/// argument and must not decrease; an earlier instant counts as the last one.
///
/// Departures are computed while packets are sent, so that a change of the link applies to packets
/// that wait.
#[derive(Debug)]
pub struct Link<P> {
    pace: Pace,
    delay: Duration,
    jitter: Duration,
    limit: Queue,
    loss: f64,
    burst: Channel,
    up: bool,
    now: Timestamp,
    queue: VecDeque<Queued<P>>,
    queue_bytes: u64,
    /// Packets at the end of the queue that wait for others.
    held: Held,
    /// Some exactly while the queue has packets that are not held.
    sending: Option<Sending>,
    /// Whether a [`Group`] decides when packets are sent.
    managed: bool,
    /// Octets that each packet has in addition while it is sent.
    frame_bytes: u32,
    /// How often a packet that is lost is sent again.
    retries: u32,
    /// Left the queue, not yet arrived; in order of arrival.
    flight: VecDeque<Delivered<P>>,
    last_arrival: Timestamp,
    rng: ChaCha8Rng,
    stats: LinkStats,
}

impl<P> Link<P> {
    /// A link whose schedule or trace begins at [`Timestamp::ZERO`]. `seed`
    /// fixes its losses and jitter.
    pub fn new(config: LinkConfig, seed: u64) -> Self {
        Self::starting_at(config, seed, Timestamp::ZERO)
    }

    /// A link whose schedule or trace begins at `start`.
    pub fn starting_at(config: LinkConfig, seed: u64, start: Timestamp) -> Self {
        Self {
            pace: Pace::new(config.rate, start),
            delay: config.delay,
            jitter: config.jitter,
            limit: config.queue,
            loss: config.loss,
            burst: Channel::new(config.burst_loss),
            up: true,
            now: start,
            queue: VecDeque::new(),
            queue_bytes: 0,
            held: Held::new(config.hold, config.hold_bytes),
            sending: None,
            managed: false,
            frame_bytes: 0,
            retries: 0,
            flight: VecDeque::new(),
            last_arrival: Timestamp::ZERO,
            rng: ChaCha8Rng::seed_from_u64(seed),
            stats: LinkStats::default(),
        }
    }

    /// Sends a packet that is lost again, up to so many times, as the MAC of 802.11 does. Each try
    /// takes the time of one packet, directly after the one before, and is lost with the
    /// probabilities of the link. A packet whose last try is lost has been taken all the same, and
    /// does not arrive. With 0, packets are lost before they enter the queue.
    #[must_use]
    pub fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Offers a packet of `bytes` (IP bytes, no Ethernet).
    ///
    /// # Errors
    /// Gives the packet back with the reason: queue full, random loss, or a
    /// link that is down.
    pub fn enqueue(&mut self, now: Timestamp, bytes: u32, packet: P) -> Result<(), Dropped<P>> {
        self.advance(now);
        self.stats.offered_packets += 1;
        let tries = self.tries();
        if let Some(reason) = self.refuses(bytes, tries) {
            *match reason {
                DropReason::QueueFull => &mut self.stats.dropped_queue_full,
                DropReason::Loss => &mut self.stats.dropped_loss,
                DropReason::Down => &mut self.stats.dropped_down,
            } += 1;
            return Err(Dropped { packet, reason });
        }
        self.queue.push_back(Queued {
            packet,
            bytes,
            enqueued: self.now,
            tries,
        });
        self.queue_bytes += u64::from(bytes);
        self.stats.max_queue_bytes = self.stats.max_queue_bytes.max(self.queue_bytes);
        self.held.take(self.now, bytes);
        if self.sending.is_none() && !self.managed {
            self.begin_sending(self.pace.position(self.now), 0);
        }
        Ok(())
    }

    /// The next packet that has arrived by `now`.
    pub fn poll(&mut self, now: Timestamp) -> Option<Delivered<P>> {
        self.advance(now);
        self.flight.pop_front_if(|packet| packet.arrived <= now)
    }

    /// Time of the next call of [`Link::poll`]. `None` if no packet is on the link, or none can
    /// move before the link changes.
    ///
    /// With jitter or retries, and where packets wait for others, it may be early: that call finds
    /// no packet, and the next time is exact, or that of another packet.
    pub fn next_event(&self) -> Option<Timestamp> {
        if let Some(next) = self.flight.front() {
            return Some(next.arrived);
        }
        let Some(sending) = &self.sending else {
            return self.held.until();
        };
        Some((sending.finish?.at.at + self.delay).max(self.last_arrival))
    }

    /// Changes the link now. Applies to packets that wait, but not to those that have left the
    /// queue. A link that goes down loses the packets that wait.
    pub fn apply(&mut self, now: Timestamp, change: &LinkChange) {
        self.advance(now);
        if let Some(rate) = &change.rate {
            let left = self.sending.map(|sending| {
                let done = self.pace.work_between(sending.from, self.now);
                // In a group it may have been set to begin later.
                let from = sending.from.at.max(self.now);
                (from, sending.work.saturating_sub(done))
            });
            self.pace = Pace::new(rate.clone(), self.now);
            if let Some((from, work)) = left {
                self.send_on(self.pace.position(from), work);
            }
        }
        self.delay = change.delay.unwrap_or(self.delay);
        self.jitter = change.jitter.unwrap_or(self.jitter);
        self.limit = change.queue.unwrap_or(self.limit);
        self.loss = change.loss.unwrap_or(self.loss);
        if let Some(parameters) = change.burst_loss {
            self.burst = Channel::new(parameters);
        }
        self.up = change.up.unwrap_or(self.up);
        if !self.up {
            self.stats.dropped_down += self.queue.len() as u64;
            self.queue.clear();
            self.queue_bytes = 0;
            self.held.clear();
            self.sending = None;
        }
    }

    /// IP bytes in the queue, the packet that is being sent included, at the last call with a time.
    pub fn queue_bytes(&self) -> u64 {
        self.queue_bytes
    }

    /// Whether no packet is on the link.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.flight.is_empty()
    }

    /// Whether the link is up.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Counters at the last call with a time.
    pub fn stats(&self) -> LinkStats {
        self.stats
    }

    /// How often the next packet is sent.
    fn tries(&mut self) -> Tries {
        let mut count = 1;
        loop {
            let is_lost = self.up && self.loses();
            if !is_lost || count > self.retries {
                return Tries { count, is_lost };
            }
            count += 1;
        }
    }

    /// Whether a packet is lost that is sent now.
    fn loses(&mut self) -> bool {
        // Drawn only where there is loss, so that adding it elsewhere does not
        // change this link's jitter.
        let rng = &mut self.rng;
        let by_chance = self.loss > 0.0 && draw(rng) < self.loss;
        // The channel changes its state with every packet, also with those lost otherwise.
        self.burst.loses(|| draw(rng)) || by_chance
    }

    fn refuses(&self, bytes: u32, tries: Tries) -> Option<DropReason> {
        if !self.up {
            return Some(DropReason::Down);
        }
        if tries.is_lost && self.retries == 0 {
            return Some(DropReason::Loss);
        }
        let limit = match self.limit {
            Queue::Bytes(limit) => limit,
            Queue::Time(span) => self
                .pace
                .drain_rate(self.now)
                .map_or(u64::MAX, |rate| rate.bytes_in(span).max(Queue::MIN_BYTES)),
        };
        let full = self.queue_bytes.saturating_add(u64::from(bytes)) > limit;
        (full && !self.queue.is_empty()).then_some(DropReason::QueueFull)
    }

    /// Handles departures up to `now`.
    fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        if self.managed {
            return;
        }
        loop {
            let finish = self.sending.and_then(|sending| sending.finish);
            let finish = finish.filter(|finish| finish.at.at <= self.now);
            let by = finish.map_or(self.now, |finish| finish.at.at);
            if let Some(at) = self.held.release(by) {
                if self.sending.is_none() {
                    self.begin_sending(self.pace.position(at), 0);
                }
            } else if let Some(Finish { at, credit }) = finish {
                self.depart(at.at);
                self.begin_sending(at, credit);
            } else {
                break;
            }
        }
    }

    fn depart(&mut self, departed: Timestamp) {
        let Some(Queued {
            packet,
            bytes,
            enqueued,
            tries,
        }) = self.queue.pop_front()
        else {
            return;
        };
        self.queue_bytes -= u64::from(bytes);
        if tries.is_lost {
            self.stats.dropped_loss += 1;
            return;
        }
        self.stats.departed_packets += 1;
        self.stats.departed_bytes += u64::from(bytes);
        let mut arrived = departed + self.delay;
        if !self.jitter.is_zero() {
            let extra = self.jitter.mul_f64(draw(&mut self.rng));
            arrived += extra;
        }
        arrived = arrived.max(self.last_arrival);
        self.last_arrival = arrived;
        self.flight.push_back(Delivered {
            packet,
            bytes,
            enqueued,
            departed,
            arrived,
        });
    }

    /// IP bytes of the packet at the head, whether sent or waiting for its turn; `None` also if it
    /// waits for others.
    fn head_bytes(&self) -> Option<u32> {
        let head = self.queue.front()?;
        (self.queue.len() > self.held.packets()).then_some(head.bytes)
    }

    /// How often the packet at the head is sent.
    fn head_tries(&self) -> u32 {
        self.queue.front().map_or(1, |head| head.tries.count)
    }

    /// End of the sending of the present packet; `None` also if it never ends.
    fn sending_ends(&self) -> Option<Timestamp> {
        Some(self.sending?.finish?.at.at)
    }

    /// Sends the packet at the head from `at` on, where `last`, if given, is
    /// the end of the one before. It has not left before `not_before`.
    fn start(&mut self, at: Timestamp, last: Option<Finish>, not_before: Option<Timestamp>) {
        let (from, credit) = match last {
            Some(last) => (last.at, last.credit),
            None => (self.pace.position(at), 0),
        };
        self.begin_sending(from, credit);
        let finish = self.sending.as_mut().and_then(|s| s.finish.as_mut());
        if let (Some(finish), Some(earliest)) = (finish, not_before)
            && finish.at.at < earliest
        {
            *finish = Finish {
                at: self.pace.position(earliest),
                credit: 0,
            };
        }
    }

    /// Removes the packet that is being sent, if its sending ends by `now`.
    fn complete(&mut self, now: Timestamp) -> Option<Finish> {
        let finish = self.sending?.finish.filter(|f| f.at.at <= now)?;
        self.depart(finish.at.at);
        self.sending = None;
        Some(finish)
    }

    /// Discards the part of the packet at the head that was sent.
    fn stop_sending(&mut self) {
        self.sending = None;
    }

    /// Begins to send the packet at the head, of which `credit` is already sent.
    fn begin_sending(&mut self, from: Position, credit: u64) {
        match self.head_bytes() {
            Some(bytes) => {
                let octets = bytes.saturating_add(self.frame_bytes);
                let octets = octets.saturating_mul(self.head_tries());
                self.send_with_credit(from, work_of(octets), credit);
            }
            None => self.sending = None,
        }
    }

    fn send_with_credit(&mut self, from: Position, work: u64, credit: u64) {
        self.send_on(from, work.saturating_sub(credit));
        // One opportunity may carry several small packets whole.
        if let Some(finish) = self.sending.as_mut().and_then(|s| s.finish.as_mut()) {
            finish.credit += credit.saturating_sub(work);
        }
    }

    fn send_on(&mut self, from: Position, work: u64) {
        self.sending = Some(Sending {
            from,
            work,
            finish: self.pace.finish(from, work),
        });
    }
}

/// A number uniformly distributed in [0, 1), with the 53 bits of an `f64`'s mantissa.
pub(crate) fn draw(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}
