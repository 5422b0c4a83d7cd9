//! Whether a subflow's acknowledgements go on.

use std::time::Duration;

use mpbond_units::Timestamp;

/// Probes after which new data keeps away from a subflow: about a quarter of a second of silence.
/// TCP repairs a first overrun of a queue for that long; a subflow that is avoided for it runs out
/// of bytes before it goes on, while a helper has been given too many.
const AVOIDED_AT: u32 = 4;

/// Longest delay of copies while TCP goes on (ADR 0032), and of an early probe (ADR 0079): the
/// other end's process may be late. A middlebox that acknowledges for the host delays them by so
/// much.
const EXCUSED: Duration = Duration::from_secs(5);

/// What is known of a subflow's path, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// Acknowledgements advance, or nothing is owed.
    Active,
    /// They have stopped for longer than usual: other subflows were given a few of the owed bytes
    /// that the receiving application needs first, as a sender of TCP probes for a lost tail
    /// (RFC 8985, section 7).
    Probed,
    /// The same for long enough that new data keeps away from it.
    Avoided,
    /// They have stopped for longer than any repair takes: other subflows are given all that it
    /// owes, as soon as TCP has stopped as well (RFC 7829 of SCTP, section 3: potentially failed).
    PotentiallyFailed,
}

/// Progress of a subflow's acknowledgements.
#[derive(Debug)]
pub(crate) struct Health {
    /// When the ACK count last advanced, or data was first owed after a pause.
    pub(crate) progress_at: Timestamp,
    /// State of a direct connection whose TCP awaited no acknowledgement at the last look, and on
    /// which nothing was written since: the other end's host has all that its window let go.
    pub(crate) delivered: bool,
    /// Time of the last look at which TCP awaited no acknowledgement, or one had come.
    delivered_at: Timestamp,
    /// Octets that TCP had acknowledged at the last look.
    tcp_acked: u64,
    intervals: AckIntervals,
    /// Probes since then.
    pub(crate) probes: u32,
    /// Potentially failed since.
    pub(crate) failed_since: Option<Timestamp>,
    /// It has failed potentially for so long that others are given copies of all that it owes.
    pub(crate) copied: bool,
    /// How long nothing had come or gone when data was last owed after a pause; zero from the first
    /// acknowledgement on.
    pub(crate) idle_before: Duration,
    /// Longest such time after which an acknowledgement came.
    pub(crate) idle_survived: Duration,
}

impl Health {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            progress_at: now,
            delivered: false,
            delivered_at: now,
            tcp_acked: 0,
            intervals: AckIntervals::default(),
            probes: 0,
            failed_since: None,
            copied: false,
            idle_before: Duration::ZERO,
            idle_survived: Duration::ZERO,
        }
    }

    /// A look at the TCP connection to the other end: the octets that it has acknowledged, and
    /// whether these are all. The kernel acknowledges without the process, which may be late.
    pub(crate) fn on_tcp(&mut self, now: Timestamp, acked: u64, all_acked: bool) {
        self.delivered = all_acked;
        if all_acked || acked > self.tcp_acked {
            self.delivered_at = now;
        }
        self.tcp_acked = acked;
    }

    /// Begin of a silence of both the count and TCP: the last time at which either showed that the
    /// path works, but at most [`EXCUSED`] after the count did. The failure timeout before copies
    /// runs from it, and the time before an early probe (ADR 0079). `oldest` is the time at which
    /// the oldest owed record was written.
    pub(crate) fn silent_since(&self, oldest: Timestamp) -> Timestamp {
        let since = self.progress_at.max(oldest);
        since.max(self.delivered_at.min(since + EXCUSED))
    }

    pub(crate) fn standing(&self) -> Standing {
        match self.probes {
            _ if self.failed_since.is_some() => Standing::PotentiallyFailed,
            0 => Standing::Active,
            1..AVOIDED_AT => Standing::Probed,
            _ => Standing::Avoided,
        }
    }

    /// Data is owed again after a pause, in which a record last came at `heard`.
    pub(crate) fn owes_again(&mut self, now: Timestamp, heard: Timestamp) {
        self.idle_before = now.since(heard.max(self.progress_at));
        self.progress_at = now;
        self.intervals.pause();
        self.probes = 0;
    }

    /// The ACK count has advanced. Returns the time since it last did if the subflow had
    /// potentially failed.
    pub(crate) fn advanced(&mut self, now: Timestamp) -> Option<Duration> {
        self.idle_survived = self.idle_survived.max(self.idle_before);
        self.idle_before = Duration::ZERO;
        let silent = now.since(self.progress_at);
        self.intervals.add(silent);
        self.progress_at = now;
        self.probes = 0;
        self.copied = false;
        self.failed_since.take().map(|_| silent)
    }

    /// Whether the ACK count has advanced since the last pause.
    pub(crate) fn has_advanced(&self) -> bool {
        self.intervals.advances > 0
    }

    /// Longest recent interval between ACK advances, once that is known.
    pub(crate) fn longest_interval(&self) -> Option<Duration> {
        (self.intervals.advances >= AckIntervals::ENOUGH).then_some(self.intervals.longest)
    }
}

