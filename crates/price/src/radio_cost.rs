//! A radio's energy in a few numbers.

use std::time::Duration;

/// A radio's energy in a few numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RadioCost {
    /// Time until a sleeping radio carries data.
    pub promotion: Duration,
    /// Energy of that, in J.
    pub promotion_joules: f64,
    /// Power while data passes, without the part that grows with the rate, in W.
    pub active_watts: f64,
    /// Energy of a bit besides, in J.
    pub joules_per_bit: f64,
    /// Time from the last packet until the radio sleeps, where the tail has one power. A tail whose
    /// power falls counts as an even one with the same energy, spent at the same mean time: the
    /// 15.0 s of `5g-sa-2020`, of which 4.8 are in `RRC_INACTIVE`, count as 10.9.
    pub tail: Duration,
    /// Energy of a whole tail, in J.
    pub tail_joules: f64,
}

impl RadioCost {
    /// Energy of one more activity of a radio whose last packet passed `quiet` ago, beyond that of
    /// the activity itself, in J: its tail begins anew, and a radio that sleeps has a promotion.
    pub fn wake_joules(&self, quiet: Duration) -> f64 {
        if quiet >= self.tail {
            return self.promotion_joules + self.tail_joules;
        }
        self.tail_joules * quiet.as_secs_f64() / self.tail.as_secs_f64()
    }

    /// Time until it carries data, if its last packet passed `quiet` ago.
    pub fn wake_time(&self, quiet: Duration) -> Duration {
        match quiet >= self.tail {
            true => self.promotion,
            false => Duration::ZERO,
        }
    }
}
