//! Stale rules of dead daemons: detection and removal.

use super::config::RulesConfig;
use super::error::RulesError;
use super::family::Family;
use super::owner::Owner;
use super::routing::{self, Slot};
use super::tables::Tables;
use super::tools::{run, try_batch};

/// Rules that dead daemons have left in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaleRules {
    /// Owners of stale nftables tables.
    pub tables: Vec<Owner>,
    /// Number of routing rules of mpbond, of both address families, that belong to no living
    /// daemon.
    pub routing_rules: usize,
}

impl StaleRules {
    /// Whether there are no stale rules.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Finds stale rules. Rules of running processes and of other programs are not included.
///
/// # Errors
/// When `nft` or `ip` cannot be run or fails, most often for lack of CAP_NET_ADMIN.
pub fn find_stale() -> Result<StaleRules, RulesError> {
    of(&Tables::read()?)
}

/// Removes stale rules and returns them.
///
/// # Errors
/// As [`find_stale`].
pub fn remove_stale() -> Result<StaleRules, RulesError> {
    let tables = Tables::read()?;
    let found = of(&tables)?;
    tables.remove_dead()?;
    if found.routing_rules > 0 {
        remove_routing(&config(), &Slot::BOTH);
    }
    Ok(found)
}

/// Removes the routing rules of earlier processes that were killed together with their guards.
pub(super) fn remove_routing(config: &RulesConfig, slots: &[Slot]) {
    for slot in slots {
        for family in Family::BOTH {
            try_batch(family, &routing::removal(config, *slot, family));
        }
    }
}

/// Whether a line of `ip rule show` is a rule of ours.
fn is_ours(line: &str, config: &RulesConfig) -> bool {
    let mut slots = Slot::BOTH.iter();
    slots.any(|slot| routing::is_of(*slot, line, config))
}

/// Marks and routing tables are the same for all daemons, and all but the user's rule.
fn config() -> RulesConfig {
    RulesConfig {
        dns_port: Some(0),
        ..RulesConfig::new(0)
    }
}

fn of(tables: &Tables) -> Result<StaleRules, RulesError> {
    let mut routing_rules = 0;
    // Routing rules belong to the living daemons, of which there are two during an upgrade.
    if tables.living.is_empty() {
        let (lines, config) = (routing_rules_of_all()?, config());
        routing_rules = lines.lines().filter(|line| is_ours(line, &config)).count();
    }
    Ok(StaleRules {
        tables: tables.dead.clone(),
        routing_rules,
    })
}

/// The first slot without routing rules.
pub(super) fn unused_slot(config: &RulesConfig) -> Result<Slot, RulesError> {
    let lines = routing_rules_of_all()?;
    let is_used = |slot: &Slot| lines.lines().any(|l| routing::is_of(*slot, l, config));
    let unused = Slot::BOTH.into_iter().find(|slot| !is_used(slot));
    Ok(unused.unwrap_or(Slot::First))
}

/// All routing rules of this host, of both address families, one per line.
fn routing_rules_of_all() -> Result<String, RulesError> {
    let rules = |family: Family| run("ip", &[family.option(), "rule", "show"], None);
    Ok(rules(Family::V4)? + &rules(Family::V6)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routing_rules_of_others_are_not_ours() {
        let config = config();
        let is_ours = |line: &str| is_ours(line, &config);
        for own in [
            "9000:\tfrom all fwmark 0x6d700002 lookup 28016",
            "9001:\tfrom all fwmark 0x6d700001 goto 9009",
            "9003:\tfrom 198.18.109.112 goto 9006",
            "9006:\tfrom all ipproto udp dport 53 lookup 28018",
            "9008:\tfrom all ipproto tcp lookup 28017",
            "9009:\tfrom all nop",
            "9010:\tfrom all fwmark 0x6d700002 lookup 28019",
            "9011:\tfrom all fwmark 0x6d700001 goto 9019",
            "9018:\tfrom all ipproto tcp lookup 28020",
            "9019:\tfrom all nop",
        ] {
            assert!(is_ours(own), "{own}");
        }
        for other in [
            "9000:\tfrom all fwmark 0x6d700003 lookup 28016",
            "9000:\tfrom all lookup main",
            "9001:\tfrom all fwmark 0x6d700001 goto 32766",
            "9008:\tfrom all ipproto tcp lookup main",
            "9008:\tfrom all ipproto tcp lookup 28020",
            "9010:\tfrom all lookup main",
            "9020:\tfrom all fwmark 0x6d700002 lookup 28016",
            "0:\tfrom all lookup local",
            "",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
