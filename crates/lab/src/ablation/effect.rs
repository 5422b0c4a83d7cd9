//! Effects of a mechanism, group by group: what is lost where it is left out.

use mpbond_statistics::Sample;
use serde::Serialize;

use super::measure::Measured;

/// A change counts from this share on.
pub(super) const COUNTS: f64 = 0.01;

/// A pair of worlds counts as slower or faster from this share on.
const MUCH: f64 = 0.1;

/// Mean of a change, with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Mean; 0.02 means 2 % more without the mechanism.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Change {
    fn new(values: Vec<f64>, of: impl Fn(f64) -> f64) -> Option<Self> {
        let sample = Sample::new(values);
        let mean = sample.mean()?;
        // A single pair shows nothing: infinite ends are null in a record.
        let unknown = (f64::NEG_INFINITY, f64::INFINITY);
        let (low, high) = sample.mean_interval().unwrap_or(unknown);
        Some(Self {
            mean: of(mean),
            low: of(low),
            high: of(high),
        })
    }

    /// Without the mechanism there is surely more.
    pub(super) fn is_more(self) -> bool {
        self.mean >= COUNTS && self.low > 0.0
    }

    /// Without the mechanism there is surely less.
    pub(super) fn is_less(self) -> bool {
        self.mean <= -COUNTS && self.high < 0.0
    }
}

/// Effect of a mechanism on a group of worlds.
#[derive(Debug, Clone, Serialize)]
pub struct Effect {
    /// Name of the group.
    pub group: String,
    /// Number of worlds.
    pub worlds: usize,
    /// Worlds that failed with the mechanism, and without it.
    pub failed: [usize; 2],
    /// Change of the time: geometric mean of the ratios of pairs, minus 1.
    pub time: Option<Change>,
    /// Largest ratio of a pair, time without to time with the mechanism, and the world.
    pub worst: Option<(f64, String)>,
    /// Pairs that are slower, and faster, by 10 % and more without it.
    pub much: [usize; 2],
    /// Difference of the shares of bytes that arrive twice.
    pub copies: Option<Change>,
    /// Change of the energy: as for times.
    pub joules: Option<Change>,
    /// Difference of the longest gaps of worlds, as a share of their mean with the mechanism.
    pub gap: Option<Change>,
    /// Gap that 99 % of the worlds do not exceed with the mechanism, and without it, in s.
    pub gap_99_s: Option<[f64; 2]>,
}

/// A world's name, with the results with and without the mechanism.
pub(super) type Pair<'a> = (&'a str, Measured, Measured);

impl Effect {
    pub(super) fn of(group: &str, pairs: &[Pair]) -> Self {
        type Quantity = fn(&Measured) -> Option<f64>;
        let both = |of: Quantity| {
            let both = pairs
                .iter()
                .map(move |(_, with, without)| of(with).zip(of(without)));
            both.flatten().collect::<Vec<_>>()
        };
        let logarithms = |of| {
            let positive = both(of).into_iter().filter(|(a, b)| *a > 0.0 && *b > 0.0);
            positive.map(|(a, b)| (b / a).ln()).collect::<Vec<_>>()
        };
        let ratios = pairs.iter().filter_map(|(name, with, without)| {
            let ratio = without.seconds? / with.seconds?;
            ratio.is_finite().then_some((ratio, *name))
        });
        let many = |test: &dyn Fn(f64) -> bool| ratios.clone().filter(|(r, _)| test(*r)).count();
        let worst = ratios.clone().max_by(|a, b| a.0.total_cmp(&b.0));
        let failed =
            |of: fn(&Pair) -> Option<f64>| pairs.iter().filter(|pair| of(pair).is_none()).count();
        let gaps = both(|m| m.gap_s);
        let mean_gap = Sample::new(gaps.iter().map(|(with, _)| *with).collect()).mean();
        let gap_99 = |gaps: Vec<f64>| Sample::new(gaps).quantile(0.99);
        Self {
            group: group.to_owned(),
            worlds: pairs.len(),
            failed: [failed(|p| p.1.seconds), failed(|p| p.2.seconds)],
            time: Change::new(logarithms(|m| m.seconds), f64::exp_m1),
            worst: worst.map(|(ratio, name)| (ratio, name.to_owned())),
            much: [
                many(&|r| r >= 1.0 + MUCH),
                many(&|r| r <= 1.0 / (1.0 + MUCH)),
            ],
            copies: Change::new(
                both(|m| m.copies).into_iter().map(|(a, b)| b - a).collect(),
                |share| share,
            ),
            joules: Change::new(logarithms(|m| m.joules), f64::exp_m1),
            gap: mean_gap.filter(|mean| *mean > 0.0).and_then(|mean| {
                let more = gaps.iter().map(|(with, without)| without - with);
                Change::new(more.collect(), |difference| difference / mean)
            }),
            gap_99_s: gap_99(gaps.iter().map(|g| g.0).collect())
                .zip(gap_99(gaps.iter().map(|g| g.1).collect()))
                .map(Into::into),
        }
    }

