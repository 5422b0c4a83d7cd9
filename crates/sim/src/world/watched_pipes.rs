//! Pipes of which the best one is used: when they are looked at, and their signals.

use std::collections::BTreeMap;

use mpbond_manager::{LinkId, PipeFacts, SIGNAL_EVERY, Signal};
use mpbond_session::SubflowId;
use mpbond_units::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::scenario::Scenario;
use crate::wear::signal_noise;

/// When pipes are looked at, and which of them have a carrier.
#[derive(Debug)]
pub(super) struct WatchedPipes {
    /// The next time.
    pub(super) at: Timestamp,
    /// By route: the end of the time without carrier.
    pub(super) unplugged: Vec<Option<Timestamp>>,
    /// Noise of signals.
    rng: ChaCha8Rng,
    /// Signals of pipes of Bluetooth.
    heard: BTreeMap<LinkId, Heard>,
}

/// The last sample of a signal.
#[derive(Debug)]
struct Heard {
    at: Timestamp,
    signal: Signal,
    /// What had moved on the pipe by then.
    moved: Moved,
}

/// Bytes of a subflow, and the time of its last record.
type Moved = (SubflowId, [u64; 2], u64, Timestamp);

impl WatchedPipes {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self {
            at: Timestamp::ZERO,
            unplugged: vec![None; scenario.routes.len()],
            rng: ChaCha8Rng::seed_from_u64(scenario.seed),
            heard: BTreeMap::new(),
        }
    }

    /// The last sample of a pipe's signal, whose strength is this now. As `mpbond bluetooth` does
    /// it, samples are taken while something moves on the pipe.
    pub(super) fn signal(
        &mut self,
        now: Timestamp,
        pipe: &PipeFacts,
        dbm: f64,
    ) -> (Timestamp, Signal) {
        let moved = (pipe.subflow, pipe.bytes, pipe.octets, pipe.heard);
        let last = self.heard.get(&pipe.link);
        let last = last.filter(|last| last.moved == moved || now.since(last.at) < SIGNAL_EVERY);
        if let Some(last) = last {
            return (last.at, last.signal);
        }
        let signal = Signal::Bluetooth((dbm + signal_noise(&mut self.rng)).round() as i16);
        let heard = Heard {
            at: now,
            signal,
            moved,
        };
        self.heard.insert(pipe.link, heard);
        (now, signal)
    }
}
