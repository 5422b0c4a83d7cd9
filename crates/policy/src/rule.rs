//! Rules, and the treatment of flows that they set.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cap::Cap;
use crate::condition::{Condition, Situation};
use crate::fact::{Answer, Certainty};
use crate::source::Place;

/// Traffic class of a flow; docs/traffic-classes.md has their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Calls, games. Has one path at a time.
    Realtime,
    /// Messages, pages, terminals.
    Interactive,
    /// Downloads, uploads, video segments.
    Bulk,
    /// Backups, updates, synchronisation.
    Background,
}

/// Use of several paths by a flow: the multipath policies of RFC 9622, section 8.1.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Multipath {
    /// One path at a time; another one when it fails.
    Handover,
    /// The path with the least delay.
    Interactive,
    /// All paths together.
    Aggregate,
}

/// Whether a flow may use links of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// It may.
    Allowed,
    /// It may not; a link of which it is not known is treated as if it were of the kind.
    Never,
}

/// Paths that a flow may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paths {
    /// All of them.
    All,
    /// Own links and helpers of these names.
    Named(Vec<String>),
}

impl Paths {
    /// Whether a link is one of them.
    pub fn contain(&self, link: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.iter().any(|name| name == link),
        }
    }
}

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

/// Treatment of a flow that is carried, as far as a rule or the default sets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Treatment {
    pub class: Option<Class>,
    pub priority: Option<u8>,
    pub paths: Option<Paths>,
    pub metered: Option<Permission>,
    pub roaming: Option<Permission>,
    pub multipath: Option<Multipath>,
    pub delay: Option<Duration>,
    pub budget: Option<Cap>,
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
                (Answer::Fails, _) => return Answer::Fails,
                (Answer::Unknown, _) => all = Answer::Unknown,
                (Answer::Holds(one), Answer::Holds(others)) => {
                    all = Answer::Holds(one.max(others));
                }
                (Answer::Holds(_), _) => {}
            }
        }
        all
    }

    /// The first condition with such an answer.
    pub(crate) fn first(&self, situation: &Situation<'_>, wanted: Answer) -> Option<&Condition> {
        let mut conditions = self.conditions.iter();
        conditions.find(|condition| condition.answer(situation) == wanted)
    }

    /// Whether it selects every flow that another one selects.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.conditions.iter().all(|own| {
            let mut others = other.conditions.iter();
            others.any(|condition| own.covers(condition))
        })
    }
}
