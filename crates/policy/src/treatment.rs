//! Treatment of flows that a session carries.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cap::Cap;

/// Traffic class of a flow; docs/traffic-classes.md has their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    Named(BTreeSet<String>),
}

impl Paths {
    /// Whether a link is one of them.
    pub fn contain(&self, link: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(link),
        }
    }
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
