//! Comparisons of an ablation, and the sets of mechanisms that they leave out.

use mpbond_sim::world::{Mechanism, Mechanisms};

/// A mechanism and two configurations that differ by it: numbers of [`Plan::configurations`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Comparison {
    pub mechanism: Mechanism,
    /// Whether all other mechanisms are left out in both.
    pub alone: bool,
    pub with: usize,
    pub without: usize,
}

/// All comparisons.
#[derive(Debug)]
pub(super) struct Plan {
    /// Mechanisms that each configuration leaves out. The first one leaves out none.
    pub configurations: Vec<Mechanisms>,
    pub comparisons: Vec<Comparison>,
}

impl Plan {
    /// Each of these mechanisms left out of all, and each added to none. A mechanism that is part
    /// of another one is added to that.
    pub fn new(mechanisms: &[Mechanism]) -> Self {
        let mut plan = Self {
            configurations: vec![Mechanisms::default()],
            comparisons: Vec::new(),
        };
        for alone in [false, true] {
            for &mechanism in mechanisms {
                let kept = |m: &Mechanism| alone && Some(*m) != mechanism.part_of();
                let others = Mechanism::ALL.into_iter().filter(|m| *m != mechanism);
                let left_out: Mechanisms = others.filter(kept).collect();
                let mut without = left_out;
                without.insert(mechanism);
                let (with, without) = (plan.number(left_out), plan.number(without));
                plan.comparisons.push(Comparison {
                    mechanism,
                    alone,
                    with,
                    without,
                });
            }
        }
        plan
    }

    fn number(&mut self, left_out: Mechanisms) -> usize {
        let known = self.configurations.iter().position(|c| *c == left_out);
        known.unwrap_or_else(|| {
            self.configurations.push(left_out);
            self.configurations.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_of_a_comparison_differ_by_its_mechanism() {
        let plan = Plan::new(&Mechanism::ALL);
        assert_eq!(plan.comparisons.len(), 2 * Mechanism::ALL.len());
        for c in &plan.comparisons {
            let [with, without] = [c.with, c.without].map(|n| plan.configurations[n]);
            for mechanism in Mechanism::ALL {
                let differs = with.contains(mechanism) != without.contains(mechanism);
                assert_eq!(differs, mechanism == c.mechanism, "{c:?}");
            }
            assert!(without.contains(c.mechanism));
            let kept = Mechanism::ALL.len() - with.iter().count();
            let expected = match (c.alone, c.mechanism.part_of()) {
                (false, _) => Mechanism::ALL.len(),
                (true, None) => 1,
                (true, Some(_)) => 2,
            };
            assert_eq!(kept, expected, "{c:?}");
        }
    }
}
