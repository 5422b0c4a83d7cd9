//! Parts of the language that no daemon applies yet. A policy with one of them is refused, so that
//! no rule is without effect silently.

use crate::mode::Mode;
use crate::policy::Policy;
use crate::rule::Action;
use crate::treatment::Permission;
use mpbond_toml_text::{FileError, Place};

/// Reason for which a key is refused.
const NOT_YET: &str = "not in force yet: mpbond would not apply it; leave it out";

/// Reason for which `mode` is refused.
const WITHOUT_LINKS: &str =
    "not in force yet: it concerns links with a `radio` or a cost, and no [[link]] has one";

/// Reason for which `cost` is refused.
const BALANCED: &str = "not in force yet: mpbond applies it with mode = \"saver\" only";

impl Policy {
    /// Checks that the daemons apply everything that the policy says.
    ///
    /// # Errors
    /// The first part that is not in force yet, with its place.
    pub fn check_in_force(&self) -> Result<(), FileError> {
        let refused = |place: Place, key: &str| Err(self.wrong(place, key, NOT_YET));
        let has_subject = self.has_radios() || self.has_costs();
        if let Some(place) = self.mode_place.filter(|_| !has_subject) {
            return Err(self.wrong(place, "policy.mode", WITHOUT_LINKS));
        }
        for (action, place, prefix) in self.actions() {
            if let Action::Carry(set) = action
                && set.roaming == Some(Permission::Never)
            {
                return refused(place, &format!("{prefix}.roaming"));
            }
        }
        // No daemon finds that out.
        if let Some(place) = self.rules.iter().find_map(|rule| rule.on_roaming) {
            return refused(place, "rule.roaming");
        }
        let mut links = self.links.values();
        match links.find(|link| link.cost.is_some() && self.mode == Mode::Balanced) {
            Some(link) => Err(self.wrong(link.place, "link.cost", BALANCED)),
            None => Ok(()),
        }
    }

    /// Checks that the policy connects no flow without the proxy.
    ///
    /// # Errors
    /// The first `"direct"`, with its place and `reason`.
    pub fn check_no_direct(&self, reason: &str) -> Result<(), FileError> {
        let direct = |(action, ..): &(&Action, Place, &str)| **action == Action::Direct;
        match self.actions().find(direct) {
            Some((_, place, key)) => Err(self.wrong(place, key, reason)),
            None => Ok(()),
        }
    }

    /// Actions of the default and of the rules, with their places and keys.
    fn actions(&self) -> impl Iterator<Item = (&Action, Place, &'static str)> {
        let default = self.default_place.map(|place| (&self.default, place));
        let default = default.map(|(action, place)| (action, place, "policy.default"));
        let rules = self.rules.iter();
        let rules = rules.map(|rule| (&rule.action, rule.action_place, "rule.set"));
        default.into_iter().chain(rules)
    }

    fn wrong(&self, place: Place, key: &str, problem: &str) -> FileError {
        FileError::at(&self.file, place, key, problem)
    }
}
