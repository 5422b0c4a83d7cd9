//! Parts of the language that no daemon applies yet. A policy with one of them is refused, so that
//! no rule is without effect silently.

use crate::policy::Policy;
use crate::rule::Action;
use crate::source::{Place, PolicyError};

/// Reason for which a key is refused.
const NOT_YET: &str = "not in force yet: mpbond would not apply it; leave it out";

impl Policy {
    /// Checks that the daemons apply everything that the policy says.
    ///
    /// # Errors
    /// The first part that is not in force yet, with its place.
    pub fn check_in_force(&self) -> Result<(), PolicyError> {
        let refused =
            |place: Place, key: &str| Err(PolicyError::at(&self.file, place, key, NOT_YET));
        if let Some(place) = self.mode_place {
            return refused(place, "policy.mode");
        }
        if let Some(place) = self.default_place {
            return refused(place, "policy.default");
        }
        if let Some(rule) = self.rules.first() {
            return refused(rule.place, "rule");
        }
        match self.links.values().map(|link| link.place).min() {
            Some(place) => refused(place, "link"),
            None => Ok(()),
        }
    }

    /// Checks that the policy connects no flow without the proxy.
    ///
    /// # Errors
    /// The first `"direct"`, with its place and `reason`.
    pub fn check_no_direct(&self, reason: &str) -> Result<(), PolicyError> {
        let default = self.default_place.map(|place| (&self.default, place));
        let default = default.map(|(action, place)| (action, place, "policy.default"));
        let rules = self.rules.iter();
        let rules = rules.map(|rule| (&rule.action, rule.action_place, "rule.set"));
        let mut all = default.into_iter().chain(rules);
        match all.find(|(action, ..)| **action == Action::Direct) {
            Some((_, place, key)) => Err(PolicyError::at(&self.file, place, key, reason)),
            None => Ok(()),
        }
    }
}
