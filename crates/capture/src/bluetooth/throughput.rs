//! Throughput in bins of 200 ms and blackouts, as in Figure 5 of "Understanding the Networking
//! Performance of Wear OS".

use std::collections::BTreeMap;

use serde::Serialize;

/// Width of a bin ("Understanding the Networking Performance of Wear OS", section 3.3).
pub(super) const BIN_S: f64 = 0.2;
/// Longest blackout, in bins; after a longer pause there was nothing to send, and the transfer
/// ended. Blackouts of Sniff last about a second, those of lost contact somewhat longer.
const PAUSE_BINS: i64 = 15;
/// Shortest transfer, in bins, for which blackouts are counted.
const SHORTEST_BINS: i64 = 10;
/// Lowest payload rate of a bulk transfer, in bytes a second: pauses of slower ones are no
/// blackouts.
const BULK_BYTES_PER_S: f64 = 2000.0;

/// ACL payload bytes by bin.
#[derive(Debug, Clone, Default)]
pub(super) struct Bins(BTreeMap<i64, u64>);

impl Bins {
    pub(super) fn add(&mut self, at_s: f64, bytes: u16) {
        let bin = (at_s / BIN_S).floor() as i64;
        *self.0.entry(bin).or_default() += u64::from(bytes);
    }

    pub(super) fn rates_kbps(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.0
            .iter()
            .map(|(bin, bytes)| (*bin as f64 * BIN_S, *bytes as f64 * 8.0 / BIN_S / 1e3))
    }

    /// Runs of bins without long pauses: first bin, last bin, bytes.
    fn transfers(&self) -> Vec<(i64, i64, u64)> {
        let mut all: Vec<(i64, i64, u64)> = Vec::new();
        for (bin, bytes) in &self.0 {
            match all.last_mut() {
                Some((_, last, sum)) if bin - *last <= PAUSE_BINS => {
                    *last = *bin;
                    *sum += bytes;
                }
                _ => all.push((*bin, *bin, *bytes)),
            }
        }
        all.retain(|(first, last, sum)| {
            let bins = last - first + 1;
            bins >= SHORTEST_BINS && *sum as f64 / (bins as f64 * BIN_S) >= BULK_BYTES_PER_S
        });
        all
    }

    pub(super) fn summary(&self, direction: Direction) -> Option<Throughput> {
        let bytes: u64 = self.0.values().sum();
        let transfers = self.transfers();
        if transfers.is_empty() {
            return (bytes > 0).then(|| Throughput {
                direction,
                bytes,
                transfer_s: 0.0,
                mean_kbps: None,
                blackouts: Blackouts::default(),
            });
        }
        let mut total = 0;
        let (mut carried, mut empty) = (0, 0);
        let mut gaps = Vec::new();
        for (first, last, sum) in &transfers {
            total += last - first + 1;
            carried += sum;
            let mut before = *first;
            for (bin, _) in self.0.range(*first..=*last) {
                let gap = bin - before - 1;
                if gap > 0 {
                    empty += gap;
                    gaps.push(gap as f64 * BIN_S);
                }
                before = *bin;
            }
        }
        let seconds = total as f64 * BIN_S;
        Some(Throughput {
            direction,
            bytes,
            transfer_s: round(seconds),
            mean_kbps: Some(round(carried as f64 * 8.0 / seconds / 1e3)),
            blackouts: Blackouts {
                // A single empty bin may result from the bins' alignment.
                count: gaps.iter().filter(|s| **s > BIN_S * 1.5).count(),
                longest_s: round(gaps.iter().copied().fold(0.0, f64::max)),
                empty_bin_share: round(empty as f64 / total as f64),
            },
        })
    }
}

fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// Direction of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Sent by the device that wrote the log.
    Sent,
    /// Received by it.
    Received,
}

/// Traffic in one direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Throughput {
    /// Direction.
    pub direction: Direction,
    /// Total ACL payload, in bytes.
    pub bytes: u64,
    /// Total length of transfers, in seconds: at least 2 s with at least 2 kB/s and no pause over 3
    /// s.
    pub transfer_s: f64,
    /// Mean rate during transfers; `None` without transfers.
    pub mean_kbps: Option<f64>,
    /// Blackouts during transfers.
    pub blackouts: Blackouts,
}

/// Periods without a byte during transfers, in bins of 200 ms.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Blackouts {
    /// Number of blackouts of at least two bins.
    pub count: usize,
    /// Longest blackout, in seconds.
    pub longest_s: f64,
    /// Empty bins as a share of the transfers' bins.
    pub empty_bin_share: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 s at 10 kB each 100 ms, nothing from 5.0 to 6.0 s; then a lone packet after a minute.
    #[test]
    fn a_blackout_is_found_and_a_pause_is_none() {
        let mut bins = Bins::default();
        for i in 0..100 {
            if !(50..60).contains(&i) {
                bins.add(f64::from(i) * 0.1 + 0.05, 10_000);
            }
        }
        bins.add(70.0, 10);
        let summary = bins.summary(Direction::Received).unwrap();
        assert_eq!(summary.bytes, 900_010);
        assert_eq!(summary.transfer_s, 10.0);
        assert_eq!(summary.mean_kbps, Some(720.0));
        assert_eq!(summary.blackouts.count, 1);
        assert_eq!(summary.blackouts.longest_s, 1.0);
        assert_eq!(summary.blackouts.empty_bin_share, 0.1);
    }
}
