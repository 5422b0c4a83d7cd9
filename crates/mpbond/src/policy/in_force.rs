//! The policy in force, with the number of flows that each rule has selected.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use mpbond_policy::{Decision, Device, Flow, Policy};

use crate::status::RuleStatus;

/// A policy in force.
pub struct InForce {
    policy: Arc<Policy>,
    /// Number of flows by index of the rule.
    flows: Vec<Cell<u64>>,
    depends_on_cgroups: bool,
    depends_on_domains: bool,
}

impl InForce {
    /// Puts a policy in force. Rules keep their numbers of flows by their names.
    pub fn new(policy: Arc<Policy>, before: Option<&Self>) -> Self {
        let before: HashMap<&str, u64> = before.map_or_else(HashMap::new, |before| {
            before
                .counts()
                .map(|(name, _, flows)| (name, flows))
                .collect()
        });
        let count = |(name, _)| Cell::new(before.get(name).copied().unwrap_or_default());
        Self {
            flows: policy.rules().map(count).collect(),
            depends_on_cgroups: policy.depends_on_cgroups(),
            depends_on_domains: policy.depends_on_domains(),
            policy,
        }
    }

    /// Whether a rule needs the control group of a flow.
    pub const fn depends_on_cgroups(&self) -> bool {
        self.depends_on_cgroups
    }

    /// Whether a rule before the one that selects a flow may depend on its name.
    pub fn may_depend_on_domain(&self, decision: &Decision<'_>) -> bool {
        self.depends_on_domains && decision.undecided.is_some()
    }

    /// Decides about a flow.
    pub fn decide(&self, flow: &Flow, device: &Device) -> Decision<'_> {
        self.policy.decide(flow, device)
    }

    /// Counts a flow that was decided about.
    pub fn count(&self, decision: &Decision<'_>) {
        let flows = decision.rule.and_then(|rule| self.flows.get(rule.index));
        if let Some(flows) = flows {
            flows.update(|n| n + 1);
        }
    }

    fn counts(&self) -> impl Iterator<Item = (&str, usize, u64)> {
        let rules = self.policy.rules().zip(&self.flows);
        rules.map(|((name, line), flows)| (name, line, flows.get()))
    }

    /// The rules, for a status.
    pub fn status(&self) -> Vec<RuleStatus> {
        let status = |(name, line, flows): (&str, usize, u64)| RuleStatus {
            name: name.to_owned(),
            line,
            flows_total: flows,
        };
        self.counts().map(status).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn policy(names: &[&str]) -> Arc<Policy> {
        let rule = |(name, port)| {
            format!("[[rule]]\nname = \"{name}\"\nport = {port}\nset = \"refuse\"\n")
        };
        let text: String = names.iter().zip(1..).map(rule).collect();
        let policy = Policy::parse(Path::new("policy.toml"), &text, &|_| None);
        Arc::new(policy.unwrap())
    }

    #[test]
    fn a_rule_keeps_its_number_of_flows_when_others_change() {
        let first = InForce::new(policy(&["a", "b"]), None);
        first.flows[0].set(3);
        first.flows[1].set(5);
        let next = InForce::new(policy(&["c", "a"]), Some(&first));
        let counts: Vec<_> = next.counts().collect();
        assert_eq!(counts, [("c", 1, 0), ("a", 5, 3)]);
    }
}
