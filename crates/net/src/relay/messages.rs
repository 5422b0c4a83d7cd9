//! Messages over a pipe, seen by the helper.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mpbond_units::{MessageWatch, Timestamp};
use tokio::time::Instant;

/// Whether the expresses over a pipe carry messages towards the primary. The relays over one pipe
/// share it.
#[derive(Debug)]
pub struct PipeMessages {
    start: Instant,
    watch: Mutex<MessageWatch>,
}

impl Default for PipeMessages {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            watch: Mutex::default(),
        }
    }
}

impl PipeMessages {
    /// A relay has written `bytes` to the pipe, after `before` others since its begin.
    pub(super) fn note(&self, is_express: bool, before: u64, bytes: u64) {
        if bytes > 0 {
            match is_express {
                true => self.watch().express(self.now(), before, bytes),
                false => self.watch().others(bytes),
            }
        }
    }

    /// Whether there are messages.
    pub(super) fn has_messages(&self) -> bool {
        self.watch().has_messages(self.now())
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.start.elapsed()
    }

    fn watch(&self) -> MutexGuard<'_, MessageWatch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
