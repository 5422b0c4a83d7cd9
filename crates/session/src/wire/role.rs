//! Role of a subflow within its session.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Role of a subflow within its session, most used first.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Carries data whenever the scheduler chooses it.
    #[default]
    Regular,
    /// Used only when no regular subflow is left.
    Backup,
    /// A second subflow through a helper, for urgent bytes (copies and short exchanges) that would
    /// wait behind what the helper holds for the regular one (ADR 0011); otherwise a backup.
    Express,
}

impl Role {
    /// [`Role::Backup`] or [`Role::Regular`].
    pub const fn regular_unless(backup: bool) -> Self {
        if backup { Self::Backup } else { Self::Regular }
    }

    pub(super) const fn to_wire(self) -> u8 {
        match self {
            Self::Regular => 0,
            Self::Backup => 1,
            Self::Express => 2,
        }
    }

    /// A role that this version does not know counts as a backup: it is spared.
    pub(super) const fn from_wire(n: u8) -> Self {
        match n {
            0 => Self::Regular,
            2 => Self::Express,
            _ => Self::Backup,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Regular => "regular",
            Self::Backup => "backup",
            Self::Express => "express",
        })
    }
}
