//! Stale rules of dead daemons: detection and removal.

use super::guard::{RULE_PREFERENCE, RulesError, Tables, mark, remove_routing, run};
use super::owner::Owner;
use super::{Method, RulesConfig};

/// Rules that dead daemons have left in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaleRules {
    /// Owners of stale nftables tables.
    pub tables: Vec<Owner>,
    /// Number of routing rules with mpbond's mark, of both address families, that belong to no
    /// living daemon.
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

/// Marks and routing table are the same for all daemons.
fn config() -> RulesConfig {
    RulesConfig {
        method: Method::Tproxy,
        ..RulesConfig::new(0)
    }
}

fn of(tables: &Tables) -> Result<StaleRules, RulesError> {
    let mut routing_rules = 0;
    // One daemon intercepts at a time: routing rules belong to the living one.
    if tables.living.is_empty() {
        let mark = mark(&config());
        for family in ["-4", "-6"] {
            let rules = run("ip", &[family, "rule", "show"], None)?;
            routing_rules += rules.lines().filter(|l| is_ours(l, &mark)).count();
        }
    }
    Ok(StaleRules {
        tables: tables.dead.clone(),
        routing_rules,
    })
}

/// A line such as `9000: from all fwmark 0x6d700002 lookup 28016`.
fn is_ours(line: &str, mark: &str) -> bool {
    let Some((preference, rule)) = line.split_once(':') else {
        return false;
    };
    let words: Vec<_> = rule.split_ascii_whitespace().collect();
    preference.trim() == RULE_PREFERENCE && words.windows(2).any(|w| w == ["fwmark", mark])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routing_rules_of_others_are_not_ours() {
        let mark = mark(&config());
        assert!(is_ours(
            "9000:\tfrom all fwmark 0x6d700002 lookup 28016",
            &mark
        ));
        for other in [
            "9000:\tfrom all fwmark 0x6d700003 lookup 28016",
            "9000:\tfrom all lookup main",
            "9001:\tfrom all fwmark 0x6d700002 lookup 28016",
            "0:\tfrom all lookup local",
            "",
        ] {
            assert!(!is_ours(other, &mark), "{other}");
        }
    }
}
