//! The nftables tables of mpbond in the kernel, found by name.

use tracing::warn;

use super::error::RulesError;
use super::owner::Owner;
use super::tools::run;

/// Owners of the tables.
pub(super) struct Tables {
    pub(super) living: Vec<Owner>,
    pub(super) dead: Vec<Owner>,
}

impl Tables {
    pub(super) fn read() -> Result<Self, RulesError> {
        let text = run("nft", &["list", "tables", "inet"], None)?;
        let names = text
            .lines()
            .filter_map(|line| line.strip_prefix("table inet "));
        let (living, dead) = names
            .filter_map(Owner::from_table)
            .partition(Owner::is_alive);
        Ok(Self { living, dead })
    }

    pub(super) fn remove_dead(&self) -> Result<(), RulesError> {
        for owner in &self.dead {
            warn!(%owner, "removing stale nft rules of a dead process");
            run("nft", &["delete", "table", "inet", &owner.table()], None)?;
        }
        Ok(())
    }
}
