//! The rule of a flow, and the treatment that it sets.

use std::time::Duration;

use serde::Serialize;

use crate::cap::Cap;
use crate::condition::{Situation, all_true, minute_of_week};
use crate::fact::{Answer, Certainty, Fact};
use crate::flow::{Claim, Device, Flow};
use crate::policy::Policy;
use crate::rule::{Action, Rule};
use crate::treatment::{Class, Multipath, Paths, Permission, Treatment};

/// Decision about a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<'p> {
    /// The rule that selects the flow, the first one of the file that does; `None` where the
    /// default applies.
    pub rule: Option<RuleName<'p>>,
    /// Whether the facts of its conditions are known or guessed.
    pub certainty: Certainty,
    /// The first rule before it that might have selected the flow, had its facts been known.
    pub undecided: Option<RuleName<'p>>,
    /// Its outcome.
    pub verdict: Verdict<'p>,
}

/// A rule of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "Rule")
)]
pub struct RuleName<'p> {
    /// Its name.
    pub name: &'p str,
    /// The line at which it begins.
    pub line: usize,
    /// Its index among the rules, from 0.
    pub index: usize,
}

/// Outcome of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'p> {
    /// A session carries it.
    Carry(Carriage<'p>),
    /// It is connected without the proxy.
    Direct,
    /// It is refused.
    Refuse,
}

impl Verdict<'_> {
    /// Whether a flow is treated alike, whatever the origin of its class.
    pub(crate) fn is_as(&self, other: &Verdict<'_>) -> bool {
        match (self, other) {
            (Verdict::Carry(one), Verdict::Carry(other)) => {
                let class_from = other.class_from;
                Carriage {
                    class_from,
                    ..one.clone()
                } == *other
            }
            _ => self == other,
        }
    }
}

/// Treatment of a flow that is carried: the rule's values; where it sets none, those that the
/// application claims, then those of the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carriage<'p> {
    /// Class.
    pub class: Class,
    /// Origin of the class.
    pub class_from: Origin,
    /// Priority among the flows of the class, 0 to 7; a higher one goes first.
    pub priority: u8,
    /// Paths that it may use.
    pub paths: &'p Paths,
    /// Whether it may use metered links.
    pub metered: Permission,
    /// Whether it may use links that roam.
    pub roaming: Permission,
    /// Use of several paths; that of a realtime flow is [`Multipath::Handover`].
    pub multipath: Multipath,
    /// Time for which it waits for a path that it may use; zero: it is refused at once.
    pub delay: Duration,
    /// Budget of the rule, shared by all flows that it selects.
    pub budget: Option<&'p Cap>,
}

impl Carriage<'static> {
    /// That of a flow without a policy.
    pub const UNRESTRICTED: Self = Self {
        class: Class::Bulk,
        class_from: Origin::Default,
        priority: 0,
        paths: &Paths::All,
        metered: Permission::Allowed,
        roaming: Permission::Allowed,
        multipath: Multipath::Aggregate,
        delay: Duration::ZERO,
        budget: None,
    };
}

/// Origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "ClassOrigin")
)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The rule.
    Rule,
    /// The application.
    Claim,
    /// The policy's default, or mpbond's where the policy has none.
    Default,
}

