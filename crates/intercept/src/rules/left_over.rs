use super::guard::{RULE_PREFERENCE, RulesError, Tables, mark, remove_routing, run};
use super::owner::Owner;
use super::{Method, RulesConfig};

/// What daemons that are dead have left in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOvers {
    /// Whose nft tables are there.
    pub tables: Vec<Owner>,
    /// Routing rules for our mark, of either address family, that no living
    /// daemon can have made.
    pub routing_rules: usize,
}

impl LeftOvers {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Looks for what the dead have left. What belongs to a process that runs, or
/// to other programs, is none of it.
///
/// # Errors
/// `nft` or `ip` can't be run, or refuses: most often for lack of
/// CAP_NET_ADMIN.
pub fn left_overs() -> Result<LeftOvers, RulesError> {
    of(&Tables::read()?)
}

/// Removes what the dead have left, and tells what it was.
///
/// # Errors
/// As [`left_overs`].
pub fn remove_left_overs() -> Result<LeftOvers, RulesError> {
    let tables = Tables::read()?;
    let found = of(&tables)?;
    tables.remove_dead()?;
    if found.routing_rules > 0 {
        remove_routing(&config());
    }
    Ok(found)
}

/// The daemons' marks and routing table are always the same.
fn config() -> RulesConfig {
    RulesConfig {
        method: Method::Tproxy,
        ..RulesConfig::new(0)
    }
}

fn of(tables: &Tables) -> Result<LeftOvers, RulesError> {
    let mut routing_rules = 0;
    // One daemon intercepts at a time: the routing rules are those of the one that lives.
    if tables.living.is_empty() {
        let mark = mark(&config());
        for family in ["-4", "-6"] {
            let rules = run("ip", &[family, "rule", "show"], None)?;
            routing_rules += rules.lines().filter(|l| is_ours(l, &mark)).count();
        }
    }
    Ok(LeftOvers {
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
