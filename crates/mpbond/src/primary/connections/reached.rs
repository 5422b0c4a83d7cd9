//! Destinations that the proxy has reached lately.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mpbond_session::Destination;

/// Time for which a destination counts as reached.
const LATELY: Duration = Duration::from_secs(600);

/// Maximum number of destinations remembered.
const MAX_REMEMBERED: usize = 1_024;

/// Destinations that the proxy has reached lately: the next connection to one of them is confirmed
/// to its application at once (ADR 0017).
#[derive(Debug, Default)]
pub(in crate::primary) struct Reached {
    at: HashMap<Destination, Instant>,
}

impl Reached {
    /// Whether a destination was reached lately.
    pub(in crate::primary) fn has(&self, now: Instant, to: &Destination) -> bool {
        let at = self.at.get(to);
        at.is_some_and(|at| now.duration_since(*at) < LATELY)
    }

    /// A destination was reached.
    pub(super) fn add(&mut self, now: Instant, to: Destination) {
        if self.at.len() >= MAX_REMEMBERED && !self.at.contains_key(&to) {
            self.at.retain(|_, at| now.duration_since(*at) < LATELY / 2);
            if self.at.len() >= MAX_REMEMBERED {
                self.at.clear();
            }
        }
        self.at.insert(to, now);
    }

    /// A destination was not reached.
    pub(super) fn remove(&mut self, to: &Destination) {
        self.at.remove(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(port: u16) -> Destination {
        Destination::Name {
            host: "origin.test".to_owned(),
            port,
        }
    }

    #[test]
    fn a_destination_counts_for_ten_minutes_or_until_it_fails() {
        let (mut reached, now) = (Reached::default(), Instant::now());
        reached.add(now, to(1));
        reached.add(now, to(2));
        reached.remove(&to(2));
        assert!(reached.has(now, &to(1)) && !reached.has(now, &to(2)));
        assert!(reached.has(now + LATELY - Duration::from_secs(1), &to(1)));
        assert!(!reached.has(now + LATELY, &to(1)));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut reached, now) = (Reached::default(), Instant::now());
        for port in 0..5_000 {
            reached.add(now, to(port));
            assert!(reached.at.len() <= MAX_REMEMBERED);
        }
        assert!(reached.has(now, &to(4_999)));
    }
}
