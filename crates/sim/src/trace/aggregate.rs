//! Joint throughput of several recorded links, as in Figure 1 of the MPBond paper: distributions of
//! single links and of every combination, with throughputs added.

use std::time::Duration;

use mpbond_statistics::Sample;
use serde::Serialize;

use crate::ideal::Capacity;

/// A recorded link, by name.
#[derive(Debug, Clone)]
pub struct Recording {
    /// Name in results.
    pub name: String,
    /// Its rate over time.
    pub capacity: Capacity,
}

/// Throughput over bins of time, in Mbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Distribution {
    /// Mean.
    pub mean: f64,
    /// 5th percentile.
    pub p5: f64,
    /// First quartile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// Third quartile.
    pub p75: f64,
    /// 95th percentile.
    pub p95: f64,
}

/// A combination of links.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Combination {
    /// Their names.
    pub links: Vec<String>,
    /// Their throughputs added, in Mbit/s.
    pub throughput_mbps: Distribution,
    /// Gain of their mean over that of the best of them, in percent; `None` for a single link.
    pub least_gain_percent: Option<f64>,
    /// Gain of their mean over that of the worst of them, in percent; `None` for a single link.
    pub most_gain_percent: Option<f64>,
}

/// Every combination of up to `most` of the recordings, single ones first,
/// over `length` from `offset` on, in bins of `bin`.
pub fn combinations(
    recordings: &[Recording],
    offset: Duration,
    length: Duration,
    bin: Duration,
    most: usize,
) -> Vec<Combination> {
    let bins: Vec<Vec<f64>> = recordings
        .iter()
        .map(|r| throughput_mbps(&r.capacity, offset, length, bin))
        .collect();
    let mut all = Vec::new();
    for size in 1..=most.min(recordings.len()) {
        let mut chosen: Vec<usize> = (0..size).collect();
        loop {
            all.push(combination(recordings, &bins, &chosen));
            if !next_choice(&mut chosen, recordings.len()) {
                break;
            }
        }
    }
    all
}

/// Throughput of a link in each bin, in Mbit/s.
pub fn throughput_mbps(
    capacity: &Capacity,
    offset: Duration,
    length: Duration,
    bin: Duration,
) -> Vec<f64> {
    let seconds = bin.as_secs_f64();
    if seconds <= 0.0 {
        return Vec::new();
    }
    let count = (length.as_secs_f64() / seconds).floor() as u32;
    (0..count)
        .map(|i| {
            let from = offset + bin * i;
            capacity.bits_between(from, from + bin) / seconds / 1e6
        })
        .collect()
}

impl Distribution {
    /// The distribution of `values`; zeros without values.
    pub fn of(values: Vec<f64>) -> Self {
        let sample = Sample::new(values);
        let at = |share: f64| sample.quantile(share).unwrap_or(0.0);
        Self {
            mean: sample.mean().unwrap_or(0.0),
            p5: at(0.05),
            p25: at(0.25),
            p50: at(0.5),
            p75: at(0.75),
            p95: at(0.95),
        }
    }
}

fn combination(recordings: &[Recording], bins: &[Vec<f64>], chosen: &[usize]) -> Combination {
    let of = |i: &usize| bins.get(*i).map_or(&[] as &[f64], Vec::as_slice);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let mut together: Vec<f64> = Vec::new();
    for i in chosen {
        together.resize(of(i).len(), 0.0);
        for (sum, value) in together.iter_mut().zip(of(i)) {
            *sum += value;
        }
    }
    let throughput_mbps = Distribution::of(together);
    let gain = |alone: f64| (throughput_mbps.mean / alone - 1.0) * 100.0;
    let alone: Vec<f64> = chosen.iter().map(|i| mean(of(i))).collect();
    let several = alone.len() > 1;
    let best = alone.iter().copied().fold(0.0, f64::max);
    let worst = alone.iter().copied().fold(f64::INFINITY, f64::min);
    Combination {
        links: chosen
            .iter()
            .filter_map(|i| Some(recordings.get(*i)?.name.clone()))
            .collect(),
        throughput_mbps,
        least_gain_percent: (several && best > 0.0).then(|| gain(best)),
        most_gain_percent: (several && worst > 0.0).then(|| gain(worst)),
    }
}

/// The next choice of as many out of `n`, in lexical order; `false` after the last.
fn next_choice(chosen: &mut [usize], n: usize) -> bool {
    let size = chosen.len();
    for place in (0..size).rev() {
        if chosen[place] + (size - place) < n {
            chosen[place] += 1;
            for later in place + 1..size {
                chosen[later] = chosen[later - 1] + 1;
            }
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use mpbond_units::BitRate;

    use super::*;

    fn steps(name: &str, mbps: &[f64]) -> Recording {
        let steps: Vec<(Duration, BitRate)> = mbps
            .iter()
            .zip(0..)
            .map(|(rate, s)| (Duration::from_secs(s), BitRate::from_mbps(*rate)))
            .collect();
        Recording {
            name: name.into(),
            capacity: Capacity::schedule(&steps),
        }
    }

    #[test]
    fn sums_and_gains_by_hand() {
        let (a, b) = (steps("a", &[1.0, 3.0]), steps("b", &[4.0, 0.0]));
        let c = steps("c", &[2.0, 2.0]);
        let second = Duration::from_secs(1);
        let all = combinations(&[a, b, c], Duration::ZERO, second * 2, second, 3);
        let names: Vec<String> = all.iter().map(|c| c.links.concat()).collect();
        assert_eq!(names, ["a", "b", "c", "ab", "ac", "bc", "abc"]);
        let ab = &all[3];
        assert_eq!(ab.throughput_mbps.mean, 4.0); // 5 and 3
        let five_percent = 0.05 * (5.0 - 3.0);
        assert_eq!(ab.throughput_mbps.p5, 3.0 + five_percent);
        assert!((ab.throughput_mbps.p95 - (5.0 - five_percent)).abs() < 1e-12);
        assert_eq!(ab.least_gain_percent, Some(100.0)); // beside 2 and 2
        let abc = &all[6];
        assert_eq!(abc.throughput_mbps.mean, 6.0);
        assert_eq!(abc.most_gain_percent, Some(200.0));
        assert_eq!(all[0].least_gain_percent, None);
    }

    #[test]
    fn bins_cut_steps() {
        let a = steps("a", &[8.0, 2.0]);
        let half = Duration::from_millis(500);
        let bins = throughput_mbps(&a.capacity, half, half * 3, half * 2);
        assert_eq!(
            bins,
            [5.0],
            "half a second of each, and what is no whole bin is left out"
        );
    }
}
