//! Axes: ranges, tick distances and tick labels.

use crate::text::text_width;

/// Tick distance of an axis: 1, 2 or 5 times a power of ten, not below `least`.
pub fn nice_step(least: f64) -> f64 {
    let least = least.max(1e-9);
    let ten = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|n| n * ten)
        .find(|step| *step >= least * 0.999)
        .unwrap_or(ten * 10.0)
}

/// Range of one axis, with its ticks.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Quantity, with its unit.
    pub label: String,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    scale: Scale,
}

#[derive(Debug, Clone, Copy)]
enum Scale {
    /// Linear, with this tick distance.
    Linear(f64),
    /// Logarithmic, with ticks at powers of ten, and between them where these are few.
    Logarithmic,
}

impl Axis {
    /// An axis from tick to tick that covers all of `values`, with about `ticks` ticks. It begins
    /// at zero with `from_zero`, or when the values extend close to zero.
    pub fn covering(
        label: &str,
        values: impl IntoIterator<Item = f64>,
        from_zero: bool,
        ticks: f64,
    ) -> Self {
        let (mut low, mut high, mut counts) = (f64::INFINITY, f64::NEG_INFINITY, true);
        for v in values.into_iter().filter(|v| v.is_finite()) {
            (low, high) = (low.min(v), high.max(v));
            counts &= v.fract() == 0.0;
        }
        if low > high {
            counts = false;
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
        // Counts have no ticks between them.
        let least = if counts { 1.0 } else { 0.0 };
        let step = nice_step((high - low) / ticks).max(least);
        Self {
            label: label.to_owned(),
            low: (low / step + 1e-9).floor() * step,
            high: (high / step - 1e-9).ceil() * step,
            scale: Scale::Linear(step),
        }
    }

    /// An axis with exactly these ends and about `ticks` ticks in between, such as a run's time. An
    /// empty range is widened.
    pub fn exact(label: &str, low: f64, high: f64, ticks: f64) -> Self {
        let high = high.max(low + low.abs().max(1.0) * 1e-3);
        Self {
            label: label.to_owned(),
            low,
            high,
            scale: Scale::Linear(nice_step((high - low) / ticks)),
        }
    }

    /// A logarithmic axis from 1 to `high`, with ticks at powers of ten, and at 2 and 5 times these
    /// where there are few.
    pub fn logarithmic(label: &str, high: f64) -> Self {
        Self {
            label: label.to_owned(),
            low: 1.0,
            high: high.max(10.0),
            scale: Scale::Logarithmic,
        }
    }

    /// Position of `value` from 0 (low) to 1 (high), at most 5 % beyond the ends.
    pub fn share(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear(_) => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => value.max(1.0).log10() / self.high.log10(),
        };
        share.clamp(-0.05, 1.05)
    }

    /// Width of the widest label of a tick.
    pub(crate) fn label_width(&self) -> f64 {
        let widths = self.ticks().into_iter().map(|(_, text)| text_width(&text));
        widths.fold(0.0, f64::max)
    }

    /// Values and labels of the ticks.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let Scale::Linear(step) = self.scale else {
            let powers = (0..=self.high.log10() as i32).map(|n| 10_f64.powi(n));
            let multiples: &[f64] = match self.high {
                ..=2_000.0 => &[1.0, 2.0, 5.0],
                _ => &[1.0],
            };
            let values = powers.flat_map(|power| multiples.iter().map(move |m| m * power));
            let shown = values.filter(|v| *v <= self.high * 1.001);
            return shown.map(|v| (v, format!("{v:.0}"))).collect();
        };
        let first = (self.low / step - 1e-6).ceil();
        let count = (self.high / step - first + 1e-6).floor().max(0.0) as usize;
        let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        (0..=count.min(50))
            .map(|i| {
                let value = (first + i as f64) * step;
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

    #[test]
    fn exact_ends_hold_and_ticks_lie_between() {
        let axis = Axis::exact("time", -0.3, 9.1, 8.0);
        assert_eq!((axis.low, axis.high), (-0.3, 9.1));
        let texts: Vec<String> = axis.ticks().into_iter().map(|t| t.1).collect();
        assert_eq!(texts, ["0", "2", "4", "6", "8"]);
        let empty = Axis::exact("time", 0.0, 0.0, 8.0);
        assert!(empty.high > empty.low && empty.ticks().len() >= 2);
    }

    #[test]
    fn powers_of_ten_are_evenly_spaced() {
        let axis = Axis::logarithmic("N", 10_000.0);
        let texts = |axis: &Axis| axis.ticks().into_iter().map(|t| t.1).collect::<Vec<_>>();
        assert_eq!(texts(&axis), ["1", "10", "100", "1000", "10000"]);
        assert_eq!((axis.share(1.0), axis.share(0.0)), (0.0, 0.0));
        assert!((axis.share(10.0) - 1.0 / 4.0).abs() < 1e-12);
        let few = Axis::logarithmic("N", 30.0);
        assert_eq!(texts(&few), ["1", "2", "5", "10", "20"]);
    }

    #[test]
    fn counts_have_no_ticks_between_them() {
        assert_eq!(texts(&[1.0, 2.0], false), ["1", "2"]);
        assert_eq!(texts(&[1.0, 3.0], true), ["0", "1", "2", "3"]);
        assert_eq!(texts(&[1.0, 2.5], true), ["0", "1", "2", "3"]);
    }

    #[test]
    fn steps_are_nice() {
        for (least, step) in [
            (0.7, 1.0),
            (1.0, 1.0),
            (1.1, 2.0),
            (2.0, 2.0),
            (430.0, 500.0),
            (510.0, 1_000.0),
            (0.03, 0.05),
            (0.0, 1e-9),
        ] {
            assert!((nice_step(least) / step - 1.0).abs() < 1e-9, "{least}");
        }
    }
}
