//! Links that a flow may use, and their order by cost.

use std::collections::BTreeSet;
use std::time::Duration;

use mpbond_units::duration_text;
use serde::Serialize;

use crate::battery::Charge;
use crate::cap::AtCap;
use crate::decide::{Carriage, Decision, Verdict};
use crate::fact::Fact;
use crate::flow::{Device, LinkState};
use crate::mode::Mode;
use crate::policy::Policy;
use crate::treatment::Permission;

/// Phase of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is to be opened.
    New,
    /// It is open.
    Open,
}

/// Use of a link by a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkUse {
    /// Cost of the link.
    pub cost: u16,
    /// Whether it carries data only while no other link does: its cap is used up.
    pub standby: bool,
    /// Whether links of higher cost carry data beside it in mode `saver`: its signal is weak, or it
    /// does not work.
    pub weak: bool,
}

/// Reason for which a flow may not use a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Unusable {
    /// The link does not work.
    NotWorking,
    /// It is not among the paths of the flow.
    NotAllowed,
    /// It is metered.
    Metered,
    /// It is not known not to be metered.
    PerhapsMetered,
    /// It roams.
    Roaming,
    /// It is not known not to roam.
    PerhapsRoaming,
    /// Its cap is used up.
    CapReached,
    /// The battery of its device is low, and it accepts no new flow.
    Draining,
    /// The battery of its device is low.
    BatteryLow,
}

impl Unusable {
    /// The reason as text; completes "the link ...".
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotWorking => "does not work",
            Self::NotAllowed => "is not among the rule's paths",
            Self::Metered => "is metered",
            Self::PerhapsMetered => {
                "may be metered; `metered = false` in its section [[link]] says that it is not"
            }
            Self::Roaming => "roams",
            Self::PerhapsRoaming => "may roam",
            Self::CapReached => "has used up its cap",
            Self::Draining => "accepts no new flow, since its device's battery is low",
            Self::BatteryLow => "is not used, since its device's battery is low",
        }
    }
}

/// Whether a new flow is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Admission {
    /// At once.
    Now,
    /// As soon as a link works that it may use; after this time it is refused.
    Wait(
        #[serde(serialize_with = "duration_text::serialize")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        Duration,
    ),
    /// It is refused.
    Refused(Refusal),
}

/// Reason for which a flow is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// Its rule, or the default, says so.
    Rule,
    /// The budget of its rule is used up.
    BudgetSpent,
    /// It may use no link that works.
    NoLink,
}

/// Rank of a link among those that a flow may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rank {
    /// A link carries data only while none of a lower tier works.
    pub tier: usize,
    /// Within a tier, a link carries what those of a lower turn have no room for.
    pub turn: usize,
}

impl Policy {
    /// Whether a link is metered: as the policy states, or else as was found out.
    pub(crate) fn metered(&self, link: &LinkState) -> Fact<bool> {
        let stated = self.link(&link.name).and_then(|link| link.metered);
        stated.map_or(link.metered, |metered| Fact::known(metered, "the policy"))
    }

    /// Whether a flow may use a link, and how.
    ///
    /// # Errors
    /// The reason for which it may not.
    pub fn judge(
        &self,
        carriage: &Carriage<'_>,
        link: &LinkState,
        phase: Phase,
    ) -> Result<LinkUse, Unusable> {
        let metered = self.metered(link);
        let own = self.link(&link.name);
        let at_cap = own
            .and_then(|own| own.cap.as_ref())
            .map_or(AtCap::Off, |cap| cap.at_cap);
        let reasons = [
            (!link.works).then_some(Unusable::NotWorking),
            (!carriage.paths.contain(&link.name)).then_some(Unusable::NotAllowed),
            forbidden(
                carriage.metered,
                metered,
                Unusable::Metered,
                Unusable::PerhapsMetered,
            ),
            forbidden(
                carriage.roaming,
                link.roaming,
                Unusable::Roaming,
                Unusable::PerhapsRoaming,
            ),
            (link.cap_reached && at_cap == AtCap::Off).then_some(Unusable::CapReached),
            match (link.charge, phase) {
                (Charge::Low, _) => Some(Unusable::BatteryLow),
                (Charge::Draining, Phase::New) => Some(Unusable::Draining),
                (Charge::Draining, Phase::Open) | (Charge::Sufficient, _) => None,
            },
        ];
        if let Some(reason) = reasons.into_iter().flatten().next() {
            return Err(reason);
        }
        Ok(self.use_of(link))
    }

