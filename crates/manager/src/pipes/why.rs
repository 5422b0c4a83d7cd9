//! Use of a pipe, and the reason for it.

use crate::ids::LinkId;

/// Use of a pipe that is chosen from several ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeUse {
    /// It carries data.
    Used,
    /// It carries data beside the used one, which seems too slow, to find out which one is faster.
    Tried,
    /// It carries data only while no other link does.
    Standby,
}

impl PipeUse {
    /// As text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Tried => "tried",
            Self::Standby => "standby",
        }
    }
}

/// Reason for which a pipe is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is the first one of its helper in the configuration.
    First,
    /// Its radios need the fewest joules per bit.
    FewestJoules,
    /// It was used by the order of before, which the configuration has changed since.
    Kept,
    /// The one before does not work, or does not answer.
    Failed(LinkId),
    /// The one before was too slow.
    TooSlow(LinkId),
    /// The signal of the one before was weak.
    Weak(LinkId),
    /// It comes before the one before, and suffices.
    Cheaper(LinkId),
    /// Its radios need fewer joules per bit than those of the one before, and it suffices.
    FewerJoules(LinkId),
}

impl Why {
    /// The pipe that was used before.
    pub const fn before(self) -> Option<LinkId> {
        match self {
            Self::First | Self::FewestJoules | Self::Kept => None,
            Self::Failed(before)
            | Self::TooSlow(before)
            | Self::Weak(before)
            | Self::Cheaper(before)
            | Self::FewerJoules(before) => Some(before),
        }
    }

    /// As text, with the name of the pipe that was used before.
    pub fn text(self, before: &str) -> String {
        match self {
            Self::First => "it is the first one of its helper".to_owned(),
            Self::FewestJoules => "its radios need the fewest joules per bit".to_owned(),
            Self::Kept => "it was used before its radios were changed".to_owned(),
            Self::Failed(_) => format!("\"{before}\" did not work"),
            Self::TooSlow(_) => format!("\"{before}\" was too slow"),
            Self::Weak(_) => format!("the signal of \"{before}\" was weak"),
            Self::Cheaper(_) => format!("it comes before \"{before}\", and suffices"),
            Self::FewerJoules(_) => {
                format!(
                    "its radios need fewer joules per bit than those of \"{before}\", and it suffices"
                )
            }
        }
    }
}

/// Use of a pipe, and why the used one of its helper is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeChoice {
    /// Its use.
    pub state: PipeUse,
    /// The reason for which the used pipe is used.
    pub why: Why,
    /// Power of its radios while bytes move at the present rate, in mW, where they are named.
    pub milliwatts: Option<u64>,
}
