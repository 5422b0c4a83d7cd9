//! Bytes that an end sends twice, by what made it do so.

use serde::{Deserialize, Serialize};

/// The cause of a copy: the state of the subflow that carried the bytes, or a rule of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The subflow is gone, and they were not acknowledged.
    Lost,
    /// It has potentially failed.
    Failed,
    /// It is probed.
    Probed,
    /// Another one would deliver them sooner.
    Rebalanced,
    /// They are the last ones of a transfer.
    Hedged,
    /// The scheduler sends every byte over every subflow.
    Scheduled,
}

/// Stream bytes that an end has given to a subflow after another one had been given them: copies,
/// by their cause. On which subflow they went, an express for one, makes no difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    /// The other subflow was lost.
    pub lost: u64,
    /// It had potentially failed.
    pub failed: u64,
    /// It was probed.
    pub probed: u64,
    /// Subflows were rebalanced.
    pub rebalanced: u64,
    /// The end of a transfer was hedged.
    pub hedged: u64,
    /// The scheduler sends every byte over every subflow.
    pub scheduled: u64,
}

impl Copies {
    pub(crate) fn add(&mut self, cause: Cause, bytes: u64) {
        let counter = match cause {
            Cause::Lost => &mut self.lost,
            Cause::Failed => &mut self.failed,
            Cause::Probed => &mut self.probed,
            Cause::Rebalanced => &mut self.rebalanced,
            Cause::Hedged => &mut self.hedged,
            Cause::Scheduled => &mut self.scheduled,
        };
        *counter += bytes;
    }

    /// Copies of all causes, each with its name.
    pub const fn by_cause(&self) -> [(&'static str, u64); 6] {
        [
            ("lost", self.lost),
            ("failed", self.failed),
            ("probed", self.probed),
            ("rebalanced", self.rebalanced),
            ("hedged", self.hedged),
            ("scheduled", self.scheduled),
        ]
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.by_cause().iter().map(|(_, bytes)| bytes).sum()
    }
}
