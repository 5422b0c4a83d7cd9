//! Signals of links other than Bluetooth, as the primary sees them.

use mpbond_manager::WeakSignal;
use mpbond_units::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::scenario::{Route, Scenario};
use crate::wear::signal_noise;

/// Signals, and when they are looked at.
#[derive(Debug)]
pub(super) struct Signals {
    /// The next time.
    pub(super) at: Timestamp,
    /// By link: strength in dBm, where there is one.
    dbm: Vec<Option<f64>>,
    /// By route, where it has a threshold.
    of_routes: Vec<Option<WeakSignal>>,
    /// Noise of samples.
    rng: ChaCha8Rng,
}

impl Signals {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let routes = scenario.routes.iter();
        let of_route = |route: &Route| route.weak_below_dbm.map(|_| WeakSignal::default());
        Self {
            at: Timestamp::ZERO,
            dbm: vec![None; scenario.links.len()],
            of_routes: routes.map(of_route).collect(),
            rng: ChaCha8Rng::seed_from_u64(scenario.seed),
        }
    }

    /// The strength of the signal of a link changes.
    pub(super) fn set(&mut self, link: usize, dbm: f64) {
        self.dbm[link] = Some(dbm);
    }

    /// Takes a sample of each signal that has a threshold; `clock` is the primary's.
    pub(super) fn sample(&mut self, clock: Timestamp, routes: &[Route]) {
        for (route, signal) in routes.iter().zip(&mut self.of_routes) {
            if let (Some(threshold), Some(signal)) = (route.weak_below_dbm, signal)
                && let Some(dbm) = route.links.first().and_then(|link| self.dbm[*link])
            {
                let sample = (dbm + signal_noise(&mut self.rng)).round() as i16;
                signal.handle_look(clock, Some((clock, sample)), threshold);
            }
        }
    }

    /// Whether all that have a threshold are weak: a good one of the same cost suffices.
    pub(super) fn are_weak(&self) -> bool {
        let mut of_routes = self.of_routes.iter().flatten().peekable();
        of_routes.peek().is_some() && of_routes.all(WeakSignal::is_weak)
    }
}