    /// Gains of the mechanism in this group, in words.
    pub(super) fn gains(&self) -> Vec<String> {
        let mut all = self.changes(Change::is_more);
        let [with, without] = self.failed;
        if without > with {
            all.push(format!("{} of {} fail", without - with, self.worlds));
        }
        // About two standard deviations of a difference of counts.
        let [slower, faster] = self.much;
        let deviation = ((slower + faster) as f64).sqrt();
        if slower as f64 - faster as f64 > 2.0 * deviation {
            all.push(format!(
                "{slower} of {} slower by over 10 %, {faster} faster",
                self.worlds
            ));
        }
        self.named(all)
    }

    /// Costs of the mechanism in this group, in words.
    pub(super) fn costs(&self) -> Vec<String> {
        let mut all = self.changes(Change::is_less);
        let [with, without] = self.failed;
        if with > without {
            all.push(format!("{} of {} more end", with - without, self.worlds));
        }
        self.named(all)
    }

    fn named(&self, all: Vec<String>) -> Vec<String> {
        let named = all
            .into_iter()
            .map(|text| format!("{}: {text}", self.group));
        named.collect()
    }

    fn changes(&self, counts: fn(Change) -> bool) -> Vec<String> {
        let quantities = [
            ("time", self.time),
            ("copies", self.copies),
            ("energy", self.joules),
            ("gap", self.gap),
        ];
        let named = quantities.into_iter().filter_map(|(name, change)| {
            let change = change.filter(|change| counts(*change))?;
            Some(format!("{name} {}", percent(change.mean)))
        });
        named.collect()
    }
}

/// A share with its sign, in percent.
pub(super) fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(seconds: f64, copies: f64) -> Measured {
        Measured {
            seconds: Some(seconds),
            copies: Some(copies),
            ..Measured::default()
        }
    }

    #[test]
    fn gains_and_costs_are_told_apart_from_noise() {
        let pairs: Vec<Pair> = (0..40)
            .map(|n| {
                let noise = f64::from(n % 2) * 0.001;
                ("one", measured(1.0, 0.05), measured(1.02 + noise, 0.03))
            })
            .collect();
        let effect = Effect::of("all", &pairs);
        assert_eq!(effect.gains(), ["all: time +2.0 %"]);
        assert_eq!(effect.costs(), ["all: copies -2.0 %"]);
        let noisy: Vec<Pair> = (0..40)
            .map(|n| {
                let factor = if n % 2 == 0 { 1.5 } else { 0.7 };
                ("one", measured(1.0, 0.0), measured(factor, 0.0))
            })
            .collect();
        let effect = Effect::of("all", &noisy);
        assert_eq!((effect.gains(), effect.costs()), (Vec::new(), Vec::new()));
        assert_eq!(effect.much, [20, 20]);
    }

    #[test]
    fn rare_losses_and_failures_count() {
        let mut pairs = vec![("one", measured(1.0, 0.0), measured(0.999, 0.0)); 1_000];
        for pair in pairs.iter_mut().take(6) {
            pair.2.seconds = Some(1.3);
        }
        pairs[7].2.seconds = None;
        let effect = Effect::of("all", &pairs);
        let expected = [
            "all: 1 of 1000 fail",
            "all: 6 of 1000 slower by over 10 %, 0 faster",
        ];
        assert_eq!(effect.gains(), expected);
        assert_eq!(effect.worst, Some((1.3, "one".to_owned())));
    }
}
