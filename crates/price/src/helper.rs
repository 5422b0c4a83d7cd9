//! Price of a helper: its joules against the seconds that it saves.
//!
//! A burst begins at rest. Alone, it takes as long as the own link needs. A helper carries a share
//! of it once its radio is up, at the rate of the slower of its hops. Its own radio runs ahead of a
//! slower pipe until the helper's store is full; from then on it is up for as long as the pipe
//! needs. The radios of the pipe are up for as long as the share lasts. The own radio ends sooner.
//! What is left is a fixed price, promotion and tail of the helper's radios, and a price or gain
//! per bit, which is worse for bits beyond the store. The seconds saved grow with the share, too:
//! there is a least size of a burst for which the helper is worth its joules, or none.

use std::time::Duration;

use mpbond_units::BitRate;

use crate::radio_cost::RadioCost;

/// A link with its radio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PricedLink {
    /// Its radio, in the direction of the transfer.
    pub radio: RadioCost,
    /// Its rate.
    pub rate: BitRate,
}

/// Links of a device and of one helper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PricedHelper {
    /// Own link of the device.
    pub own: PricedLink,
    /// Own link of the helper.
    pub helper: PricedLink,
    /// Radios at both ends of the pipe.
    pub pipe: [RadioCost; 2],
    /// Rate of the pipe.
    pub pipe_rate: BitRate,
    /// Bytes that the helper holds of what its own link brought and the pipe did not take yet; zero
    /// for an upload, where the pipe comes first.
    pub store_bytes: u64,
}

/// Time and energy of a burst, with all tails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Time of the transfer, in seconds. A promotion of the own radio is not included: it is the
    /// same with and without a helper.
    pub seconds: f64,
    /// Energy of all radios that take part, in J.
    pub joules: f64,
}

impl PricedHelper {
    /// Estimate of a burst over the own link alone, from rest.
    pub fn alone(&self, bytes: u64) -> Estimate {
        let (own, bits) = (&self.own.radio, bytes as f64 * 8.0);
        let seconds = bits / self.own_rate();
        Estimate {
            seconds,
            joules: own.wake_joules(Duration::MAX)
                + own.active_watts * seconds
                + own.joules_per_bit * bits,
        }
    }

    /// Estimate of a burst from rest, with a helper whose radio carried its last packet `quiet`
    /// ago.
    pub fn with_helper(&self, bytes: u64, quiet: Duration) -> Estimate {
        let alone = self.alone(bytes);
        let share = self.share(bytes, quiet);
        let seconds = alone.seconds - share / self.own_rate();
        Estimate {
            seconds,
            joules: alone.joules
                + self.wake_joules(quiet)
                + self.joules_per_bit() * share
                + self.stalled_joules_per_bit() * (share - self.ahead_bits()).max(0.0),
        }
    }

    /// Bytes of the smallest burst for which the helper's joules are worth the seconds that it
    /// saves, at this price of a second; `None`: of no burst. It is worth them for all larger ones
    /// as well, unless bits beyond the helper's store cost more than they save.
    pub fn break_even(&self, joules_per_second: f64, quiet: Duration) -> Option<u64> {
        if self.helper_rate() <= 0.0 {
            return None;
        }
        if self.own_rate() <= 0.0 || joules_per_second.is_infinite() {
            return Some(0);
        }
        let gain_per_bit = joules_per_second / self.own_rate() - self.joules_per_bit();
        let share = self.repaid_after(gain_per_bit, self.wake_joules(quiet))?;
        let (own, helper) = (self.own_rate(), self.helper_rate());
        let late = self.helper.radio.wake_time(quiet).as_secs_f64() * own;
        let bits = share * (own + helper) / helper + late;
        Some((bits / 8.0).ceil() as u64)
    }

    /// Bits of a share that gain as much as this price, if bits that the helper's store holds gain
    /// so much each.
    fn repaid_after(&self, gain_per_bit: f64, price: f64) -> Option<f64> {
        if gain_per_bit <= 0.0 {
            return None;
        }
        let (share, ahead) = (price / gain_per_bit, self.ahead_bits());
        if share <= ahead {
            return Some(share);
        }
        let gain_beyond = gain_per_bit - self.stalled_joules_per_bit();
        let left = price - ahead * gain_per_bit;
        (gain_beyond > 0.0).then(|| ahead + left / gain_beyond)
    }

    fn own_rate(&self) -> f64 {
        self.own.rate.bps() as f64
    }

    /// Rate of the slower of the helper's hops.
    fn helper_rate(&self) -> f64 {
        self.helper.rate.min(self.pipe_rate).bps() as f64
    }

    /// Bits that the helper carries until both links end at the same time.
    fn share(&self, bytes: u64, quiet: Duration) -> f64 {
        let late = self.helper.radio.wake_time(quiet).as_secs_f64();
        let (own, helper) = (self.own_rate(), self.helper_rate());
        let left = (bytes as f64 * 8.0 - own * late).max(0.0);
        left * helper / (own + helper)
    }

    /// Price that does not grow with the share. The pipe has slept for as long: its tail is short.
    fn wake_joules(&self, quiet: Duration) -> f64 {
        let radios = [&self.helper.radio, &self.pipe[0], &self.pipe[1]];
        radios.map(|radio| radio.wake_joules(quiet)).iter().sum()
    }

    /// Price of a bit that the helper carries instead of the own link, at the rate of the helper's
    /// link; below zero where the own radio needs more.
    fn joules_per_bit(&self) -> f64 {
        let of_link = |link: &PricedLink| {
            link.radio.active_watts / link.rate.bps() as f64 + link.radio.joules_per_bit
        };
        let of_end = |end: &RadioCost| end.active_watts / self.helper_rate() + end.joules_per_bit;
        of_link(&self.helper) + of_end(&self.pipe[0]) + of_end(&self.pipe[1]) - of_link(&self.own)
    }

    /// What a bit costs besides once the helper's store is full: its radio waits for the pipe.
    fn stalled_joules_per_bit(&self) -> f64 {
        let at = |rate: f64| self.helper.radio.active_watts / rate;
        at(self.helper_rate()) - at(self.helper.rate.bps() as f64)
    }

    /// Bits that the helper's link has brought when the store is full: the pipe has taken the rest.
    fn ahead_bits(&self) -> f64 {
        let (link, pipe) = (self.helper.rate.bps() as f64, self.helper_rate());
        if link <= pipe {
            return f64::INFINITY;
        }
        self.store_bytes as f64 * 8.0 * link / (link - pipe)
    }
}