impl Policy {
    /// Decides about a flow: the first rule of the file whose conditions all hold applies, else the
    /// default. A condition on an unknown fact does not hold.
    pub fn decide<'p>(&'p self, flow: &Flow, device: &Device) -> Decision<'p> {
        self.decide_in(&self.situation(flow, device))
    }

    pub(crate) fn situation<'a>(&self, flow: &'a Flow, device: &'a Device) -> Situation<'a> {
        let working = || device.links.iter().filter(|link| link.works);
        Situation {
            flow,
            device,
            metered: all_true(working().map(|link| self.metered(link))),
            roaming: all_true(working().map(|link| link.roaming)),
            minute: match &self.zone {
                Some(zone) => device.now.map(|now| minute_of_week(zone.to_datetime(*now))),
                None => Fact::unknown("the policy has no zone"),
            },
        }
    }

    pub(crate) fn decide_in<'p>(&'p self, situation: &Situation<'_>) -> Decision<'p> {
        let mut undecided = None;
        let mut selected = None;
        for (index, rule) in self.rules.iter().enumerate() {
            match rule.answer(situation) {
                Answer::Fails(_) => {}
                Answer::Unknown => {
                    undecided.get_or_insert_with(|| rule_name(rule, index));
                }
                Answer::Holds(certainty) => {
                    selected = Some((rule, rule_name(rule, index), certainty));
                    break;
                }
            }
        }
        Decision {
            rule: selected.map(|(_, name, _)| name),
            certainty: selected.map_or(Certainty::Known, |(.., certainty)| certainty),
            undecided,
            verdict: self.verdict(selected.map(|(rule, ..)| rule), situation.flow.claim),
        }
    }

    fn verdict<'p>(&'p self, rule: Option<&'p Rule>, claim: Claim) -> Verdict<'p> {
        match rule.map_or(&self.default, |rule| &rule.action) {
            Action::Carry(set) => Verdict::Carry(self.carriage(rule.map(|_| set.as_ref()), claim)),
            Action::Direct => Verdict::Direct,
            Action::Refuse => Verdict::Refuse,
        }
    }

    /// Outcome for the flows of the rule with this index, or of the default, with this claim.
    pub fn outcome(&self, rule: Option<usize>, claim: Claim) -> Verdict<'_> {
        self.decision_of(rule, claim).verdict
    }

    /// The decision of the rule with this index, or the default, about a flow with this claim.
    pub fn decision_of(&self, rule: Option<usize>, claim: Claim) -> Decision<'_> {
        let selected = rule.and_then(|index| Some((self.rules.get(index)?, index)));
        Decision {
            rule: selected.map(|(rule, index)| rule_name(rule, index)),
            certainty: Certainty::Known,
            undecided: None,
            verdict: self.verdict(selected.map(|(rule, _)| rule), claim),
        }
    }

    /// The rules before the one that selects a flow which might select it, if the facts were known
    /// that one of these keys is about. Each has the decision that would be made then.
    pub fn undecided<'p>(
        &'p self,
        flow: &Flow,
        device: &Device,
        keys: &[&str],
    ) -> Vec<Decision<'p>> {
        let situation = self.situation(flow, device);
        let mut undecided = Vec::new();
        for (index, rule) in self.rules.iter().enumerate() {
            match rule.answer(&situation) {
                Answer::Holds(_) => break,
                Answer::Unknown if rule.is_unknown(&situation, keys) => undecided.push(Decision {
                    rule: Some(rule_name(rule, index)),
                    certainty: Certainty::Unknown,
                    undecided: None,
                    verdict: self.verdict(Some(rule), flow.claim),
                }),
                Answer::Unknown | Answer::Fails(_) => {}
            }
        }
        undecided
    }

    fn carriage<'p>(&'p self, rule: Option<&'p Treatment>, claim: Claim) -> Carriage<'p> {
        let default = match &self.default {
            Action::Carry(set) => Some(set.as_ref()),
            Action::Direct | Action::Refuse => None,
        };
        let rule_multipath = rule.and_then(|set| set.multipath);
        // A realtime flow has one path: a rule that says otherwise wins over others' class.
        let several = rule_multipath.is_some_and(|multipath| multipath != Multipath::Handover);
        let others = |class| match class {
            Class::Realtime if several => Class::Interactive,
            class => class,
        };
        let (class, class_from) = match (rule.and_then(|set| set.class), claim.class) {
            (Some(class), _) => (class, Origin::Rule),
            (None, Some(class)) => (others(class), Origin::Claim),
            (None, None) => {
                let class = default.and_then(|set| set.class);
                (others(class.unwrap_or(Class::Bulk)), Origin::Default)
            }
        };
        let multipath = match rule_multipath.or(claim.multipath) {
            _ if class == Class::Realtime => Multipath::Handover,
            Some(multipath) => multipath,
            None => default
                .and_then(|set| set.multipath)
                .unwrap_or(Multipath::Aggregate),
        };
        let of = |get: fn(&Treatment) -> Option<Permission>| {
            let set = rule.and_then(get).or_else(|| default.and_then(get));
            set.unwrap_or(Permission::Allowed)
        };
        let own_paths = rule.and_then(|set| set.paths.as_ref());
        let paths = own_paths.or_else(|| default.and_then(|set| set.paths.as_ref()));
        let priority = rule.and_then(|set| set.priority);
        let delay = rule.and_then(|set| set.delay);
        Carriage {
            class,
            class_from,
            priority: priority
                .or_else(|| default.and_then(|set| set.priority))
                .unwrap_or(0),
            paths: paths.unwrap_or(&Paths::All),
            metered: of(|set| set.metered),
            roaming: of(|set| set.roaming),
            multipath,
            delay: delay
                .or_else(|| default.and_then(|set| set.delay))
                .unwrap_or_default(),
            budget: rule.and_then(|set| set.budget.as_ref()),
        }
    }
}

pub(crate) fn rule_name(rule: &Rule, index: usize) -> RuleName<'_> {
    RuleName {
        name: &rule.name,
        line: rule.place.line,
        index,
    }
}
