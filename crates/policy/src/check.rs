//! Rules that cannot have an effect: never selected, or never carried.

use crate::condition::Condition;
use crate::policy::Policy;
use crate::rule::{Action, Rule};
use crate::treatment::{Paths, Permission, Treatment};
use mpbond_toml_text::Place;

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
    if let (Action::Carry(set), Some(place)) = (&policy.default, policy.default_place)
        && set.metered == Some(Permission::Never)
        && are_metered(policy, set.paths.as_ref())
    {
        return Err(Wrong {
            place,
            key: "policy.default",
            problem: all_metered(""),
        });
    }
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

fn all_metered(origin: &str) -> String {
    format!("all of its paths are metered, and metered = \"never\"{origin} forbids them")
}

/// Whether paths are named, and each is a link that is metered as the policy states.
fn are_metered(policy: &Policy, paths: Option<&Paths>) -> bool {
    let is_metered = |name: &String| policy.link(name).and_then(|link| link.metered) == Some(true);
    matches!(paths, Some(Paths::Named(names)) if names.iter().all(is_metered))
}

/// The reason for which no path can ever carry a rule's flows.
fn without_path(policy: &Policy, rule: &Rule, set: &Treatment) -> Option<String> {
    let default = match &policy.default {
        Action::Carry(set) => Some(set.as_ref()),
        Action::Direct | Action::Refuse => None,
    };
    // Where the rule sets none, the default's value applies.
    let never = |of: fn(&Treatment) -> Option<Permission>| match (of(set), default.and_then(of)) {
        (Some(Permission::Never), _) => Some(""),
        (None, Some(Permission::Never)) => Some(" of `default`"),
        _ => None,
    };
    let (metered, roaming) = (never(|set| set.metered), never(|set| set.roaming));
    let paths = set.paths.as_ref();
    let paths = paths.or_else(|| default.and_then(|set| set.paths.as_ref()));
    if let Some(origin) = metered
        && are_metered(policy, paths)
    {
        return Some(all_metered(origin));
    }
    // With a delay it waits for another link.
    let delay = set.delay.or_else(|| default.and_then(|set| set.delay));
    if delay.is_some_and(|delay| !delay.is_zero()) {
        return None;
    }
    rule.conditions.iter().find_map(|condition| {
        let key = condition.key();
        let never = match condition {
            Condition::Metered(true) => metered,
            Condition::Roaming(true) => roaming,
            _ => None,
        };
        never.map(|origin| {
            format!(
                "{key} = true and {key} = \"never\"{origin} refuse each flow: write set = \
                 \"refuse\", or a delay"
            )
        })
    })
}
