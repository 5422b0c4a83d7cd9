//! How a session treats a stream: class, priority, and the paths that may carry it.

use crate::{PathSet, StreamClass};

/// How a session treats a stream. The primary decides it, and may change it while the stream is
/// open; both ends heed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Treatment {
    /// Traffic class.
    pub class: StreamClass,
    /// Order among streams that would be served in turn: higher ones first. At most
    /// [`MAX_PRIORITY`](Self::MAX_PRIORITY); a larger value counts as that.
    pub priority: u8,
    /// Paths that may carry it, in both directions.
    pub paths: PathSet,
}

impl Treatment {
    /// The highest priority.
    pub const MAX_PRIORITY: u8 = 7;

    pub(crate) fn bounded(self) -> Self {
        Self {
            priority: self.priority.min(Self::MAX_PRIORITY),
            ..self
        }
    }
}

impl From<StreamClass> for Treatment {
    /// All paths, without priority.
    fn from(class: StreamClass) -> Self {
        Self {
            class,
            priority: 0,
            paths: PathSet::ALL,
        }
    }
}

impl Default for Treatment {
    fn default() -> Self {
        StreamClass::default().into()
    }
}
