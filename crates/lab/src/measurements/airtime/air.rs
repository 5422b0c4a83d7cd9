//! A WiFi channel between a phone and its access point: one packet at a time, in either direction.

use std::time::Duration;

use mpbond_radio::Direction;
use mpbond_sim::link::{Group, Link, LinkConfig, Medium, Queue, Rate};
use mpbond_units::{BitRate, Timestamp};

/// Queue of a device for each direction: Linux's 1000 packets.
const QUEUE_BYTES: u64 = 1_500_000;

/// Properties of a channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Channel {
    pub(super) rate: BitRate,
    /// Airtime of each frame beside its octets.
    pub(super) frame_overhead: Duration,
    /// One-way delay between the phone and the end of its transport.
    pub(super) delay: Duration,
    /// Probability that a try to send a frame fails, in either direction.
    pub(super) loss: f64,
    /// How often a frame that is lost is sent again.
    pub(super) retries: u32,
    /// Selects the random numbers of losses.
    pub(super) seed: u64,
}

impl Channel {
    fn medium(&self) -> Medium {
        Medium {
            frame_overhead: self.frame_overhead,
            ..Medium::default()
        }
    }
}

/// A packet that has passed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passed {
    pub(super) at: Timestamp,
    /// Seen from the phone.
    pub(super) direction: Direction,
    pub(super) bytes: u32,
}

/// A channel that plays packets, and notes them.
pub(super) struct Air<P> {
    group: Group<P>,
    channel: Channel,
    passed: Vec<Passed>,
    busy: Duration,
}

/// Index of the link of a direction.
fn index(direction: Direction) -> usize {
    match direction {
        Direction::Up => 0,
        Direction::Down => 1,
    }
}

impl<P> Air<P> {
    pub(super) fn new(channel: Channel) -> Self {
        let mut group = Group::new();
        let medium = group.add_medium(channel.medium());
        for direction in [Direction::Up, Direction::Down] {
            let mut config = LinkConfig::new(Rate::Constant(channel.rate));
            config.delay = channel.delay;
            config.queue = Queue::Bytes(QUEUE_BYTES);
            config.loss = channel.loss;
            // Losses of the two directions are independent.
            let seed = 2 * channel.seed + index(direction) as u64;
            let link = Link::new(config, seed);
            group.add(link.with_retries(channel.retries), Some(medium), Vec::new());
        }
        Self {
            group,
            channel,
            passed: Vec::new(),
            busy: Duration::ZERO,
        }
    }

    /// Offers a packet; a full queue drops it, and so does a channel that loses it without retries.
    pub(super) fn send(&mut self, now: Timestamp, direction: Direction, bytes: u32, packet: P) {
        let _ = self.group.enqueue(index(direction), now, bytes, packet);
    }

    /// Bytes that wait to be sent.
    pub(super) fn queue_bytes(&self, direction: Direction) -> u64 {
        let link = self.group.link(index(direction));
        link.map_or(0, Link::queue_bytes)
    }

    /// The next packet that has arrived.
    pub(super) fn poll(&mut self, now: Timestamp, direction: Direction) -> Option<P> {
        let delivered = self.group.poll(index(direction), now)?;
        let medium = self.channel.medium();
        self.busy += medium.airtime(self.channel.rate, delivered.bytes);
        self.passed.push(Passed {
            at: delivered.departed,
            direction,
            bytes: delivered.bytes,
        });
        Some(delivered.packet)
    }

    pub(super) fn next_event(&self) -> Option<Timestamp> {
        self.group.next_event()
    }

    /// The packets that have passed, in order of time, and the airtime of one try of each.
    pub(super) fn into_passed(mut self) -> (Vec<Passed>, Duration) {
        self.passed.sort_by_key(|packet| packet.at);
        (self.passed, self.busy)
    }
}
