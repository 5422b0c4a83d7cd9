//! Events of a radio: packets, hints from software, and how packet times are understood.

use serde::{Deserialize, Serialize};

/// Direction of a packet, seen from the device that owns the radio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Transmitted by the device.
    Up,
    /// Received by the device.
    Down,
}

impl Direction {
    /// Direction of the same packet at the other end of the link.
    pub const fn flipped(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// One packet as a radio sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Direction of the packet.
    pub direction: Direction,
    /// Length in bytes, IP header included.
    pub bytes: u32,
}

impl Packet {
    /// A transmitted packet.
    pub const fn up(bytes: u32) -> Self {
        Self {
            direction: Direction::Up,
            bytes,
        }
    }

    /// A received packet.
    pub const fn down(bytes: u32) -> Self {
        Self {
            direction: Direction::Down,
            bytes,
        }
    }

    /// Size in bits.
    pub(crate) fn bits(self) -> f64 {
        f64::from(self.bytes) * 8.0
    }
}

/// Hint from software to a radio, besides its traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Hint {
    /// Traffic is about to start: leave the low-power states now.
    Wake,
    /// No more traffic is expected: leave the tail now (fast dormancy).
    Release,
    /// Switch the interface off. The next packet finds it off.
    Off,
    /// Signal strength, in dBm.
    Signal(f64),
}

/// Meaning of packet times: before or after the radio's promotions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// The radio delays packets, as an emulator needs. Promotions and waits for a listening
    /// occasion begin when the packet is offered.
    #[default]
    Live,
    /// Packet times were recorded and contain all delays. Promotions are charged to the time just
    /// before the packet that caused them; nothing is delayed.
    Recorded,
}
