//! Burst losses: the Gilbert–Elliott channel.

use serde::{Deserialize, Serialize};

use super::probability::probability;

/// A channel with a good and a bad state (Gilbert 1960, Elliott 1963). Before
/// each packet it may change its state; then the packet is lost with that
/// state's probability. It begins in the good state.
///
/// ```toml
/// burst_loss = { to_bad = 0.005, to_good = 0.25 }     # bursts of 4 packets on average, 2 % of all
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstLoss {
    /// Probability of a change from good to bad, per packet.
    #[serde(deserialize_with = "probability")]
    pub to_bad: f64,
    /// Probability of a change from bad to good, per packet.
    #[serde(deserialize_with = "probability")]
    pub to_good: f64,
    /// Probability that a packet is lost in the good state.
    #[serde(default, deserialize_with = "probability")]
    pub loss_good: f64,
    /// Probability that a packet is lost in the bad state.
    #[serde(default = "certain", deserialize_with = "probability")]
    pub loss_bad: f64,
}

fn certain() -> f64 {
    1.0
}

impl Default for BurstLoss {
    fn default() -> Self {
        Self::NONE
    }
}

impl BurstLoss {
    /// A channel without losses.
    pub const NONE: Self = Self {
        to_bad: 0.0,
        to_good: 1.0,
        loss_good: 0.0,
        loss_bad: 1.0,
    };

    /// Whether it has no losses.
    pub fn is_none(&self) -> bool {
        self.loss_good == 0.0 && (self.to_bad == 0.0 || self.loss_bad == 0.0)
    }

    /// Long-term share of packets lost.
    pub fn mean_loss(&self) -> f64 {
        let changes = self.to_bad + self.to_good;
        // A channel that never changes its state stays in the good one.
        let bad = if changes > 0.0 {
            self.to_bad / changes
        } else {
            0.0
        };
        bad * self.loss_bad + (1.0 - bad) * self.loss_good
    }

    /// Mean length of a stay in the bad state, in packets; infinite if it is never left.
    pub fn mean_burst_packets(&self) -> f64 {
        1.0 / self.to_good
    }
}

/// State of a channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Channel {
    parameters: BurstLoss,
    bad: bool,
}

impl Channel {
    /// In the good state.
    pub(super) fn new(parameters: BurstLoss) -> Self {
        Self {
            parameters,
            bad: false,
        }
    }

    /// Whether the next packet is lost. `draw` returns numbers uniformly distributed in [0, 1), and
    /// is not called for a channel without losses, so that other random numbers of the link do not
    /// depend on it.
    pub(super) fn loses(&mut self, mut draw: impl FnMut() -> f64) -> bool {
        if self.parameters.is_none() {
            return false;
        }
        let p = self.parameters;
        let change = if self.bad { p.to_good } else { p.to_bad };
        if draw() < change {
            self.bad = !self.bad;
        }
        let loss = if self.bad { p.loss_bad } else { p.loss_good };
        draw() < loss
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::*;

    /// Losses of `packets` packets in a row.
    fn fates(parameters: BurstLoss, packets: usize) -> Vec<bool> {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut channel = Channel::new(parameters);
        let mut draw = || (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        (0..packets).map(|_| channel.loses(&mut draw)).collect()
    }

    fn bursts(fates: &[bool]) -> Vec<usize> {
        fates
            .chunk_by(|a, b| a == b)
            .filter(|run| run[0])
            .map(<[bool]>::len)
            .collect()
    }

    #[test]
    fn losses_come_as_often_and_last_as_long_as_they_should() {
        let parameters = BurstLoss {
            to_bad: 0.005,
            to_good: 0.25,
            ..BurstLoss::NONE
        };
        // 0.005 / 0.255
        assert!((parameters.mean_loss() - 0.019_608).abs() < 1e-6);
        let fates = fates(parameters, 1_000_000);
        let share = fates.iter().filter(|lost| **lost).count() as f64 / 1e6;
        assert!(
            (share / parameters.mean_loss() - 1.0).abs() < 0.04,
            "{share}"
        );
        let bursts = bursts(&fates);
        let mean = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
        assert!(
            (mean / parameters.mean_burst_packets() - 1.0).abs() < 0.04,
            "{mean}"
        );
        // Geometric: a burst of one packet as often as the state is left at once.
        let single = bursts.iter().filter(|b| **b == 1).count() as f64 / bursts.len() as f64;
        assert!((single - 0.25).abs() < 0.02, "{single}");
    }

    #[test]
    fn both_states_have_their_own_losses() {
        let parameters = BurstLoss {
            to_bad: 0.1,
            to_good: 0.3,
            loss_good: 0.01,
            loss_bad: 0.5,
        };
        let want = 0.25 * 0.5 + 0.75 * 0.01;
        assert!((parameters.mean_loss() - want).abs() < 1e-12);
        let fates = fates(parameters, 1_000_000);
        let share = fates.iter().filter(|lost| **lost).count() as f64 / 1e6;
        assert!((share / want - 1.0).abs() < 0.03, "{share}");
    }

    #[test]
    fn a_channel_that_loses_nothing_draws_nothing() {
        let mut channel = Channel::new(BurstLoss::NONE);
        assert!(!channel.loses(|| unreachable!("drawn")));
        let stuck = BurstLoss {
            to_bad: 0.0,
            to_good: 0.0,
            ..BurstLoss::NONE
        };
        assert!(stuck.is_none());
        assert_eq!(stuck.mean_loss(), 0.0);
    }
}
