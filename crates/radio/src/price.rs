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
use serde::{Deserialize, Serialize};

use crate::cost::RadioCost;

/// Joules that a second is worth in [`EnergyMode::Balanced`]: what the phone of a user who waits
/// draws besides, screen and idle power of a 2020 phone (`docs/energy.md`).
const BALANCED: f64 = 2.35;

/// What a second saved is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnergyMode {
    /// Any number of joules: helpers are always used.
    #[default]
    Fastest,
    /// The energy of the waiting phone itself, 2.35 J.
    Balanced,
    /// Nothing: a helper is woken where that saves energy.
    Saver,
}

impl EnergyMode {
    /// Joules that a second is worth; infinite for [`EnergyMode::Fastest`].
    pub const fn joules_per_second(self) -> f64 {
        match self {
            Self::Fastest => f64::INFINITY,
            Self::Balanced => BALANCED,
            Self::Saver => 0.0,
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, Profiles};

    /// At rest.
    const RESTS: Duration = Duration::from_secs(60);

    /// Rates in Mbit/s of own link, helper's link and pipe.
    fn helper(wwan: &str, [own, hs, pipe]: [f64; 3]) -> PricedHelper {
        let profiles = Profiles::shipped().unwrap();
        let cost = |name, direction| RadioCost::of(profiles.radio(name).unwrap(), direction);
        let link = |rate| PricedLink {
            radio: cost(wwan, Direction::Down),
            rate: BitRate::from_mbps(rate),
        };
        PricedHelper {
            own: link(own),
            helper: link(hs),
            pipe: [
                cost("wifi-s4", Direction::Down),
                cost("wifi-s4", Direction::Up),
            ],
            pipe_rate: BitRate::from_mbps(pipe),
            store_bytes: 4 << 20,
        }
    }

    /// The figures of the design leave out the bound of the helper's store, promotions and tails of
    /// the pipe and, as far as can be told from them, the time of 5G in `RRC_INACTIVE` (4.8 s at
    /// 66 mW).
    fn as_designed(wwan: &str, rates: [f64; 3]) -> PricedHelper {
        let mut helper = PricedHelper {
            store_bytes: u64::MAX,
            ..helper(wwan, rates)
        };
        if wwan == "5g-sa-2020" {
            helper.own.radio.tail_joules -= 4.8 * 0.066;
            helper.helper.radio.tail_joules -= 4.8 * 0.066;
        }
        for end in &mut helper.pipe {
            (end.promotion_joules, end.tail_joules) = (0.0, 0.0);
        }
        helper
    }

    fn near(value: f64, expected: f64, within: f64) {
        let error = (value / expected - 1.0).abs();
        assert!(error <= within, "{value} is not {expected}");
    }

    /// The figures of the design, which has them with two digits.
    #[test]
    fn break_even_sizes_are_those_of_the_design() {
        let figures = [
            ("lte-2012", 39.0, 1.1),
            ("lte-2020-tmobile", 2.0, 0.12),
            ("5g-sa-2020", 22.0, 0.7),
        ];
        for (wwan, slow_pipe, slow_link) in figures {
            for (rates, mb) in [
                ([8.0, 10.0, 5.0], slow_pipe),
                ([2.0, 18.0, 20.0], slow_link),
            ] {
                let helper = as_designed(wwan, rates);
                let size = helper.break_even(BALANCED, RESTS).unwrap();
                near(size as f64 / 1e6, mb, 0.06);
            }
        }
    }

    #[test]
    fn a_burst_at_rest_takes_the_time_and_energy_of_the_design() {
        let figures = [
            ("lte-2012", 15.8, 29.4),
            ("lte-2020-tmobile", 1.4, 2.9),
            ("5g-sa-2020", 7.9, 15.1),
        ];
        for (wwan, alone, with) in figures {
            let helper = as_designed(wwan, [8.0, 10.0, 5.0]);
            near(helper.alone(1_900_000).seconds, 1.90, 0.003);
            near(helper.alone(1_900_000).joules, alone, 0.02);
            near(helper.with_helper(1_900_000, RESTS).seconds, 1.27, 0.003);
            near(helper.with_helper(1_900_000, RESTS).joules, with, 0.02);
        }
    }

    #[test]
    fn at_the_break_even_size_both_ways_cost_the_same_and_beyond_it_the_helper_less() {
        for wwan in ["lte-2012", "lte-2020-tmobile", "5g-sa-2020"] {
            for rates in [[8.0, 10.0, 5.0], [2.0, 18.0, 20.0], [6.0, 6.0, 20.0]] {
                for mode in [EnergyMode::Balanced, EnergyMode::Saver] {
                    for quiet in [Duration::from_secs(1), RESTS] {
                        let helper = helper(wwan, rates);
                        let price = mode.joules_per_second();
                        let cost = |e: Estimate| e.joules + price * e.seconds;
                        let gain = |bytes| {
                            cost(helper.alone(bytes)) - cost(helper.with_helper(bytes, quiet))
                        };
                        match helper.break_even(price, quiet) {
                            Some(size) => {
                                let scale = cost(helper.alone(size));
                                assert!(gain(size).abs() < 1e-3 * scale, "{wwan} {rates:?}");
                                assert!(gain(size / 2) < 0.0);
                                // Small ones of a radio that is awake pay up to the store.
                                let larger = size + size / 10;
                                assert!(gain(larger) > 0.0, "{wwan} {rates:?} {quiet:?}");
                            }
                            None => {
                                for size in [1 << 10, 1 << 20, 22 << 20, 1 << 40] {
                                    assert!(gain(size) < 0.0, "{wwan} {rates:?} {mode:?}");
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// `docs/energy.md` has these sizes.
    #[test]
    fn sizes_in_the_document_are_those_computed() {
        let document = include_str!("../../../docs/energy.md");
        let rates = [[8.0, 10.0, 5.0], [6.0, 6.0, 20.0], [2.0, 18.0, 20.0]];
        let mut missing = Vec::new();
        for wwan in ["lte-2012", "lte-2020-tmobile", "5g-sa-2020"] {
            for mode in [EnergyMode::Balanced, EnergyMode::Saver] {
                let size = |rates| {
                    let size = helper(wwan, rates).break_even(mode.joules_per_second(), RESTS);
                    size.map_or("never".to_owned(), |size| {
                        format!("{:.2}", size as f64 / 1e6)
                    })
                };
                let sizes = rates.map(size).join(" | ");
                let lambda = mode.joules_per_second();
                let row = format!("| `{wwan}` | {lambda} | {sizes} |");
                if !document.contains(&row) {
                    missing.push(row);
                }
            }
        }
        assert!(missing.is_empty(), "{}", missing.join("\n"));
    }

    /// At 8/10/5 a store of 4 MiB is full after 67 Mbit: from then on the helper's radio is up for
    /// as long as at 5 Mbit/s.
    #[test]
    fn a_full_store_keeps_the_radio_of_the_helper_up() {
        let bounded = helper("lte-2012", [8.0, 10.0, 5.0]);
        let endless = PricedHelper {
            store_bytes: u64::MAX,
            ..bounded
        };
        let none = PricedHelper {
            store_bytes: 0,
            ..bounded
        };
        let joules = |h: &PricedHelper, bytes| h.with_helper(bytes, RESTS).joules;
        let watts = bounded.helper.radio.active_watts;
        // 174.5 Mbit, of which the helper carries 67, and 0.26 s before it begins.
        let full = 4 << 20;
        let knee = 22_000_000;
        assert_eq!(joules(&bounded, knee), joules(&endless, knee));
        // 100 Mbit more: 38.5 of them for the helper.
        let more = 13_000_000.0 * 8.0 * 5.0 / 13.0;
        let beyond = joules(&bounded, 35_100_000) - joules(&endless, 35_100_000);
        near(beyond, more * watts * (1.0 / 5e6 - 1.0 / 10e6), 0.02);
        // Without a store the helper's radio waits for the pipe from the first bit on.
        let first = joules(&none, full) - joules(&endless, full);
        let late = bounded.helper.radio.promotion.as_secs_f64() * 8e6;
        let share = (full as f64 * 8.0 - late) * 5.0 / 13.0;
        near(first, share * watts * (1.0 / 5e6 - 1.0 / 10e6), 1e-6);
        assert!(endless.break_even(BALANCED, RESTS).is_some());
        assert_eq!(bounded.break_even(BALANCED, RESTS), None);
        // A faster pipe never waits.
        let fast = helper("lte-2012", [2.0, 18.0, 20.0]);
        let no_store = PricedHelper {
            store_bytes: 0,
            ..fast
        };
        assert_eq!(
            fast.break_even(BALANCED, RESTS),
            no_store.break_even(BALANCED, RESTS)
        );
    }

    #[test]
    fn modes_and_states_are_in_their_order() {
        let helper = helper("lte-2012", [2.0, 18.0, 20.0]);
        let size = |mode: EnergyMode, quiet| helper.break_even(mode.joules_per_second(), quiet);
        assert_eq!(size(EnergyMode::Fastest, RESTS), Some(0));
        let balanced = size(EnergyMode::Balanced, RESTS);
        let saver = size(EnergyMode::Saver, RESTS);
        assert!(balanced < saver, "{balanced:?} {saver:?}");
        // A tail that runs costs only what it is longer.
        let awake = size(EnergyMode::Balanced, Duration::from_secs(1));
        assert!(
            awake < balanced.map(|size| size / 8),
            "{awake:?} {balanced:?}"
        );
        let slow = PricedHelper {
            pipe_rate: BitRate::ZERO,
            ..helper
        };
        assert_eq!(slow.break_even(BALANCED, RESTS), None);
        let none = PricedHelper {
            own: PricedLink {
                rate: BitRate::ZERO,
                ..helper.own
            },
            ..helper
        };
        assert_eq!(none.break_even(0.0, RESTS), Some(0));
    }
}
