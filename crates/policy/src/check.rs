//! Rules that cannot have an effect: never selected, or never carried.

use crate::condition::Condition;
use crate::policy::Policy;
use crate::rule::{Action, Rule};
use crate::source::Place;
use crate::treatment::{Paths, Permission, Treatment};

/// Something wrong with a rule.
pub(crate) struct Wrong {
    pub place: Place,
    pub key: &'static str,
    pub problem: String,
}

/// Finds the first rule that cannot have an effect.
///
/// A rule whose flows are selected by several earlier rules together, and by none of them alone, is
/// not found.
pub(crate) fn check(policy: &Policy) -> Result<(), Wrong> {
    for (index, rule) in policy.rules.iter().enumerate() {
        let mut earlier = policy.rules.iter().take(index);
        if let Some(other) = earlier.find(|other| other.covers(rule)) {
            return Err(Wrong {
                place: rule.place,
                key: "rule",
                problem: format!(
                    "\"{}\" never applies: \"{}\" in line {} selects all of its flows first",
                    rule.name, other.name, other.place.line
                ),
            });
        }
        if let Action::Carry(set) = &rule.action {
            let without_path = without_path(policy, rule, set);
            without_path.map_or(Ok(()), |problem| {
                Err(Wrong {
                    place: rule.action_place,
                    key: "rule.set",
                    problem,
                })
            })?;
        }
    }
    Ok(())
}

/// The reason for which no path can ever carry a rule's flows.
fn without_path(policy: &Policy, rule: &Rule, set: &Treatment) -> Option<String> {
    let default = match &policy.default {
        Action::Carry(set) => Some(set),
        Action::Direct | Action::Refuse => None,
    };
    let metered = set.metered.or_else(|| default.and_then(|set| set.metered));
    let roaming = set.roaming.or_else(|| default.and_then(|set| set.roaming));
    let paths = set
        .paths
        .as_ref()
        .or_else(|| default.and_then(|set| set.paths.as_ref()));
    if metered == Some(Permission::Never)
        && let Some(Paths::Named(names)) = paths
        && names
            .iter()
            .all(|name| policy.link(name).and_then(|link| link.metered) == Some(true))
    {
        let problem = "all of its paths are metered, and metered = \"never\" forbids them";
        return Some(problem.to_owned());
    }
    // With a delay it waits for another link.
    if set
        .delay
        .or_else(|| default.and_then(|set| set.delay))
        .is_some()
    {
        return None;
    }
    rule.conditions.iter().find_map(|condition| {
        let key = condition.key();
        let permission = match condition {
            Condition::Metered(true) => metered,
            Condition::Roaming(true) => roaming,
            _ => None,
        };
        (permission == Some(Permission::Never)).then(|| {
            format!(
                "{key} = true and {key} = \"never\" refuse each flow: write set = \"refuse\", or \
                 a delay"
            )
        })
    })
}
