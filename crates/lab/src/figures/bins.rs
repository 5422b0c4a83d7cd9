//! Throughput over short bins, as in MPBond, Figure 15.

use mpbond_statistics::Sample;

/// Length of a bin, in seconds.
pub(crate) const BIN_S: f64 = 0.1;
/// Minimum number of bins from which a 5th percentile is taken.
const MIN_BINS: usize = 20;

/// Throughput in each whole bin of a transfer of `seconds`, in Mbit/s, from its progress: seconds
/// since the start, and bytes received by then.
pub(crate) fn throughput_mbps(progress: &[(f64, u64)], seconds: f64) -> Vec<f64> {
    // A time just short of a whole bin was only rounded.
    let whole = (seconds / BIN_S + 1e-6).floor();
    if progress.is_empty() || !(1.0..=1e6).contains(&whole) {
        return Vec::new();
    }
    let mut bytes = vec![0; whole as usize];
    let mut before = 0;
    for (at, so_far) in progress {
        let new = so_far.saturating_sub(before);
        before = *so_far;
        if let Some(bin) = bytes.get_mut((at / BIN_S) as usize) {
            *bin += new;
        }
    }
    let mbps = |bytes: u64| bytes as f64 * 8.0 / (BIN_S * 1e6);
    bytes.into_iter().map(mbps).collect()
}

/// The quantile at `share` of the bins; `None` for fewer than [`MIN_BINS`].
pub(crate) fn percentile(bins: Vec<f64>, share: f64) -> Option<f64> {
    (bins.len() >= MIN_BINS).then(|| Sample::new(bins).quantile(share))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_hold_what_came_in_them() {
        let progress = [
            (0.05, 12_500),
            (0.15, 25_000),
            (0.19, 37_500),
            (0.35, 50_000),
        ];
        // 12500 bytes in a bin are 1 Mbit/s; a partial bin at the end is dropped.
        assert_eq!(throughput_mbps(&progress, 0.3), [1.0, 2.0, 0.0]);
        assert_eq!(throughput_mbps(&progress, 0.44), [1.0, 2.0, 0.0, 1.0]);
        assert!(throughput_mbps(&progress, 0.05).is_empty());
        assert!(throughput_mbps(&progress, f64::NAN).is_empty());
        assert!(throughput_mbps(&[], 5.0).is_empty());
    }

    #[test]
    fn percentiles_need_enough_bins() {
        let bins: Vec<f64> = (1..=40).rev().map(f64::from).collect();
        assert_eq!(percentile(bins.clone(), 0.05), Some(2.95));
        assert_eq!(percentile(bins.clone(), 0.5), Some(20.5));
        assert_eq!(percentile(bins[..19].to_vec(), 0.5), None);
    }
}
