//! Scales and their ticks.

use mpbond_plot::nice_step;

/// One axis: what it shows, and from where to where.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    pub label: String,
    pub low: f64,
    pub high: f64,
    step: f64,
}

impl Axis {
    /// An axis for all of `values`, with about `ticks` ticks; from 0 where
    /// `from_zero` says so or the values reach down close to it.
    pub fn covering(
        label: &str,
        values: impl IntoIterator<Item = f64>,
        from_zero: bool,
        ticks: f64,
    ) -> Self {
        let finite = values.into_iter().filter(|v| v.is_finite());
        let (mut low, mut high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
            (l.min(v), h.max(v))
        });
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if (from_zero || low < high / 3.0) && low > 0.0 {
            low = 0.0;
        }
        if from_zero && high < 0.0 {
            high = 0.0;
        }
        if high - low < low.abs().max(high.abs()) * 1e-9 || high == low {
            high = low + low.abs().max(1.0) * 0.1;
        }
        let step = nice_step((high - low) / ticks);
        Self {
            label: label.to_owned(),
            low: (low / step + 1e-9).floor() * step,
            high: (high / step - 1e-9).ceil() * step,
            step,
        }
    }

    /// Where `value` lies, from 0 (low) to 1 (high).
    pub fn share(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(-0.05, 1.05)
    }

    /// Values and texts of the ticks.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let count = ((self.high - self.low) / self.step).round() as usize;
        let decimals = (-self.step.log10().floor()).clamp(0.0, 9.0) as usize;
        (0..=count.min(50))
            .map(|i| {
                let value = self.low + i as f64 * self.step;
                let text = format!("{:.decimals$}", value + 0.0);
                // Not "-0".
                let zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
                (value, if zero { "0".to_owned() } else { text })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(values: &[f64], from_zero: bool) -> Vec<String> {
        let axis = Axis::covering("x", values.iter().copied(), from_zero, 4.0);
        axis.ticks().into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn ticks_are_round_and_cover() {
        assert_eq!(texts(&[0.0, 3.7], true), ["0", "1", "2", "3", "4"]);
        assert_eq!(
            texts(&[1.02, 1.09], false),
            ["1.02", "1.04", "1.06", "1.08", "1.10"]
        );
        assert_eq!(texts(&[1.02, 1.09], true), ["0", "0.5", "1.0", "1.5"]);
        assert_eq!(
            texts(&[-30.0, 10.0], true),
            ["-30", "-20", "-10", "0", "10"]
        );
        assert_eq!(texts(&[0.0, 1e6], true), ["0", "500000", "1000000"]);
        // Nothing to show, or nothing but one value, is still an axis.
        assert_eq!(texts(&[], true), ["0", "0.5", "1.0"]);
        assert!(texts(&[5.0], false).len() >= 2);
        assert!(texts(&[f64::NAN, 1.0], true).len() >= 2);
    }
}
