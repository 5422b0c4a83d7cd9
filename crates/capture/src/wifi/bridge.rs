//! Clock relation by the nearest reference frame ("Toward Accurate Network Delay Measurement on
//! Android Phones", section 3.2).

/// Time by clock A from the closest frame before it that both sniffers captured.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bridge {
    /// Times of common frames by clocks B and A, in the order of B.
    frames: Vec<(f64, f64)>,
    /// Skew of B relative to A that is taken into account; zero in equation 5.
    skew: f64,
}

impl Bridge {
    /// A relation by common frames, given as A's time and B minus A; `None` without any.
    pub(super) fn of(frames: &[(f64, f64)], skew: f64) -> Option<Self> {
        let mut frames: Vec<(f64, f64)> = frames.iter().map(|(a, d)| (a + d, *a)).collect();
        frames.sort_by(|p, q| p.0.total_cmp(&q.0));
        (!frames.is_empty()).then_some(Self { frames, skew })
    }

    /// Time of A when B shows `b_ns`. Before the first common frame, that one counts.
    pub(super) fn to_a(&self, b_ns: f64) -> f64 {
        let after = self.frames.partition_point(|(b, _)| *b <= b_ns);
        match self.frames.get(after.saturating_sub(1)) {
            Some((b, a)) => a + (b_ns - b) / (1.0 + self.skew),
            None => b_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clock B is 1 µs ahead and 100 ppm fast: 50 ms after a beacon, equation 5 is 5 µs off, and
    /// equation 4 exact.
    #[test]
    fn equations_by_hand() {
        let frames: Vec<(f64, f64)> = (0..3)
            .map(|i| f64::from(i) * 100e6)
            .map(|a| (a, 1e3 + a * 100e-6))
            .collect();
        let b = |a: f64| a + 1e3 + a * 100e-6;
        let simple = Bridge::of(&frames, 0.0).unwrap();
        let skewed = Bridge::of(&frames, 100e-6).unwrap();
        for a in [50e6, 150e6, 250e6] {
            assert!((simple.to_a(b(a)) - a - 5e3).abs() < 1.0);
            assert!((skewed.to_a(b(a)) - a).abs() < 1.0);
        }
        assert!(
            (skewed.to_a(b(-50e6)) + 50e6).abs() < 1.0,
            "before the first"
        );
        assert_eq!(Bridge::of(&[], 0.0), None);
    }
}
