//! Ratio of two sums.

use crate::Sample;

/// A ratio of two sums over pairs, and its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The ratio.
    pub value: f64,
    /// Its 95 % confidence interval; `None` for fewer than two pairs, or where one pair has the
    /// whole second sum.
    pub interval: Option<(f64, f64)>,
}

/// The sum of the first parts of `pairs`, divided by that of the second parts; `None` where the
/// latter is not positive.
///
/// The mean of the pairs' own ratios would be biased: a second part that is small by chance counts
/// more than one that is large by as much. The interval is that of the jackknife (Quenouille 1956;
/// Tukey 1958): Student's t over the pseudo-values n·r − (n − 1)·rᵢ, where rᵢ is the ratio without
/// pair i.
pub fn ratio_of_sums(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let first: f64 = pairs.iter().map(|(a, _)| a).sum();
    let second: f64 = pairs.iter().map(|(_, b)| b).sum();
    let ratio = |a: f64, b: f64| (b > 0.0).then(|| a / b);
    let value = ratio(first, second)?;
    let n = pairs.len() as f64;
    let pseudo = pairs.iter().map(|(a, b)| {
        let without = ratio(first - a, second - b)?;
        Some(n * value - (n - 1.0) * without)
    });
    let pseudo: Option<Vec<f64>> = pseudo.collect();
    let error = pseudo.and_then(|values| Sample::new(values).margin_of_error());
    Some(Ratio {
        value,
        interval: error.map(|error| (value - error, value + error)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_and_its_interval_by_hand() {
        // 6 of 8; without each pair 5/6, 4/6 and 3/4, so that the pseudo-values are 7/12, 11/12
        // and 9/12: their deviation is 1/6; t(2) = 4.302653.
        let ratio = ratio_of_sums(&[(1.0, 2.0), (2.0, 2.0), (3.0, 4.0)]).unwrap();
        assert!((ratio.value - 0.75).abs() < 1e-12);
        let error = 4.302_653 / 6.0 / 3.0_f64.sqrt();
        let (low, high) = ratio.interval.unwrap();
        assert!((low - (0.75 - error)).abs() < 1e-6, "{low}");
        assert!((high - (0.75 + error)).abs() < 1e-6, "{high}");
    }

    #[test]
    fn a_pair_without_a_second_part_counts_by_its_first() {
        // The mean of ratios would be infinite.
        let ratio = ratio_of_sums(&[(1.0, 0.0), (1.0, 4.0), (2.0, 4.0)]).unwrap();
        assert!((ratio.value - 0.5).abs() < 1e-12);
        assert!(ratio.interval.is_some());
    }

    #[test]
    fn without_a_second_sum_there_is_no_ratio() {
        assert_eq!(ratio_of_sums(&[]), None);
        assert_eq!(ratio_of_sums(&[(1.0, 2.0), (1.0, -2.0)]), None);
        let one = ratio_of_sums(&[(1.0, 2.0)]).unwrap();
        assert_eq!((one.value, one.interval), (0.5, None));
        // All of it is in the first pair.
        let all = ratio_of_sums(&[(1.0, 2.0), (1.0, 0.0)]).unwrap();
        assert_eq!((all.value, all.interval), (1.0, None));
    }
}