/// Intervals between advances of a subflow's ACK count while it owes something.
#[derive(Debug, Clone, Copy, Default)]
struct AckIntervals {
    /// Advances since the last pause.
    advances: u32,
    /// Longest recent interval between two. It decays by 2 % per advance, so that it halves within
    /// about a second.
    longest: Duration,
}

impl AckIntervals {
    /// Number of advances that show what is usual.
    const ENOUGH: u32 = 8;

    fn add(&mut self, interval: Duration) {
        if self.advances > 0 {
            self.longest = interval.max(self.longest - self.longest / 50);
        }
        self.advances = self.advances.saturating_add(1);
    }

    /// Nothing is owed: the next interval is none between advances.
    fn pause(&mut self) {
        self.advances = 0;
    }
}

#[cfg(test)]
impl Health {
    /// The subflow has failed potentially.
    pub(crate) fn fail_for_test(&mut self) {
        self.failed_since = Some(Timestamp::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(v: u64) -> Timestamp {
        Timestamp::from_millis(v)
    }

    #[test]
    fn eight_advances_show_the_usual_interval() {
        let mut health = Health::new(ms(0));
        health.owes_again(ms(1_000), ms(0));
        // The first one is a round trip, not an interval.
        for at in [1_300, 1_325, 1_350, 1_375, 1_400, 1_425, 1_450] {
            assert_eq!(health.advanced(ms(at)), None);
            assert_eq!(health.longest_interval(), None);
        }
        health.advanced(ms(1_490));
        let longest = health.longest_interval();
        assert_eq!(longest, Some(Duration::from_millis(40)));
        health.advanced(ms(1_500));
        assert_eq!(health.longest_interval(), longest.map(|l| l * 49 / 50));
        health.owes_again(ms(9_000), ms(2_000));
        assert_eq!(health.longest_interval(), None);
    }

    #[test]
    fn a_process_may_be_late_for_a_while_where_tcp_goes_on() {
        let mut health = Health::new(ms(0));
        health.advanced(ms(1_000));
        assert_eq!(health.silent_since(ms(900)), ms(1_000));
        // TCP's acknowledgement advances, then rests while one is awaited.
        health.on_tcp(ms(1_400), 5_000, false);
        health.on_tcp(ms(1_800), 5_000, false);
        assert_eq!(health.silent_since(ms(900)), ms(1_400));
        assert!(!health.delivered);
        // None is awaited.
        health.on_tcp(ms(1_900), 5_000, true);
        assert_eq!(health.silent_since(ms(900)), ms(1_900));
        assert!(health.delivered);
        health.on_tcp(ms(9_000), 6_000, true);
        assert_eq!(health.silent_since(ms(900)), ms(6_000));
        assert_eq!(health.silent_since(ms(8_000)), ms(9_000));
    }

    #[test]
    fn an_idle_time_is_survived_when_an_acknowledgement_comes() {
        let mut health = Health::new(ms(0));
        health.owes_again(ms(30_000), ms(10_000));
        assert_eq!(health.idle_before, Duration::from_secs(20));
        assert_eq!(health.idle_survived, Duration::ZERO);
        health.advanced(ms(30_100));
        assert_eq!(health.idle_survived, Duration::from_secs(20));
        // Progress ends an idle time as a record does; a shorter one changes nothing.
        health.owes_again(ms(35_100), ms(10_000));
        assert_eq!(health.idle_before, Duration::from_secs(5));
        health.advanced(ms(36_000));
        assert_eq!(health.idle_before, Duration::ZERO);
        assert_eq!(health.idle_survived, Duration::from_secs(20));
    }

    #[test]
    fn standing_falls_step_by_step_and_recovers_at_once() {
        let mut health = Health::new(ms(0));
        let mut seen = vec![health.standing()];
        for _ in 0..AVOIDED_AT {
            health.probes += 1;
            seen.push(health.standing());
        }
        health.failed_since = Some(ms(1));
        seen.push(health.standing());
        assert!(seen.is_sorted(), "{seen:?}");
        seen.dedup();
        assert_eq!(seen.len(), 4, "{seen:?}");
        assert_eq!(health.advanced(ms(2)), Some(Duration::from_millis(2)));
        assert_eq!(health.standing(), Standing::Active);
        assert_eq!(health.advanced(ms(3)), None);
    }
}
