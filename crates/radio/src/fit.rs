//! Linear fits of measured power, for profiles.

/// Linear power model: P = slope · rate + intercept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Slope in mW per Mbit/s, which is nJ per bit.
    pub slope: f64,
    /// Power without traffic, in mW.
    pub intercept: f64,
}

impl Line {
    /// Weighted least squares through (rate in Mbit/s, power in mW). Weights are the inverse square
    /// of the power, so that relative errors count. `None` when the points do not determine a line.
    pub fn through(points: &[(f64, f64)]) -> Option<Self> {
        let (mut w, mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(rate, power) in points {
            if !(rate.is_finite() && power.is_finite() && power > 0.0) {
                return None;
            }
            let weight = 1.0 / (power * power);
            w += weight;
            x += weight * rate;
            y += weight * power;
            xx += weight * rate * rate;
            xy += weight * rate * power;
        }
        let spread = w * xx - x * x;
        if spread <= f64::EPSILON * w * xx {
            return None;
        }
        let slope = (w * xy - x * y) / spread;
        Some(Self {
            slope,
            intercept: (y - slope * x) / w,
        })
    }

    /// Power, in mW, at `rate` Mbit/s.
    pub fn at(&self, rate: f64) -> f64 {
        self.slope * rate + self.intercept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_a_point_is_none() {
        let points: Vec<(f64, f64)> = (0..9)
            .map(|i| (f64::from(i), 7.0 * f64::from(i) + 40.0))
            .collect();
        let line = Line::through(&points).unwrap();
        assert!((line.slope - 7.0).abs() < 1e-9 && (line.intercept - 40.0).abs() < 1e-9);
        assert_eq!(Line::through(&[(1.0, 5.0), (1.0, 6.0)]), None);
        assert_eq!(Line::through(&[]), None);
        assert_eq!(Line::through(&[(1.0, 0.0), (2.0, 1.0)]), None);
    }
}
