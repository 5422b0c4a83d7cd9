//! Paths of a session by their names, with what connections over them have shown.

use crate::HelperId;
use crate::estimator::Knowledge;
use crate::subflow::Subflow;

/// Maximum number of paths: of a peer that changes its names, the oldest ones are forgotten.
const MAX_PATHS: usize = 16;

/// Rates of the paths between two peers, as earlier connections have shown them. A subflow that
/// joins a session begins with what is known of the path of its name and helper, instead of the
/// little that a path of unknown rate is given.
#[derive(Clone, Debug, Default)]
pub struct KnownPaths(Vec<Known>);

#[derive(Clone, Debug)]
struct Known {
    name: String,
    helper: Option<HelperId>,
    path: Knowledge,
}

impl Known {
    /// The path, as both ends name it.
    fn key(&self) -> (Option<HelperId>, &str) {
        (self.helper, &self.name)
    }

    fn is_of(&self, s: &Subflow) -> bool {
        self.key() == (s.helper, s.name.as_str())
    }
}

impl KnownPaths {
    /// Notes what a subflow has shown. An express shares its path with a regular one, which shows
    /// more. Of a path that has failed potentially nothing is known any more.
    pub(crate) fn note(&mut self, s: &Subflow) {
        if s.is_express() {
            return;
        }
        if s.has_failed() {
            self.0.retain(|known| !known.is_of(s));
        } else if let Some(path) = s.estimator.knowledge() {
            self.put(Known {
                name: s.name.clone(),
                helper: s.helper,
                path,
            });
        }
    }

    /// Tells a new subflow what is known of its path.
    pub(crate) fn tell(&self, s: &mut Subflow) {
        if let Some(known) = self.0.iter().find(|known| known.is_of(s)) {
            s.estimator.remember(known.path);
        }
    }

    /// Adds what another session has shown: of each path what was measured last.
    pub fn add(&mut self, other: Self) {
        for known in other.0 {
            let before = self.0.iter().find(|before| before.key() == known.key());
            if before.is_none_or(|before| before.path.at() <= known.path.at()) {
                self.put(known);
            }
        }
    }

    /// Whether nothing is known of any path.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn put(&mut self, new: Known) {
        self.0.retain(|known| known.key() != new.key());
        if self.0.len() == MAX_PATHS {
            self.0.remove(0);
        }
        self.0.push(new);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mpbond_units::{BitRate, Timestamp};

    use super::*;
    use crate::{FarReport, PathInfo, Role};

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
        used_at(0, name, helper, role)
    }

    fn used_at(at: u64, name: &str, helper: Option<u32>, role: Role) -> Subflow {
        let mut s = Subflow::for_test(1, helper, role);
        s.name = name.into();
        s.estimator.on_path(ms(at), info(50, 5e6));
        s
    }

    /// Throughput of a connection over the path of a name, made at an instant, by its first round
    /// trip.
    fn begins_at(known: &KnownPaths, name: &str, at: u64, rtt_ms: u64) -> f64 {
        let s = begun_at(known, name, at, rtt_ms);
        s.throughput(ms(at)).bytes_per_sec()
    }

    fn begun_at(known: &KnownPaths, name: &str, at: u64, rtt_ms: u64) -> Subflow {
        let mut s = Subflow::unused_for_test(name);
        known.tell(&mut s);
        let first = PathInfo {
            bytes_arrived: 0,
            delivery_rate: BitRate::ZERO,
            slow_start: true,
            ..info(rtt_ms, 0.0)
        };
        s.estimator.on_path(ms(at), first);
        s
    }

    #[test]
    fn a_connection_begins_with_what_its_path_has_shown() {
        let mut known = KnownPaths::default();
        known.note(&used("wifi", None, Role::Regular));
        known.note(&used("other", Some(7), Role::Regular));
        assert_eq!(begins_at(&known, "wifi", 1_000, 50), 5e6);
        // Not for longer than that of a connection that lasts, nor in another network.
        assert_eq!(begins_at(&known, "wifi", 601_000, 50), 292_000.0);
        assert_eq!(begins_at(&known, "wifi", 1_000, 20), 730_000.0);
        assert_eq!(begins_at(&known, "wifi", 1_000, 501).round(), 29_142.0);
        // Not that of a helper of this name.
        assert_eq!(begins_at(&known, "other", 1_000, 50), 292_000.0);
    }

    /// What is old must not keep a flow in slow start from what its far end measures.
    #[test]
    fn what_is_old_holds_nothing_back() {
        let mut known = KnownPaths::default();
        known.note(&used("wifi", None, Role::Regular));
        for (at, expected) in [(1_000, 5e6), (601_000, 2e6)] {
            let mut s = begun_at(&known, "wifi", at, 50);
            let pace = BitRate::from_bytes_per_sec(2e6);
            s.estimator.on_pace(ms(at), pace);
            assert_eq!(s.throughput(ms(at)).bytes_per_sec(), expected, "{at} ms");
        }
    }

    #[test]
    fn of_a_path_that_has_failed_nothing_is_known() {
        let mut known = KnownPaths::default();
        let mut s = used("wifi", None, Role::Regular);
        known.note(&s);
        s.health.fail_for_test();
        known.note(&s);
        assert!(known.0.is_empty());
    }

    #[test]
    fn a_rate_at_which_a_helper_holds_bytes_back_is_not_that_of_its_path() {
        let mut known = KnownPaths::default();
        let mut s = used("phone", None, Role::Regular);
        known.note(&s);
        let mut measures = |at, bytes_arrived, rate| {
            let info = PathInfo {
                bytes_arrived,
                ..info(50, rate)
            };
            s.estimator.on_path(ms(at), info);
            known.note(&s);
            let knows = begins_at(&known, "phone", at, 50);
            let report = FarReport {
                held_back: bytes_arrived < 4,
                ..FarReport::default()
            };
            s.estimator.on_far_report(ms(at), report);
            knows
        };
        assert!(measures(1_000, 2, 4e6) < 4.1e6);
        // What was known before stays, until the limit has long held nothing back.
        let before = measures(2_000, 3, 1e6);
        assert!((4e6..4.1e6).contains(&before), "{before}");
        assert_eq!(measures(2_900, 4, 2e6), before);
        let now = measures(3_900, 5, 3e6);
        assert!((2.9e6..3.1e6).contains(&now), "{now}");
    }

    #[test]
    fn of_two_sessions_the_later_measurement_counts() {
        let mut known = KnownPaths::default();
        known.note(&used_at(500, "wifi", None, Role::Regular));
        let mut other = KnownPaths::default();
        other.note(&used("wifi", None, Role::Regular));
        other.note(&used("lte", None, Role::Regular));
        known.add(other);
        assert_eq!(known.0.len(), 2);
        let at = |name| known.0.iter().find(|k| k.name == name).map(|k| k.path.at());
        assert_eq!([at("wifi"), at("lte")], [Some(ms(500)), Some(ms(0))]);
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
        let window_only = begun_at(&KnownPaths::default(), "wifi", 0, 50);
        known.note(&window_only);
        known.note(&used("wifi", None, Role::Express));
        assert!(known.0.is_empty());
    }
}
