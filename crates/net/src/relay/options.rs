//! Options of a relay, and their default values.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::lent_rate::LentRate;
use super::messages::PipeMessages;
use super::stats::Budget;

/// Default bound of a relay in bytes. MPBond section 4.2 asks for a buffer and names no size; 4 MiB
/// holds the whole file of its microbenchmarks (MPBond section 6.2).
pub const DEFAULT_BOUND_BYTES: u64 = 4 << 20;
/// Longest interval at which a relay looks for bytes of a flow ([`RelayOptions::longest_tick`]).
pub const LONGEST_TICK: Duration = Duration::from_millis(5);
/// Least part of the bound that is not for a receive buffer: bytes that a few system calls move.
const LEAST_OWN_BYTES: u64 = 128 << 10;

/// Configuration of a relay.
#[derive(Debug, Clone)]
pub struct RelayOptions {
    /// Maximum number of bytes buffered in each direction; at least 256 KiB.
    pub bound_bytes: u64,
    /// Budget of bytes, both directions together.
    pub budget: Option<Arc<Budget>>,
    /// Longest interval at which the relay looks for bytes of a flow, at least 1 ms; zero to look
    /// at every arrival.
    pub longest_tick: Duration,
    /// Whether the helper has other pipes to the same primary. The queue of each over TCP is kept
    /// short then. It may be set while the relay runs.
    pub is_one_of_several: Arc<AtomicBool>,
    /// Whether the relay is an express, whose bytes towards the primary may be messages.
    pub is_express: bool,
    /// Messages over the pipe, shared by its relays. Beside them, the queue of a pipe over TCP is
    /// kept shorter, except an express's own.
    pub messages: Arc<PipeMessages>,
    /// Rates of the link over which the HS-Path runs; `None`: not limited.
    pub lent: Option<Arc<LentRate>>,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self {
            bound_bytes: DEFAULT_BOUND_BYTES,
            budget: None,
            longest_tick: LONGEST_TICK,
            is_one_of_several: Arc::default(),
            is_express: false,
            messages: Arc::default(),
            lent: None,
        }
    }
}

impl RelayOptions {
    /// Bytes that a socket of the relay may have unsent.
    pub(super) fn most_unsent_bytes(&self) -> u64 {
        self.bound_bytes / 4
    }
}

/// Most of a relay's bound that a receive buffer may take, with the kernel's bookkeeping: all that
/// the relay does not need for itself. With packets of 1500 bytes the window is 62 % of it: 1.9 MiB
/// of 4 MiB, which come in 260 ms at 60 Mbit/s. What arrives behind a lost packet waits until that
/// is sent again, so a path uses windows of two round trips (ADR 0090).
pub(super) fn most_received_bytes(bound_bytes: u64) -> u64 {
    bound_bytes.saturating_sub((bound_bytes / 4).max(LEAST_OWN_BYTES))
}
