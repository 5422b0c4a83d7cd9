//! What programs have told of links through the API: whether they are metered, and roam, until a
//! restart; the strength of their signal, for some seconds.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use mpbond_policy::Fact;
use mpbond_units::Timestamp;
use serde::Serialize;

/// Origin of the facts.
const API: &str = "a program, over the API";

/// Time for which a strength is shown as that of now.
const SIGNAL_LASTS: Duration = Duration::from_secs(5);

/// Strengths of signals that radios hear, in dBm.
pub(in crate::primary) const SIGNALS_DBM: std::ops::RangeInclusive<i16> = -150..=0;

/// What is known of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::primary) struct LinkFacts {
    /// Whether its data is charged by volume. The status of the link has it.
    #[serde(skip)]
    metered: Option<bool>,
    /// Whether that is a guess of the program.
    #[serde(skip)]
    metered_is_guess: bool,
    /// Whether it is served by another network than the user's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    roaming: Option<bool>,
    /// Strength of the signal of its radio.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal_dbm: Option<i16>,
    #[serde(skip)]
    signal_at: Timestamp,
}

impl LinkFacts {
    /// Strength of the signal of its radio, in dBm, and when it was told.
    pub(super) fn signal_dbm(self) -> Option<(Timestamp, i16)> {
        Some((self.signal_at, self.signal_dbm?))
    }

    /// Whether it is metered: as a program knows it, or else its helper, or else as a program
    /// guesses.
    pub(in crate::primary) fn metered(self, helper: Option<bool>) -> Fact<bool> {
        match (self.metered, helper) {
            (Some(metered), _) if !self.metered_is_guess => Fact::known(metered, API),
            (_, Some(metered)) => Fact::known(metered, "its helper"),
            (Some(metered), None) => Fact::guessed(metered, API),
            (None, None) => Fact::unknown(
                "neither `metered` of its section [[link]] nor a program nor its helper says it",
            ),
        }
    }

    pub(in crate::primary) fn roaming(self) -> Fact<bool> {
        let unknown = Fact::unknown("no program says it");
        self.roaming.map_or(unknown, |is| Fact::known(is, API))
    }
}

/// What a program tells of a link's being metered.
#[derive(Clone, Copy, Debug)]
pub(in crate::primary) struct Metered {
    /// `None`: it is not known.
    pub(in crate::primary) value: Option<bool>,
    /// Whether the program guesses it.
    pub(in crate::primary) is_guess: bool,
}

/// Facts by names of links. For use on one thread.
#[derive(Default)]
pub(in crate::primary) struct AllFacts(RefCell<BTreeMap<String, LinkFacts>>);

impl AllFacts {
    /// What is known of a link now.
    pub(in crate::primary) fn of(&self, now: Timestamp, name: &str) -> LinkFacts {
        let mut facts = self.0.borrow().get(name).copied().unwrap_or_default();
        if now.since(facts.signal_at) >= SIGNAL_LASTS {
            facts.signal_dbm = None;
        }
        facts
    }

    /// Takes what is told of a configured link; an inner `None` means that it is not known now.
    pub(in crate::primary) fn change(
        &self,
        name: &str,
        metered: Option<Metered>,
        roaming: Option<Option<bool>>,
    ) {
        let mut all = self.0.borrow_mut();
        let facts = all.entry(name.to_owned()).or_default();
        if let Some(Metered { value, is_guess }) = metered {
            (facts.metered, facts.metered_is_guess) = (value, is_guess);
        }
        facts.roaming = roaming.unwrap_or(facts.roaming);
    }

    /// Takes the strength of the signal of a configured link, or that it is not known.
    pub(in crate::primary) fn heard(&self, now: Timestamp, name: &str, dbm: Option<i16>) {
        let mut all = self.0.borrow_mut();
        let facts = all.entry(name.to_owned()).or_default();
        (facts.signal_dbm, facts.signal_at) = (dbm, now);
    }

    /// Forgets links that are not configured any more.
    pub(in crate::primary) fn keep<'a>(&self, configured: impl Iterator<Item = &'a str>) {
        let configured: Vec<&str> = configured.collect();
        let is_configured = |name: &str| configured.contains(&name);
        self.0.borrow_mut().retain(|name, _| is_configured(name));
    }
}
