//! Traffic class of a stream.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Traffic class of a stream; decides its share of a subflow and how much of it may wait at a slow
/// helper.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamClass {
    /// Downloads, uploads, video segments: throughput counts.
    #[default]
    Bulk,
    /// Messages, pages, terminals: delay counts. Goes before bulk.
    Interactive,
    /// Backups, updates, synchronisation: no user waits for them. Goes after bulk.
    Background,
    /// Calls, games: each packet has a deadline. Goes before interactive.
    Realtime,
}

impl StreamClass {
    /// All classes, in the order in which their streams are served.
    pub const IN_ORDER: [Self; 4] = [
        Self::Realtime,
        Self::Interactive,
        Self::Bulk,
        Self::Background,
    ];

    /// Whether delay counts more than throughput.
    pub const fn is_delay_sensitive(self) -> bool {
        matches!(self, Self::Realtime | Self::Interactive)
    }

    /// Its name, as in `class=background`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Interactive => "interactive",
            Self::Background => "background",
            Self::Realtime => "realtime",
        }
    }

    pub(crate) const fn to_wire(self) -> u8 {
        match self {
            Self::Bulk => 0,
            Self::Interactive => 1,
            Self::Background => 2,
            Self::Realtime => 3,
        }
    }

    /// Of a class that this version does not know, the lowest bit says which is nearest: whether
    /// delay counts more than throughput.
    pub(crate) const fn from_wire(n: u8) -> Self {
        match n {
            2 => Self::Background,
            3 => Self::Realtime,
            _ if n & 1 == 0 => Self::Bulk,
            _ => Self::Interactive,
        }
    }
}

impl fmt::Display for StreamClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_written_and_others_by_their_lowest_bit() {
        for class in StreamClass::IN_ORDER {
            let n = class.to_wire();
            assert_eq!(StreamClass::from_wire(n), class);
            assert_eq!(n & 1 == 1, class.is_delay_sensitive(), "{class}");
        }
        for n in 4..=u8::MAX {
            assert_eq!(StreamClass::from_wire(n), StreamClass::from_wire(n & 1));
        }
    }
}
