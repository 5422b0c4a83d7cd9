//! Pipes of which the best one is used: when they are looked at.

use mpbond_units::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::scenario::Scenario;

/// When pipes are looked at, and which of them have a carrier.
#[derive(Debug)]
pub(super) struct WatchedPipes {
    /// The next time.
    pub(super) at: Timestamp,
    /// By route: the end of the time without carrier.
    pub(super) unplugged: Vec<Option<Timestamp>>,
    /// Noise of signals.
    pub(super) rng: ChaCha8Rng,
}

impl WatchedPipes {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self {
            at: Timestamp::ZERO,
            unplugged: vec![None; scenario.routes.len()],
            rng: ChaCha8Rng::seed_from_u64(scenario.seed),
        }
    }
}
