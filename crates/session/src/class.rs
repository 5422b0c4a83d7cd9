use serde::{Deserialize, Serialize};

/// What kind of traffic a stream carries; decides its share of a subflow and how much of it may
/// wait at a slow helper.
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

    pub(crate) const fn from_wire(n: u8) -> Option<Self> {
        match n {
            0 => Some(Self::Bulk),
            1 => Some(Self::Interactive),
            _ => None,
        }
    }
}
