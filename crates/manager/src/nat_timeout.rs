//! Idle timeout of the NATs on the path of a link, as far as it has been observed (ADR 0014).

use std::time::Duration;

/// No shorter idle time counts, and no keep-alive comes more often.
pub const LEAST_KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Idle times that connections survived, or did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NatTimeout {
    /// Longest that was survived.
    survived: Duration,
    /// Shortest that was not.
    forgotten: Option<Duration>,
}

impl NatTimeout {
    /// A connection answered after an idle time. It was survived now, if not earlier.
    pub(crate) fn survived(&mut self, idle: Duration) {
        self.survived = self.survived.max(idle);
        if self.forgotten.is_some_and(|f| f <= idle) {
            self.forgotten = None;
        }
    }

    /// A connection was silent after an idle time, while a new one answered.
    pub(crate) fn forgot(&mut self, idle: Duration) {
        if idle < LEAST_KEEP_ALIVE {
            return;
        }
        self.forgotten = Some(self.forgotten.map_or(idle, |f| f.min(idle)));
        if self.survived >= idle {
            self.survived = Duration::ZERO;
        }
    }

    /// Idle time after which a connection is to be kept alive; none while nothing was forgotten:
    /// the kernel asks after 4 minutes. Half of what was forgotten is tried, and what was survived
    /// is relied on, so that a few losses find the time to within a factor of two.
    pub(crate) fn keep_alive(&self) -> Option<Duration> {
        let forgotten = self.forgotten?;
        Some(self.survived.max(forgotten / 2).max(LEAST_KEEP_ALIVE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(v: u64) -> Duration {
        Duration::from_secs(v)
    }

    #[test]
    fn losses_halve_the_interval_until_it_is_survived() {
        // The network forgets after 50 s.
        let mut network = NatTimeout::default();
        network.survived(s(12));
        assert_eq!(network.keep_alive(), None);
        let mut idle = s(300);
        let mut tried = Vec::new();
        while idle > s(50) {
            network.forgot(idle);
            idle = network.keep_alive().unwrap();
            tried.push(idle.as_secs());
        }
        assert_eq!(tried, [150, 75, 37]);
        network.survived(s(45));
        assert_eq!(network.keep_alive(), Some(s(45)));
        // A longer time that is survived shows that the losses had another reason.
        network.survived(s(75));
        assert_eq!(network.keep_alive(), None);
    }

    #[test]
    fn a_network_that_forgets_sooner_than_before_is_learnt_anew() {
        let mut network = NatTimeout::default();
        network.survived(s(200));
        network.forgot(s(100));
        assert_eq!(network.keep_alive(), Some(s(50)));
        network.forgot(s(20));
        assert_eq!(network.keep_alive(), Some(LEAST_KEEP_ALIVE));
    }

    #[test]
    fn short_idle_times_say_nothing() {
        let mut network = NatTimeout::default();
        network.forgot(LEAST_KEEP_ALIVE - s(1));
        assert_eq!(network, NatTimeout::default());
    }
}
