//! Stale rules of dead daemons: detection and removal.

use super::RulesConfig;
use super::guard::{RulesError, Tables, remove_routing, run};
use super::owner::Owner;
use super::routing::{self, Family};

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
        remove_routing(&config());
    }
    Ok(found)
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
    // One daemon intercepts at a time: routing rules belong to the living one.
    if tables.living.is_empty() {
        let config = config();
        for family in Family::BOTH {
            let rules = run("ip", &[family.option(), "rule", "show"], None)?;
            let ours = |line: &&str| routing::is_ours(line, &config);
            routing_rules += rules.lines().filter(ours).count();
        }
    }
    Ok(StaleRules {
        tables: tables.dead.clone(),
        routing_rules,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routing_rules_of_others_are_not_ours() {
        let config = config();
        let is_ours = |line: &str| routing::is_ours(line, &config);
        for own in [
            "9000:\tfrom all fwmark 0x6d700002 lookup 28016",
            "9001:\tfrom all fwmark 0x6d700001 goto 9009",
            "9003:\tfrom 198.18.109.112 goto 9006",
            "9006:\tfrom all ipproto udp dport 53 lookup 28018",
            "9008:\tfrom all ipproto tcp lookup 28017",
            "9009:\tfrom all nop",
        ] {
            assert!(is_ours(own), "{own}");
        }
        for other in [
            "9000:\tfrom all fwmark 0x6d700003 lookup 28016",
            "9000:\tfrom all lookup main",
            "9001:\tfrom all fwmark 0x6d700001 goto 32766",
            "9008:\tfrom all ipproto tcp lookup main",
            "9010:\tfrom all fwmark 0x6d700002 lookup 28016",
            "0:\tfrom all lookup local",
            "",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