    /// Use of a link by flows that may use it.
    pub fn use_of(&self, link: &LinkState) -> LinkUse {
        let by_kind = u16::from(matches!(self.metered(link).get(), Some((true, _))));
        let cost = self.link(&link.name).and_then(|own| own.cost);
        LinkUse {
            cost: cost.unwrap_or(by_kind),
            standby: link.cap_reached,
            weak: link.is_weak || !link.works,
        }
    }

    /// Names of the links that carry data only while no other one works: of those that may be used
    /// at all, the ones of a higher tier than the lowest of the links that work.
    pub fn behind<'a>(&self, links: &'a [LinkState]) -> Vec<&'a str> {
        let is_off = |link: &LinkState| {
            let cap = self.link(&link.name).and_then(|own| own.cap.as_ref());
            let cap_reached = link.cap_reached && cap.is_none_or(|cap| cap.at_cap == AtCap::Off);
            cap_reached || link.charge == Charge::Low
        };
        let usable: Vec<&LinkState> = links.iter().filter(|link| !is_off(link)).collect();
        let uses: Vec<LinkUse> = usable.iter().map(|link| self.use_of(link)).collect();
        let usable = usable.into_iter().zip(self.ranks(&uses));
        let working = usable.clone().filter(|(link, _)| link.works);
        let Some(lowest) = working.map(|(_, rank)| rank.tier).min() else {
            return Vec::new();
        };
        let behind = usable.filter(|(_, rank)| rank.tier > lowest);
        behind.map(|(link, _)| &*link.name).collect()
    }

    /// Names of links, each with its turn: data goes on a link of a higher one only where those of
    /// a lower one have no room.
    pub fn turns<'a>(&self, links: &'a [LinkState]) -> Vec<(&'a str, usize)> {
        let uses: Vec<LinkUse> = links.iter().map(|link| self.use_of(link)).collect();
        let turns = self.ranks(&uses).into_iter().map(|rank| rank.turn);
        links.iter().map(|link| &*link.name).zip(turns).collect()
    }

    /// Whether a new flow is accepted.
    pub fn admit(&self, decision: &Decision<'_>, device: &Device) -> Admission {
        let carriage = match &decision.verdict {
            Verdict::Carry(carriage) => carriage,
            Verdict::Direct => return Admission::Now,
            Verdict::Refuse => return Admission::Refused(Refusal::Rule),
        };
        let has_budget = carriage.budget.is_some();
        if has_budget
            && decision
                .rule
                .is_some_and(|r| device.spent_budgets.contains(r.name))
        {
            return Admission::Refused(Refusal::BudgetSpent);
        }
        let mut links = device.links.iter();
        if links.any(|link| self.judge(carriage, link, Phase::New).is_ok()) {
            Admission::Now
        } else if carriage.delay.is_zero() {
            Admission::Refused(Refusal::NoLink)
        } else {
            Admission::Wait(carriage.delay)
        }
    }

    /// The ranks of links that a flow may use, in their order: cost comes before round-trip time,
    /// by which a scheduler chooses among links of one rank. In mode `saver`, a cost at which all
    /// links are weak holds back no link of a higher one.
    pub fn ranks(&self, uses: &[LinkUse]) -> Vec<Rank> {
        let all: BTreeSet<u16> = uses.iter().map(|link| link.cost).collect();
        let strong = uses.iter().filter(|link| !link.weak);
        let strong: BTreeSet<u16> = strong.map(|link| link.cost).collect();
        let step = |costs: &BTreeSet<u16>, cost: u16| costs.range(..cost).count();
        let of = |link: &LinkUse| {
            let (tier, turn) = match self.mode {
                Mode::Fastest => (0, 0),
                Mode::Auto | Mode::Balanced => (0, step(&all, link.cost)),
                Mode::Saver => (step(&strong, link.cost), 0),
            };
            let behind = if link.standby { all.len() } else { 0 };
            Rank {
                tier: tier + behind,
                turn,
            }
        };
        uses.iter().map(of).collect()
    }
}

/// Whether a permission excludes a link; an unknown one is excluded as well, so that "never" holds.
fn forbidden(
    permission: Permission,
    is: Fact<bool>,
    reason: Unusable,
    perhaps: Unusable,
) -> Option<Unusable> {
    match (permission, is.get()) {
        (Permission::Allowed, _) | (_, Some((false, _))) => None,
        (Permission::Never, Some((true, _))) => Some(reason),
        (Permission::Never, None) => Some(perhaps),
    }
}
