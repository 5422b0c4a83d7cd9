use serde::{Deserialize, Serialize};

/// Which way a packet goes, seen from the device that owns the radio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The device transmits.
    Up,
    /// The device receives.
    Down,
}

impl Direction {
    /// The same packet seen from the other end of the link.
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
    /// Which way it goes.
    pub direction: Direction,
    /// Its length in bytes, IP header included.
    pub bytes: u32,
}

impl Packet {
    /// A packet that the device transmits.
    pub const fn up(bytes: u32) -> Self {
        Self {
            direction: Direction::Up,
            bytes,
        }
    }

    /// A packet that the device receives.
    pub const fn down(bytes: u32) -> Self {
        Self {
            direction: Direction::Down,
            bytes,
        }
    }

    /// Bits on the link.
    pub(crate) fn bits(self) -> f64 {
        f64::from(self.bytes) * 8.0
    }
}

/// What software tells a radio beside its traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Hint {
    /// Traffic is about to start: leave the low-power states now.
    Wake,
    /// No more traffic is expected: leave the tail now (fast dormancy).
    Release,
    /// Switch the interface off. The next packet finds it off.
    Off,
    /// The signal is now this strong, in dBm.
    Signal(f64),
}

/// Whether a promotion lies ahead of a packet or already behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// The machine holds packets back: an emulator asks it when they may pass.
    /// Promotions and waits for a listening occasion begin when the packet
    /// is offered.
    #[default]
    Live,
    /// The packets' times were recorded, with every delay already in them.
    /// Promotions are charged to the time just before the packet that
    /// caused them, and nothing is held.
    Recorded,
}
