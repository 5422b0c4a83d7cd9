//! Answers that are kept for as long as they are valid.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mpbond_units::Timestamp;

use super::error::LookupError;
use super::message::{DomainName, Family};

/// Maximum number of answers: some megabyte.
const MAX_ENTRIES: usize = 4096;

/// Bounds of the time for which addresses are kept. The lower one spares servers when a page opens
/// many connections; the upper one limits the effect of an outdated or forged answer.
const ADDRESSES_FOR: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3600)];

/// Bounds for names without addresses (RFC 2308, section 5, has three hours as a maximum; a person
/// who has just made a name does not wait for so long).
const NOTHING_FOR: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Time for which a failure of all servers is kept (RFC 9520, section 3.2, requires a second).
const FAILURE_FOR: Duration = Duration::from_secs(1);

/// Addresses of one family, or the reason why there are none.
pub(super) type Found = Result<Arc<[IpAddr]>, LookupError>;

/// Key of an answer; names compare without regard to case.
pub(super) type Key = (DomainName, Family);

/// Bounded cache.
#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: HashMap<Key, (Found, Timestamp)>,
}

impl Cache {
    pub(super) fn get(&self, key: &Key, now: Timestamp) -> Option<Found> {
        let (found, until) = self.entries.get(key)?;
        (now < *until).then(|| found.clone())
    }

    /// Keeps an answer; `ttl` is the time that the servers allow.
    pub(super) fn insert(&mut self, key: Key, found: Found, ttl: Duration, now: Timestamp) {
        let lasts = match &found {
            Ok(_) => ttl.clamp(ADDRESSES_FOR[0], ADDRESSES_FOR[1]),
            Err(LookupError::NotFound) => ttl.clamp(NOTHING_FOR[0], NOTHING_FOR[1]),
            Err(LookupError::NoAnswer) => FAILURE_FOR,
        };
        if self.entries.len() >= MAX_ENTRIES {
            self.make_room(now);
        }
        self.entries.insert(key, (found, now + lasts));
    }

    /// Forgets what has expired, and otherwise the quarter that expires first.
    fn make_room(&mut self, now: Timestamp) {
        self.entries.retain(|_, (_, until)| now < *until);
        let excess = (self.entries.len() + MAX_ENTRIES / 4).saturating_sub(MAX_ENTRIES);
        if excess > 0 {
            let mut ends: Vec<_> = self.entries.values().map(|(_, until)| *until).collect();
            let (_, last, _) = ends.select_nth_unstable(excess - 1);
            let last = *last;
            self.entries.retain(|_, (_, until)| *until > last);
        }
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> Key {
        (format!("n{n}.example").parse().unwrap(), Family::V4)
    }

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn ms(n: u64) -> Timestamp {
        Timestamp::from_millis(n)
    }

    fn addresses() -> Found {
        Ok(Arc::new([IpAddr::from([192, 0, 2, 1])]))
    }

    #[test]
    fn answers_last_within_their_bounds() {
        let nothing = || Err(LookupError::NotFound);
        for (found, ttl, lasts) in [
            (addresses(), secs(0), 1_000),
            (addresses(), secs(60), 60_000),
            (addresses(), Duration::MAX, 3_600_000),
            (nothing(), secs(0), 1_000),
            (nothing(), secs(30), 30_000),
            (nothing(), secs(10_800), 60_000),
            (Err(LookupError::NoAnswer), secs(600), 1_000),
        ] {
            let mut cache = Cache::default();
            cache.insert(key(1), found.clone(), ttl, ms(5));
            assert_eq!(cache.get(&key(1), ms(lasts + 4)), Some(found));
            assert_eq!(cache.get(&key(1), ms(lasts + 5)), None);
        }
    }

    #[test]
    fn case_does_not_matter_and_the_family_does() {
        let mut cache = Cache::default();
        cache.insert(key(1), addresses(), secs(9), ms(0));
        let upper = ("N1.EXAMPLE".parse().unwrap(), Family::V4);
        assert_eq!(cache.get(&upper, ms(1)), Some(addresses()));
        let other = ("n1.example".parse().unwrap(), Family::V6);
        assert_eq!(cache.get(&other, ms(1)), None);
    }

    #[test]
    fn answers_are_bounded_and_the_longest_lived_stay() {
        let mut cache = Cache::default();
        for n in 0..3 * MAX_ENTRIES {
            cache.insert(key(n), addresses(), secs(60), ms(n as u64));
            assert!(cache.entries.len() <= MAX_ENTRIES);
        }
        assert!(cache.get(&key(3 * MAX_ENTRIES - 1), ms(13_000)).is_some());
        assert!(cache.get(&key(0), ms(13_000)).is_none());
    }
}
