//! Paths of a session by their names, with what connections over them have shown.

use crate::HelperId;
use crate::estimator::Knowledge;
use crate::subflow::Subflow;

/// Maximum number of paths: of a peer that changes its names, the oldest ones are forgotten.
const MAX_PATHS: usize = 16;

/// What is known of the paths between two peers: rates and round-trip times, as connections have
/// shown them that may be gone. A subflow that joins a session begins with what is known of the path
/// of its name, instead of the little that is given to a path of unknown rate.
#[derive(Clone, Debug, Default)]
pub struct KnownPaths(Vec<Known>);

#[derive(Clone, Debug)]
struct Known {
    name: String,
    helper: Option<HelperId>,
    path: Knowledge,
}

impl Known {
    fn is_of(&self, s: &Subflow) -> bool {
        self.helper == s.helper && self.name == s.name
    }
}

impl KnownPaths {
    /// Notes what a subflow has shown. An express shares its path with a regular one, which shows
    /// more.
    pub(crate) fn note(&mut self, s: &Subflow) {
        let Some(path) = s.estimator.knowledge().filter(|_| !s.is_express()) else {
            return;
        };
        self.0.retain(|known| !known.is_of(s));
        if self.0.len() == MAX_PATHS {
            self.0.remove(0);
        }
        self.0.push(Known {
            name: s.name.clone(),
            helper: s.helper,
            path,
        });
    }

    /// Tells a new subflow what is known of its path.
    pub(crate) fn tell(&self, s: &mut Subflow) {
        if let Some(known) = self.0.iter().find(|known| known.is_of(s)) {
            s.estimator.remember(known.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mpbond_units::{BitRate, Timestamp};

    use super::*;
    use crate::{PathInfo, Role};

    fn ms(v: u64) -> Timestamp {
        Timestamp::from_millis(v)
    }

    /// The kernel's view of a path of this rate, of which something has arrived.
    fn info(rtt_ms: u64, rate: f64) -> PathInfo {
        PathInfo {
            cwnd_bytes: 14_600,
            srtt: Duration::from_millis(rtt_ms),
            min_rtt: Duration::from_millis(rtt_ms),
            bytes_arrived: 1,
            delivery_rate: BitRate::from_bytes_per_sec(rate),
            ..PathInfo::default()
        }
    }

    fn used(name: &str, helper: Option<u32>, role: Role) -> Subflow {
        let mut s = Subflow::for_test(1, helper, role);
        s.name = name.into();
        s.estimator.on_path(ms(0), info(50, 5e6));
        s
    }

    /// Throughput of a connection over the path of a name, made at an instant, by its first round
    /// trip.
    fn begins_at(known: &KnownPaths, name: &str, at: u64, rtt_ms: u64) -> f64 {
        let mut s = Subflow::unused_for_test(name);
        known.tell(&mut s);
        let first = PathInfo {
            bytes_arrived: 0,
            delivery_rate: BitRate::ZERO,
            ..info(rtt_ms, 0.0)
        };
        s.estimator.on_path(ms(at), first);
        s.throughput(ms(at)).bytes_per_sec()
    }

    #[test]
    fn a_connection_begins_with_what_its_path_has_shown() {
        let mut known = KnownPaths::default();
        known.note(&used("wifi", None, Role::Regular));
        known.note(&used("other", Some(7), Role::Regular));
        assert_eq!(begins_at(&known, "wifi", 1_000, 50), 5e6);
        // Not for longer than that of a connection that lasts, nor in another network.
        assert_eq!(begins_at(&known, "wifi", 61_000, 50), 292_000.0);
        assert_eq!(begins_at(&known, "wifi", 1_000, 20), 730_000.0);
        assert_eq!(begins_at(&known, "wifi", 1_000, 501).round(), 29_142.0);
        // Not that of a helper of this name.
        assert_eq!(begins_at(&known, "other", 1_000, 50), 292_000.0);
    }

    #[test]
    fn paths_are_bounded_and_the_newest_are_kept() {
        let mut known = KnownPaths::default();
        for n in 0..100 {
            known.note(&used(&format!("p{n}"), None, Role::Regular));
            known.note(&used("often", None, Role::Backup));
        }
        assert_eq!(known.0.len(), MAX_PATHS);
        assert_eq!(begins_at(&known, "p0", 1, 50), 292_000.0);
        assert_eq!(begins_at(&known, "p99", 1, 50), 5e6);
        assert_eq!(begins_at(&known, "often", 1, 50), 5e6);
    }

    #[test]
    fn what_has_shown_nothing_is_not_known() {
        let mut known = KnownPaths::default();
        known.note(&Subflow::unused_for_test("wifi"));
        known.note(&used("wifi", None, Role::Express));
        assert!(known.0.is_empty());
    }
}
