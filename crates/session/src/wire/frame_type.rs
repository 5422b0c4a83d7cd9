//! Frame type numbers, and the properties that follow from a number.

use std::fmt;

/// Number of a frame type.
///
/// Types below [`FrameType::EXTENSIONS`] are sent only to peers that know them; an unknown one is
/// an error. Types from there on are skipped by a peer that does not know them, and the highest
/// bit of the number says whether the frame elicits an ACK.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FrameType(pub u8);

impl FrameType {
    pub(super) const MP_CAPABLE: Self = Self(0x01);
    pub(super) const MP_OK: Self = Self(0x02);
    pub(super) const MP_JOIN: Self = Self(0x03);
    pub(super) const MP_JOIN_OK: Self = Self(0x04);
    pub(super) const CLOSE: Self = Self(0x05);
    pub(super) const OPEN: Self = Self(0x10);
    pub(super) const DATA: Self = Self(0x11);
    pub(super) const RESET: Self = Self(0x12);
    pub(super) const STOP: Self = Self(0x13);
    pub(super) const ACK: Self = Self(0x14);
    pub(super) const MAX_DATA: Self = Self(0x15);
    pub(super) const MAX_STREAM_DATA: Self = Self(0x16);
    pub(super) const MAX_STREAMS: Self = Self(0x17);
    pub(super) const PATH_REPORT: Self = Self(0x18);
    pub(super) const PING: Self = Self(0x1a);
    pub(super) const PONG: Self = Self(0x1b);
    pub(super) const SUBFLOW_ROLE: Self = Self(0x1c);
    pub(super) const CUT: Self = Self(0x1d);
    pub(super) const GO_AWAY: Self = Self(0x1e);
    pub(crate) const CONNECTED: Self = Self(0x22);

    pub(super) const CHUNK: Self = Self(0x80);
    pub(super) const ADMIT: Self = Self(0x81);
    pub(super) const CLASS: Self = Self(0x82);

    /// First type number that a peer skips when it does not know it.
    pub const EXTENSIONS: Self = Self(0x40);

    /// Bit of an extension's number that says that the frame elicits an ACK.
    const ELICITS: u8 = 0x80;

    /// All types that this crate reads, with their names in `docs/protocol.md`.
    pub(super) const KNOWN: [(Self, &str); 23] = [
        (Self::MP_CAPABLE, "MP_CAPABLE"),
        (Self::MP_OK, "MP_OK"),
        (Self::MP_JOIN, "MP_JOIN"),
        (Self::MP_JOIN_OK, "MP_JOIN_OK"),
        (Self::CLOSE, "CLOSE"),
        (Self::OPEN, "OPEN"),
        (Self::DATA, "DATA"),
        (Self::RESET, "RESET"),
        (Self::STOP, "STOP"),
        (Self::ACK, "ACK"),
        (Self::MAX_DATA, "MAX_DATA"),
        (Self::MAX_STREAM_DATA, "MAX_STREAM_DATA"),
        (Self::MAX_STREAMS, "MAX_STREAMS"),
        (Self::PATH_REPORT, "PATH_REPORT"),
        (Self::PING, "PING"),
        (Self::PONG, "PONG"),
        (Self::SUBFLOW_ROLE, "SUBFLOW_ROLE"),
        (Self::CUT, "CUT"),
        (Self::GO_AWAY, "GO_AWAY"),
        (Self::CONNECTED, "CONNECTED"),
        (Self::CHUNK, "CHUNK"),
        (Self::ADMIT, "ADMIT"),
        (Self::CLASS, "CLASS"),
    ];

    /// Whether a peer that does not know the type skips the frame.
    pub const fn is_extension(self) -> bool {
        self.0 >= Self::EXTENSIONS.0
    }

    /// Whether the receiver of such a frame has to acknowledge its record.
    pub const fn elicits_ack(self) -> bool {
        match self {
            Self::ACK | Self::PATH_REPORT | Self::PONG | Self::CLOSE => false,
            _ => !self.is_extension() || self.0 & Self::ELICITS != 0,
        }
    }
}

impl fmt::Display for FrameType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::KNOWN.iter().find(|(known, _)| known == self) {
            Some((_, name)) => write!(f, "{name} ({:#04x})", self.0),
            None => write!(f, "type {:#04x}", self.0),
        }
    }
}
