//! Check of a configuration, before anything is installed.

use super::config::RulesConfig;
use super::error::RulesError;
use super::routing::{MAX_ROUTE_TABLE, MIN_ROUTE_TABLE};

/// Maximum length of an interface name in bytes (IFNAMSIZ without the terminating zero).
const MAX_INTERFACE_BYTES: usize = 15;

/// Rejects values that would alter the script or conflict with the system.
pub(super) fn check(config: &RulesConfig) -> Result<(), RulesError> {
    for name in &config.forwarded {
        let good = |b: u8| b.is_ascii_alphanumeric() || b"_-.@:".contains(&b);
        let fits = (1..=MAX_INTERFACE_BYTES).contains(&name.len());
        if !fits || !name.bytes().all(good) {
            return Err(RulesError::Interface(name.clone()));
        }
    }
    let marks = [config.own_mark, config.route_mark];
    if marks.contains(&0) || config.own_mark == config.route_mark {
        return Err(RulesError::Marks);
    }
    match config.route_table {
        MIN_ROUTE_TABLE..=MAX_ROUTE_TABLE => Ok(()),
        number => Err(RulesError::RouteTable(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_configurations() {
        for name in ["", "a b", "x\"; drop", "lan0\n", "sixteen-letters-"] {
            let mut config = RulesConfig::new(1);
            config.forwarded = vec![name.into()];
            let error = check(&config).unwrap_err();
            assert!(matches!(error, RulesError::Interface(n) if n == name));
        }
        for (own_mark, route_mark) in [(0, 1), (1, 0), (7, 7)] {
            let mut config = RulesConfig::new(1);
            (config.own_mark, config.route_mark) = (own_mark, route_mark);
            let error = check(&config).unwrap_err();
            assert!(matches!(error, RulesError::Marks));
        }
        let mut config = RulesConfig::new(1);
        config.route_table = 254;
        let error = check(&config).unwrap_err();
        assert!(matches!(error, RulesError::RouteTable(254)));
        assert!(check(&RulesConfig::new(1)).is_ok());
    }
}
