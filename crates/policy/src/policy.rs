//! A policy: validated values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::tz::TimeZone;
use mpbond_price::Radio;

use crate::cap::Cap;
use crate::mode::Mode;
use crate::rule::{Action, Rule};
use crate::treatment::Paths;
use mpbond_toml_text::{FileError, Place};

/// Rules, and properties of links.
#[derive(Clone, Debug)]
pub struct Policy {
    pub(crate) file: PathBuf,
    /// Importance of the cost of links.
    pub mode: Mode,
    /// Where the file has it.
    pub(crate) mode_place: Option<Place>,
    /// Zone of times in rules.
    pub(crate) zone: Option<TimeZone>,
    pub(crate) default: Action,
    /// Where the file has it.
    pub(crate) default_place: Option<Place>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) links: BTreeMap<String, LinkPolicy>,
}

/// Policy of an own link, or of a helper.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkPolicy {
    pub(crate) place: Place,
    /// Cost; unless given, a metered link costs 1 and another one nothing.
    pub cost: Option<u16>,
    /// Whether its data is charged by volume, if the user states it.
    pub metered: Option<bool>,
    /// Its cap.
    pub cap: Option<Cap>,
    /// Level of its device's battery in percent, below which it is not used.
    pub battery_floor: Option<u8>,
    /// Strength of its signal in dBm, below which links of higher cost are used beside it in mode
    /// `saver`.
    pub weak_below_dbm: Option<i16>,
    /// Its radio, by whose energy a helper is woken or not.
    pub radio: Option<&'static Radio>,
}

impl Policy {
    /// The policy of a link, if the file has one.
    pub fn link(&self, name: &str) -> Option<&LinkPolicy> {
        self.links.get(name)
    }

    /// Radio of a link, if the file names one.
    pub fn radio(&self, link: &str) -> Option<&'static Radio> {
        self.links.get(link)?.radio
    }

    /// Whether a link has a cost, is stated to be metered or not, or has a threshold of its signal.
    pub(crate) fn has_costs(&self) -> bool {
        let mut links = self.links.values();
        let has_cost = |link: &LinkPolicy| link.cost.is_some() || link.metered.is_some();
        self.has_thresholds() || links.any(has_cost)
    }

    /// Whether a link has a threshold of its signal.
    pub fn has_thresholds(&self) -> bool {
        self.links
            .values()
            .any(|link| link.weak_below_dbm.is_some())
    }

    /// Whether a link has a cap, or a floor of its device's battery.
    pub fn has_limits(&self) -> bool {
        let mut links = self.links.values();
        links.any(|link| link.cap.is_some() || link.battery_floor.is_some())
    }

    /// Whether the file names the radio of a link.
    pub fn has_radios(&self) -> bool {
        self.links.values().any(|link| link.radio.is_some())
    }

    /// Number of rules.
    pub const fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// Names of the rules with their lines, in the order of the file.
    pub fn rules(&self) -> impl Iterator<Item = (&str, usize)> {
        let rules = self.rules.iter();
        rules.map(|rule| (rule.name.as_str(), rule.place.line))
    }

    /// Whether a rule has a condition on the control group, or on the application that it names.
    pub fn depends_on_cgroups(&self) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.has("app") || rule.has("cgroup"))
    }

    /// Whether a rule has a condition on the level of the battery, or on its charging.
    pub fn depends_on_batteries(&self) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.has("battery") || rule.has("charging"))
    }

    /// Names of the rules with a budget, and the budgets.
    pub fn budgets(&self) -> impl Iterator<Item = (&str, &Cap)> {
        self.rules.iter().filter_map(|rule| match &rule.action {
            Action::Carry(set) => set.budget.as_ref().map(|cap| (rule.name.as_str(), cap)),
            Action::Direct | Action::Refuse => None,
        })
    }

    /// Checks that the links and paths that the policy names exist.
    ///
    /// # Errors
    /// The first name that `known` does not contain, with its place.
    pub fn check_paths(&self, known: &[&str]) -> Result<(), FileError> {
        let wrong = |place, key, name: &str| {
            let problem = format!("no path or helper has the name \"{name}\"");
            FileError::at(&self.file, place, key, &problem)
        };
        let unknown = self
            .links
            .iter()
            .find(|(name, _)| !known.contains(&name.as_str()));
        if let Some((name, link)) = unknown {
            return Err(wrong(link.place, "link.name", name));
        }
        let default = self.default_place.map(|place| (&self.default, place));
        let default = default.map(|(action, place)| (action, place, "policy.default.paths"));
        let rules = self.rules.iter();
        let rules = rules.map(|rule| (&rule.action, rule.action_place, "rule.set.paths"));
        for (action, place, key) in default.into_iter().chain(rules) {
            if let Action::Carry(set) = action
                && let Some(Paths::Named(names)) = &set.paths
                && let Some(name) = names.iter().find(|name| !known.contains(&name.as_str()))
            {
                return Err(wrong(place, key, name));
            }
        }
        Ok(())
    }
}
