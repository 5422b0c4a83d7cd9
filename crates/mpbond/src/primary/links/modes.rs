//! Modes of links that were set through the API; they last until a restart.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::LinkConfig;

/// Use of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "LinkMode"))]
#[serde(rename_all = "lowercase")]
pub(in crate::primary) enum Mode {
    /// Together with the others.
    Bonded,
    /// Only while no other link works.
    Standby,
    /// Not at all.
    Off,
}

/// Modes by names of links. For use on one thread.
#[derive(Default)]
pub(in crate::primary) struct Modes(RefCell<BTreeMap<String, Mode>>);

impl Modes {
    /// The mode that was set.
    pub(in crate::primary) fn of(&self, name: &str) -> Option<Mode> {
        self.0.borrow().get(name).copied()
    }

    pub(in crate::primary) fn set(&self, name: &str, mode: Mode) {
        self.0.borrow_mut().insert(name.to_owned(), mode);
    }

    /// Applies them to the links of a configuration: those that are used, and those that are off.
    /// The modes of links that are not configured any more are forgotten.
    pub(in crate::primary) fn apply(
        &self,
        configured: Vec<LinkConfig>,
    ) -> (Vec<LinkConfig>, Vec<LinkConfig>) {
        let is_configured = |name: &str| configured.iter().any(|link| link.name() == name);
        self.0.borrow_mut().retain(|name, _| is_configured(name));
        let (mut used, mut off) = (Vec::new(), Vec::new());
        for link in configured {
            match self.of(link.name()) {
                None => used.push(link),
                Some(Mode::Off) => off.push(link),
                Some(mode) => used.push(link.with_backup(mode == Mode::Standby)),
            }
        }
        (used, off)
    }
}
