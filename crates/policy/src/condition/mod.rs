//! Conditions of a rule.

mod domain;
mod interval;
mod names;
mod time;

pub use domain::DomainName;
pub(crate) use domain::{DomainPattern, Domains};
pub(crate) use interval::{Addresses, Dscp, Intervals, Levels, Network, Ports, Uids};
pub(crate) use names::{App, Apps, Cgroup, Cgroups};
pub(crate) use time::{Window, minute_of_week, union};

use crate::fact::{Answer, Certainty, Fact};
use crate::flow::{Device, Flow};

/// A condition; that of a list holds if it contains the fact.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Port(Intervals),
    Uid(Intervals),
    Dscp(Intervals),
    Metered(bool),
    Roaming(bool),
    Charging(bool),
    Battery(Intervals),
    /// Minutes of the week.
    Time(Intervals),
    Ip(Addresses),
    Source(Addresses),
    App(Apps),
    Cgroup(Cgroups),
    Domain(Domains),
}

impl Condition {
    /// Its key in a rule.
    pub(crate) const fn key(&self) -> &'static str {
        match self {
            Self::Port(_) => "port",
            Self::Uid(_) => "uid",
            Self::Dscp(_) => "dscp",
            Self::Metered(_) => "metered",
            Self::Roaming(_) => "roaming",
            Self::Charging(_) => "charging",
            Self::Battery(_) => "battery",
            Self::Time(_) => "time",
            Self::Ip(_) => "ip",
            Self::Source(_) => "source",
            Self::App(_) => "app",
            Self::Cgroup(_) => "cgroup",
            Self::Domain(_) => "domain",
        }
    }

    /// Whether it holds.
    pub(crate) fn answer(&self, situation: &Situation<'_>) -> Answer {
        let flow = situation.flow;
        let number = |set: &Intervals, n: u128| set.contains(n);
        match self {
            Self::Port(set) if number(set, flow.port.into()) => Answer::Holds(Certainty::Known),
            Self::Port(_) => Answer::Fails(Certainty::Known),
            Self::Uid(set) => Answer::of(&flow.uid, |uid| number(set, (*uid).into())),
            Self::Dscp(set) => Answer::of(&flow.dscp, |dscp| number(set, (*dscp).into())),
            Self::Metered(wanted) => Answer::of(&situation.metered, |is| is == wanted),
            Self::Roaming(wanted) => Answer::of(&situation.roaming, |is| is == wanted),
            Self::Charging(wanted) => Answer::of(&situation.device.charging, |is| is == wanted),
            Self::Battery(set) => Answer::of(&situation.device.battery, |level| {
                number(set, (*level).into())
            }),
            Self::Time(set) => {
                Answer::of(&situation.minute, |minute| number(set, (*minute).into()))
            }
            Self::Ip(set) => Answer::of(&flow.ip, |ip| set.contains(*ip)),
            Self::Source(set) => Answer::of(&flow.source, |ip| set.contains(*ip)),
            Self::App(set) => Answer::of(&flow.app, |app| set.contains(app)),
            Self::Cgroup(set) => Answer::of(&flow.cgroup, |path| set.contains(path)),
            Self::Domain(set) => Answer::of(&flow.domain, |names| {
                names.iter().any(|name| set.contains(name))
            }),
        }
    }

    /// Whether it holds wherever another one of the same key holds.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Port(own), Self::Port(other))
            | (Self::Uid(own), Self::Uid(other))
            | (Self::Dscp(own), Self::Dscp(other))
            | (Self::Battery(own), Self::Battery(other))
            | (Self::Time(own), Self::Time(other)) => own.covers(other),
            (Self::Metered(own), Self::Metered(other))
            | (Self::Roaming(own), Self::Roaming(other))
            | (Self::Charging(own), Self::Charging(other)) => own == other,
            (Self::Ip(own), Self::Ip(other)) | (Self::Source(own), Self::Source(other)) => {
                own.covers(other)
            }
            (Self::App(own), Self::App(other)) => own.covers(other),
            (Self::Cgroup(own), Self::Cgroup(other)) => own.covers(other),
            (Self::Domain(own), Self::Domain(other)) => own.covers(other),
            _ => false,
        }
    }
}

/// The facts on which a decision depends.
pub(crate) struct Situation<'a> {
    pub flow: &'a Flow,
    pub device: &'a Device,
    /// Whether every working link is metered.
    pub metered: Fact<bool>,
    /// Whether every working link is roaming.
    pub roaming: Fact<bool>,
    /// Minute of the week in the policy's zone.
    pub minute: Fact<u16>,
}

/// Whether all facts are true: false as soon as one of them is, unknown while one of the others is.
pub(crate) fn all_true(facts: impl Iterator<Item = Fact<bool>>) -> Fact<bool> {
    let mut all: Option<(bool, Certainty)> = None;
    let mut unknown = None;
    for fact in facts {
        match (fact.get(), all) {
            (Some((false, certainty)), Some((false, best))) => {
                all = Some((false, certainty.min(best)));
            }
            (Some((false, certainty)), _) => all = Some((false, certainty)),
            (Some((true, certainty)), None) => all = Some((true, certainty)),
            (Some((true, certainty)), Some((true, worst))) => {
                all = Some((true, certainty.max(worst)));
            }
            (Some((true, _)), Some((false, _))) => {}
            (None, _) => unknown = Some(fact.origin()),
        }
    }
    match (all, unknown) {
        (Some((false, Certainty::Known)), _) => Fact::known(false, "the links"),
        (Some((false, _)), _) => Fact::guessed(false, "the links"),
        (_, Some(reason)) => Fact::unknown(reason),
        (Some((true, Certainty::Known)), None) => Fact::known(true, "the links"),
        (Some((true, _)), None) => Fact::guessed(true, "the links"),
        (None, None) => Fact::unknown("no link works"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_links_are_metered_unless_one_is_not() {
        let (yes, no) = (Fact::known(true, "-"), Fact::known(false, "-"));
        let (perhaps, perhaps_not) = (Fact::guessed(true, "-"), Fact::guessed(false, "-"));
        let unknown = Fact::unknown("not asked");
        for (facts, value, certainty) in [
            (vec![&yes, &yes], Some(true), Certainty::Known),
            (vec![&yes, &perhaps], Some(true), Certainty::Guessed),
            (vec![&yes, &no, &unknown], Some(false), Certainty::Known),
            (vec![&perhaps_not, &yes], Some(false), Certainty::Guessed),
            (vec![&perhaps_not, &no], Some(false), Certainty::Known),
            (vec![&yes, &unknown], None, Certainty::Unknown),
            (vec![], None, Certainty::Unknown),
        ] {
            let all = all_true(facts.into_iter().copied());
            assert_eq!(all.get().map(|(v, _)| *v), value);
            assert_eq!(all.certainty(), certainty);
        }
    }
}
