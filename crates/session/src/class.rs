//! Traffic class of a stream.

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
}

impl StreamClass {
    pub(crate) const fn to_wire(self) -> u8 {
        match self {
            Self::Bulk => 0,
            Self::Interactive => 1,
        }
    }

    /// Of a class that this version does not know, the lowest bit says which of these comes
    /// nearest: whether delay counts more than throughput.
    pub(crate) const fn from_wire(n: u8) -> Self {
        match n & 1 {
            0 => Self::Bulk,
            _ => Self::Interactive,
        }
    }
}
