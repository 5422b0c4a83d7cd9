//! Rules.

use crate::condition::{Condition, Situation};
use crate::fact::{Answer, Certainty};
use crate::treatment::Treatment;
use mpbond_toml_text::Place;

/// Action of a rule on the flows that it selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A session carries it.
    Carry(Box<Treatment>),
    /// It is connected without the proxy.
    Direct,
    /// It is refused.
    Refuse,
}

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub name: String,
    /// Where it begins.
    pub place: Place,
    /// In the order in which they are tested: those that cost least first.
    pub conditions: Vec<Condition>,
    pub action: Action,
    /// Where the action is.
    pub action_place: Place,
}

impl Rule {
    /// Whether it selects a flow: whether all its conditions hold.
    pub(crate) fn answer(&self, situation: &Situation<'_>) -> Answer {
        let mut all = Answer::Holds(Certainty::Known);
        for condition in &self.conditions {
            match (condition.answer(situation), all) {
                (failed @ Answer::Fails(_), _) => return failed,
                (Answer::Unknown, _) => all = Answer::Unknown,
                (Answer::Holds(one), Answer::Holds(others)) => {
                    all = Answer::Holds(one.max(others));
                }
                (Answer::Holds(_), _) => {}
            }
        }
        all
    }

    /// The condition for which it does not select a flow, with the certainty of that: the first
    /// one that does not hold, or else the first one whose fact is unknown.
    pub(crate) fn obstacle(&self, situation: &Situation<'_>) -> Option<(&Condition, Certainty)> {
        let mut unknown = None;
        for condition in &self.conditions {
            match condition.answer(situation) {
                Answer::Fails(certainty) => return Some((condition, certainty)),
                Answer::Unknown => {
                    unknown.get_or_insert((condition, Certainty::Unknown));
                }
                Answer::Holds(_) => {}
            }
        }
        unknown
    }

    /// Whether the fact of one of its conditions with these keys is unknown.
    pub(crate) fn is_unknown(&self, situation: &Situation<'_>, keys: &[&str]) -> bool {
        self.conditions.iter().any(|condition| {
            keys.contains(&condition.key()) && condition.answer(situation) == Answer::Unknown
        })
    }

    /// Whether it has a condition of this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.conditions
            .iter()
            .any(|condition| condition.key() == key)
    }

    /// Whether it selects every flow that another one selects.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.conditions.iter().all(|own| {
            let mut others = other.conditions.iter();
            others.any(|condition| own.covers(condition))
        })
    }
}
