//! What programs have told of links through the API: whether they are metered, and roam. It lasts
//! until a restart.

use std::cell::RefCell;
use std::collections::BTreeMap;

use mpbond_policy::Fact;
use serde::Serialize;

/// Origin of the facts.
const API: &str = "a program, over the API";

/// What is known of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct LinkFacts {
    /// Whether its data is charged by volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    metered: Option<bool>,
    /// Whether it is served by another network than the user's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    roaming: Option<bool>,
}

impl LinkFacts {
    pub(super) fn metered(self) -> Fact<bool> {
        fact(
            self.metered,
            "neither `metered` of its section [[link]] nor a program says it",
        )
    }

    pub(super) fn roaming(self) -> Fact<bool> {
        fact(self.roaming, "no program says it")
    }
}

fn fact(value: Option<bool>, unknown: &'static str) -> Fact<bool> {
    value.map_or(Fact::unknown(unknown), |value| Fact::known(value, API))
}

/// Facts by names of links. For use on one thread.
#[derive(Default)]
pub(super) struct AllFacts(RefCell<BTreeMap<String, LinkFacts>>);

impl AllFacts {
    /// What is known of a link.
    pub(super) fn of(&self, name: &str) -> LinkFacts {
        self.0.borrow().get(name).copied().unwrap_or_default()
    }

    /// Takes what is told of a configured link; an inner `None` means that it is not known now.
    pub(super) fn change(
        &self,
        name: &str,
        metered: Option<Option<bool>>,
        roaming: Option<Option<bool>>,
    ) {
        let mut all = self.0.borrow_mut();
        let facts = all.entry(name.to_owned()).or_default();
        facts.metered = metered.unwrap_or(facts.metered);
        facts.roaming = roaming.unwrap_or(facts.roaming);
    }

    /// Forgets links that are not configured any more.
    pub(super) fn keep<'a>(&self, configured: impl Iterator<Item = &'a str>) {
        let configured: Vec<&str> = configured.collect();
        let is_configured = |name: &str| configured.contains(&name);
        self.0.borrow_mut().retain(|name, _| is_configured(name));
    }
}
