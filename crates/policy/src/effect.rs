//! Checks of a policy as a whole.

use crate::mode::Mode;
use crate::policy::Policy;
use crate::rule::Action;
use mpbond_toml_text::{FileError, Place};

/// Reason for which `mode` is refused.
const WITHOUT_LINKS: &str =
    "it has no effect: it concerns links with a `radio` or a cost, and no [[link]] has one";

impl Policy {
    /// Whether the mode has an effect: a link has a radio or a cost.
    pub fn mode_has_effect(&self) -> bool {
        self.has_radios() || self.has_costs()
    }

    /// Checks that what the policy says has an effect.
    ///
    /// # Errors
    /// The first part that has none, with its place.
    pub fn check_effect(&self) -> Result<(), FileError> {
        match self.mode_place.filter(|_| !self.mode_has_effect()) {
            Some(place) => Err(self.wrong(place, "policy.mode", WITHOUT_LINKS)),
            None => Ok(()),
        }
    }

    /// What has no effect in this mode, a clause for each. It is no error, since a program may
    /// change the mode.
    pub fn without_effect(&self) -> impl Iterator<Item = String> {
        let mode = self.mode;
        let links = self.links.iter().filter(move |_| mode != Mode::Saver);
        let thresholds = links.filter(|(_, link)| link.weak_below_dbm.is_some());
        thresholds.map(move |(name, _)| {
            let mode = mode.name();
            format!("weak_below of link \"{name}\" has no effect in mode {mode}, but only in saver")
        })
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
