//! When a subflow that makes no progress is probed, counts as potentially failed, and is given up;
//! when a primary that only waits asks whether its subflows work, and keeps one from being
//! forgotten ([`keep_alive`]).

pub(super) mod keep_alive;

use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

use super::streams::Streams;
use crate::SubflowId;
use crate::config::SessionConfig;
use crate::subflow::{Phase, Subflow};
use crate::wire::MAX_RECORD_BYTES;

/// A subflow that has been potentially failed for this long, and has brought no stream bytes, is
/// given up and joined anew; so is one whose hello is not answered.
const GIVE_UP_AFTER: Duration = Duration::from_secs(15);

/// The same for a subflow that is to open the session while others wait for it: a handshake of two
/// round trips has just come through there.
const OPEN_WITHIN: Duration = Duration::from_secs(5);

/// Least silence before a subflow is probed, and between probes: ACKs come 25 ms apart.
const LEAST_PROBE: Duration = Duration::from_millis(50);

/// Most probes of one silence.
const MAX_PROBES: u32 = 12;

/// Pauses after which a waiting primary asks whether its paths work. Both lie within the tails of
/// cellular radios, so that asking wakes none. After the second it asks only while an answer is
/// awaited: after a silence, the proxy's TCP may wait for as long again before it retransmits the
/// answer. Most answers have arrived by then. From then on a path is kept by the keep-alive.
const ASK_AFTER: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(10)];

/// A subflow that was idle for this long before it fell silent has more likely been forgotten by a
/// NAT than not. None is known to forget an established connection sooner, and gaps within a
/// transfer are shorter.
pub const IDLE_LONG: Duration = Duration::from_secs(5);

/// What the deadlines of subflows depend on.
pub(super) struct Watch<'a> {
    pub(super) config: &'a SessionConfig,
    pub(super) client: bool,
    pub(super) subflows: &'a [Subflow],
    /// Subflow of the peer's last ACK, and when that came.
    pub(super) last_ack: Option<(SubflowId, Timestamp)>,
}

/// What a deadline that has passed means for a subflow.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is potentially failed from now on.
    PotentiallyFailed,
    /// It is given up, for a reason.
    GivenUp(String),
}

impl Watch<'_> {
    /// The earliest deadline of any subflow.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let of = |s| {
            let due = earlier(self.verdict_at(s), self.probe_at(s));
            earlier(due, self.copies_at(s))
        };
        self.subflows.iter().filter_map(of).min()
    }

    /// Potentially failed subflows of whose bytes others are given copies from now on.
    pub(super) fn to_copy(&self, now: Timestamp) -> Vec<SubflowId> {
        let due = |s: &&Subflow| self.copies_at(s).is_some_and(|t| t <= now);
        self.subflows.iter().filter(due).map(|s| s.id).collect()
    }

    /// Subflows that are to be probed now.
    pub(super) fn to_probe(&self, now: Timestamp) -> Vec<SubflowId> {
        let due = |s: &&Subflow| self.probe_at(s).is_some_and(|t| t <= now);
        self.subflows.iter().filter(due).map(|s| s.id).collect()
    }

    /// Subflows that have passed a deadline, and what that means for them.
    pub(super) fn verdicts(&self, now: Timestamp) -> Vec<(SubflowId, Verdict)> {
        let due = |s: &&Subflow| self.verdict_at(s).is_some_and(|t| t <= now);
        let subflows = self.subflows.iter().filter(due);
        subflows.map(|s| (s.id, self.verdict(now, s))).collect()
    }

    fn verdict(&self, now: Timestamp, s: &Subflow) -> Verdict {
        let unanswered = self.unanswered_at(s).is_some_and(|t| t <= now);
        let seconds = |t: Option<Timestamp>| t.map_or(0, |t| now.since(t).as_secs());
        if unanswered {
            Verdict::GivenUp(format!("no answer for {} s", seconds(s.hello_at)))
        } else if s.has_failed() {
            Verdict::GivenUp(format!("silent for {} s", seconds(useless_since(s))))
        } else {
            Verdict::PotentiallyFailed
        }
    }

    fn verdict_at(&self, s: &Subflow) -> Option<Timestamp> {
        let silent = match useless_since(s) {
            Some(since) => Some(since + self.patience(s)),
            None => self.fails_at(s),
        };
        earlier(self.unanswered_at(s), silent)
    }

    /// When a hello has been unanswered for too long.
    fn unanswered_at(&self, s: &Subflow) -> Option<Timestamp> {
        let since = s.unanswered_since()?;
        let waits = |o: &Subflow| o.phase == Phase::AwaitSession;
        let opens = s.phase == Phase::AwaitOk && self.subflows.iter().any(waits);
        Some(since + if opens { OPEN_WITHIN } else { GIVE_UP_AFTER })
    }

    /// When a subflow that owes something has made no progress for longer than any repair takes.
    fn fails_at(&self, s: &Subflow) -> Option<Timestamp> {
        let oldest = s.sent.oldest()?;
        if !self.config.reinjection.potential_failure {
            return None;
        }
        Some(s.health.progress_at.max(oldest) + self.silence_allowed(s))
    }

    /// Time from which on others are given copies of what a potentially failed subflow owes: the
    /// end of the failure timeout, counted from the last sign of the peer's process or of its TCP
    /// (ADR 0032). `None` once they are given, and while the subflow works or owes nothing.
    fn copies_at(&self, s: &Subflow) -> Option<Timestamp> {
        if !s.has_failed() || s.health.copied {
            return None;
        }
        let oldest = s.sent.oldest()?;
        Some(s.health.silent_since(oldest) + self.silence_allowed(s))
    }

    /// Maximum silence of a subflow that owes something: four round trips cover a repair of lost
    /// packets, two records' time and the ACK's own delay the usual interval. After an idle time no
    /// queue delays the owed octets, which are often few.
    fn silence_allowed(&self, s: &Subflow) -> Duration {
        let rate = s.throughput(s.health.progress_at);
        let mut records = record_time(rate) * 2;
        if s.health.idle_before >= IDLE_LONG {
            let owed = s.tx.octets.saturating_sub(s.tx.acked);
            records = records.min(rate.time_for(owed));
        }
        self.config.reinjection.least_silence
            + s.estimator.rtt() * 4
            + records
            + self.config.ack_delay
    }

    /// How long a potentially failed subflow is kept. A proxy cannot dial: while it has nothing
    /// better, the connection that may come back to life is all there is, and a primary that only
    /// waits for data would not notice that it was given up.
    fn patience(&self, s: &Subflow) -> Duration {
        let works = |o: &Subflow| o.id != s.id && o.works();
        if self.client || self.subflows.iter().any(works) {
            GIVE_UP_AFTER
        } else {
            GIVE_UP_AFTER.max(self.config.resume_for)
        }
    }

    /// When a subflow whose acknowledgements came evenly, or that has just begun to carry bytes, is
    /// to be probed, because the application should not wait for it any longer: well before it can
    /// count as failed.
    fn probe_at(&self, s: &Subflow) -> Option<Timestamp> {
        let health = &s.health;
        if !self.config.reinjection.probes
            || s.has_failed()
            || s.sent.useful_bytes() == 0
            || health.probes >= MAX_PROBES
        {
            return None;
        }
        // If no ACK comes at all, nothing is known of the other subflows either: the path that
        // brought the ACKs has failed.
        let heard_since = |(on, at)| at > health.progress_at || on == s.id;
        if !self.last_ack.is_some_and(heard_since) {
            return None;
        }
        let (since, usual) = match health.longest_interval() {
            Some(interval) => (health.progress_at, interval),
            None => self.young_silence(s)?,
        };
        let patience = (usual * 5 / 4).max(LEAST_PROBE);
        let next = (patience / 2).max(LEAST_PROBE);
        Some(since + patience + next * health.probes)
    }

    /// Begin of a silence of a subflow whose advances are too few to show an interval, and the
    /// round-trip time in place of that. The host's TCP tells a silent path from a late
    /// acknowledgement of its process; through a helper, nothing does (ADR 0079).
    ///
    /// A path that sleeps during a pause takes longer than usual for the first octets after it, so
    /// that one advance must have shown that it is awake. Without TCP_INFO there is no round-trip
    /// time, and nothing tells how TCP fares.
    fn young_silence(&self, s: &Subflow) -> Option<(Timestamp, Duration)> {
        let rtt = s.estimator.rtt();
        let tells = s.is_direct() && !s.health.delivered && !rtt.is_zero();
        if !tells || !s.health.has_advanced() {
            return None;
        }
        Some((s.health.silent_since(s.sent.oldest()?), rtt))
    }
}

/// Time from which on a potentially failed subflow has brought no stream bytes either. While it
/// does, nothing is gained by its end: what a helper holds for it would be lost, and an ACK that
/// has no other way lies behind that. A path that loses packets in the other direction soon brings
/// nothing more, because TCP's acknowledgements are lost; else the peer's windows end it.
fn useless_since(s: &Subflow) -> Option<Timestamp> {
    let failed = s.health.failed_since?;
    Some(s.counters.last_in.map_or(failed, |at| at.max(failed)))
}

fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    [a, b].into_iter().flatten().min()
}

fn record_time(rate: BitRate) -> Duration {
    rate.time_for(MAX_RECORD_BYTES as u64)
        .min(Duration::from_secs(1))
}

/// Questions of a waiting primary whether its subflows work. It cannot tell a slow origin from a
/// dead path, and a proxy whose paths have all gone silent cannot call it.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// How often it has asked since bytes last arrived or a stream was opened.
    asks: usize,
    /// When it last did.
    asked_at: Timestamp,
}

impl Liveness {
    /// Bytes have arrived, or a stream was opened.
    pub(super) fn reset(&mut self) {
        self.asks = 0;
    }

    /// When a primary with open streams asks: once after each time that bytes came, and again while
    /// an answer is due. Where none is due it leaves radios asleep.
    pub(super) fn deadline(&self, streams: &Streams, subflows: &[Subflow]) -> Option<Timestamp> {
        if streams.is_empty() {
            return None;
        }
        let heard = subflows.iter().map(|s| s.rx.at).max()?;
        let pause = *ASK_AFTER.get(self.asks)?;
        if self.asks == 0 {
            return Some(heard + pause);
        }
        // Bytes that are still to be sent ask by themselves.
        let due = streams.await_answer() && !streams.has_ready();
        let sent = subflows.iter().filter_map(|s| s.counters.last_out).max();
        let since = sent.unwrap_or(heard).max(heard).max(self.asked_at);
        due.then_some(since + pause)
    }

    /// Asks now, by a PING on one subflow: the peer, which learns by its own bytes that others are
    /// silent, needs no more than one that works. A direct one wakes no helper. Where none works,
    /// all are asked.
    pub(super) fn ask(&mut self, now: Timestamp, subflows: &mut [Subflow]) {
        self.asks += 1;
        self.asked_at = now;
        let working = subflows.iter_mut().filter(|s| s.works() && !s.is_express());
        match working.max_by_key(|s| (s.is_regular(), s.is_direct(), s.rx.at)) {
            Some(s) => s.pings.wanted = true,
            None => ask_idle(now, subflows),
        }
    }
}

/// Asks by a PING on each subflow that has brought nothing for long: another one has fallen silent,
/// and they may have as well. An express goes through a helper that is asked over its own subflow.
pub(super) fn ask_idle(now: Timestamp, subflows: &mut [Subflow]) {
    let idle = |s: &&mut Subflow| {
        s.carries() && !s.is_express() && s.sent.is_empty() && now.since(s.rx.at) >= IDLE_LONG
    };
    for s in subflows.iter_mut().filter(idle) {
        s.pings.wanted = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Stream;
    use crate::{Role, StreamClass};

    fn ms(v: u64) -> Timestamp {
        Timestamp::from_millis(v)
    }

    /// A subflow whose count advanced every 40 ms until 1,000 ms, and that owes something since.
    fn even(id: u32) -> Subflow {
        let mut s = Subflow::for_test(id, None, Role::Regular);
        s.give(ms(600), 0, 0..1_000);
        for at in (640..=1_000).step_by(40) {
            s.health.advanced(ms(at));
        }
        s
    }

    fn watch<'a>(config: &'a SessionConfig, subflows: &'a [Subflow]) -> Watch<'a> {
        Watch {
            config,
            client: true,
            subflows,
            last_ack: Some((SubflowId(9), ms(1_001))),
        }
    }

    #[test]
    fn a_silent_subflow_is_probed_again_and_again_then_fails_then_is_given_up() {
        let config = SessionConfig::default();
        let mut subflows = [even(1)];
        // 200 ms, four round trips of 50 ms, two records at 1 MB/s, an ACK's delay of 25 ms.
        let fails_at =
            ms(1_000) + Duration::from_millis(425) + record_time(BitRate::from_mbps(8.0)) * 2;
        // Five quarters of 40 ms, then every 50 ms.
        for (probes, at) in [(0, 1_050), (1, 1_100), (4, 1_250), (11, 1_600)] {
            subflows[0].health.probes = probes;
            let watch = watch(&config, &subflows);
            assert_eq!(watch.deadline(), Some(ms(at).min(fails_at)), "{probes}");
            assert!(watch.to_probe(ms(at - 1)).is_empty());
            assert_eq!(watch.to_probe(ms(at)), [SubflowId(1)]);
        }
        subflows[0].health.probes = MAX_PROBES;
        let watch_one = watch(&config, &subflows);
        assert_eq!(watch_one.deadline(), Some(fails_at));
        let expected = [(SubflowId(1), Verdict::PotentiallyFailed)];
        assert_eq!(watch_one.verdicts(fails_at), expected);
        subflows[0].health.failed_since = Some(ms(2_000));
        let verdicts = watch(&config, &subflows).verdicts(ms(17_000));
        let expected = Verdict::GivenUp("silent for 15 s".to_owned());
        assert_eq!(verdicts, [(SubflowId(1), expected)]);
    }

    #[test]
    fn a_subflow_that_brings_bytes_fails_as_soon_but_is_given_up_only_after_the_last_of_them() {
        let config = SessionConfig::default();
        let mut subflows = [even(1), Subflow::for_test(2, None, Role::Regular)];
        let fails_at = watch(&config, &subflows).verdict_at(&subflows[0]);
        subflows[0].counters.last_in = Some(ms(1_400));
        assert_eq!(watch(&config, &subflows).verdict_at(&subflows[0]), fails_at);
        subflows[0].health.failed_since = fails_at;
        let given_up = |subflows: &[Subflow]| watch(&config, subflows).verdict_at(&subflows[0]);
        assert_eq!(given_up(&subflows), fails_at.map(|t| t + GIVE_UP_AFTER));
        subflows[0].counters.last_in = Some(ms(9_000));
        assert_eq!(given_up(&subflows), Some(ms(24_000)));
        let expected = Verdict::GivenUp("silent for 15 s".to_owned());
        let verdicts = watch(&config, &subflows).verdicts(ms(24_000));
        assert_eq!(verdicts, [(SubflowId(1), expected)]);
    }

    #[test]
    fn an_express_that_alone_carries_bytes_is_probed_like_others() {
        let config = SessionConfig::default();
        let mut express = even(1);
        express.role = Role::Express;
        let subflows = [express];
        let watch = watch(&config, &subflows);
        assert!(watch.to_probe(ms(1_049)).is_empty());
        assert_eq!(watch.to_probe(ms(1_050)), [SubflowId(1)]);
    }

    #[test]
    fn from_one_advance_to_eight_a_direct_subflow_is_probed_after_five_quarters_of_a_round_trip() {
        let config = SessionConfig::default();
        let young = |helper| {
            let mut s = Subflow::for_test(1, helper, Role::Regular);
            s.give(ms(600), 0, 0..1_000);
            for _ in 0..7 {
                s.health.advanced(ms(1_000));
            }
            s
        };
        let due = |s: &Subflow| watch(&config, std::slice::from_ref(s)).probe_at(s);
        let mut s = young(None);
        let round_trip = Duration::from_millis(50);
        assert_eq!(due(&s), Some(ms(1_000) + round_trip * 5 / 4));
        s.health.probes = 2;
        assert_eq!(due(&s), Some(ms(1_100) + round_trip * 5 / 4));
        s.health.probes = 0;
        // TCP goes on, or the other end's host has all: the acknowledgement is late.
        s.health.on_tcp(ms(1_030), 500, false);
        assert_eq!(due(&s), Some(ms(1_030) + round_trip * 5 / 4));
        s.health.on_tcp(ms(1_040), 1_000, true);
        assert_eq!(due(&s), None);
        // The host is the helper's.
        assert_eq!(due(&young(Some(0))), None);
        // Of TCP nothing is known.
        let mut unknown = Subflow::unused_for_test("link0");
        unknown.give(ms(600), 0, 0..1_000);
        unknown.health.advanced(ms(1_000));
        assert_eq!(due(&unknown), None);
        let path = crate::PathInfo {
            srtt: round_trip,
            ..crate::PathInfo::default()
        };
        unknown.estimator.on_path(ms(1_000), path);
        assert_eq!(due(&unknown), Some(ms(1_000) + round_trip * 5 / 4));
        // After a pause one advance shows that the path is awake.
        let mut woken = young(None);
        woken.health.owes_again(ms(1_000), ms(900));
        assert_eq!(due(&woken), None);
        woken.health.advanced(ms(1_000));
        assert_eq!(due(&woken), Some(ms(1_000) + round_trip * 5 / 4));
        // An eighth advance shows the interval, here none.
        s.health.advanced(ms(1_000));
        assert_eq!(due(&s), Some(ms(1_000) + LEAST_PROBE));
    }

    #[test]
    fn after_an_idle_time_no_more_than_what_is_owed_lies_before_the_answer() {
        let config = SessionConfig::default();
        let fails_after = |idle: Duration, bytes| {
            let mut s = Subflow::for_test(1, None, Role::Regular);
            let at = ms(0) + idle;
            s.give(at, 0, 0..bytes);
            let deadline = watch(&config, &[s]).deadline().unwrap();
            deadline.since(at)
        };
        // 200 ms, four round trips of 50 ms, an ACK's delay of 25 ms; then octets at 1 MB/s.
        let least = Duration::from_millis(425);
        let usual = least + record_time(BitRate::from_mbps(8.0)) * 2;
        let almost = IDLE_LONG - Duration::from_nanos(1);
        assert_eq!(fails_after(almost, 978), usual);
        assert_eq!(
            fails_after(IDLE_LONG, 978),
            least + Duration::from_millis(1)
        );
        assert_eq!(fails_after(IDLE_LONG, 100_000), usual);
    }

    #[test]
    fn copies_wait_while_tcp_goes_on_but_the_state_does_not() {
        let config = SessionConfig::default();
        let allowed = Duration::from_millis(425) + record_time(BitRate::from_mbps(8.0)) * 2;
        let mut subflows = [even(1)];
        // TCP awaits nothing at 1,300 ms; the peer's process has last acknowledged at 1,000 ms.
        subflows[0].health.on_tcp(ms(1_300), 1_000, true);
        let fails_at = ms(1_000) + allowed;
        let verdicts = watch(&config, &subflows).verdicts(fails_at);
        assert_eq!(verdicts, [(SubflowId(1), Verdict::PotentiallyFailed)]);
        subflows[0].health.failed_since = Some(fails_at);
        let due = |subflows: &[Subflow], at| {
            let watch = watch(&config, subflows);
            assert_eq!(watch.deadline(), Some(at));
            assert!(watch.to_copy(fails_at).is_empty() || at == fails_at);
            assert_eq!(watch.to_copy(at), [SubflowId(1)]);
        };
        due(&subflows, ms(1_300) + allowed);
        // TCP awaits an acknowledgement that does not come: no longer.
        subflows[0].health.on_tcp(ms(1_600), 1_000, false);
        due(&subflows, ms(1_300) + allowed);
        // It goes on, but for no more than 5 s.
        subflows[0].health.on_tcp(ms(7_000), 2_000, false);
        due(&subflows, ms(6_000) + allowed);
        // A dead path: TCP has not gone on since the count did.
        let mut dead = [even(1)];
        dead[0].health.failed_since = Some(fails_at);
        due(&dead, fails_at);
    }

    #[test]
    fn a_proxy_keeps_the_last_connection_for_as_long_as_the_session() {
        let config = SessionConfig::default();
        let mut subflows = vec![even(1)];
        subflows[0].health.failed_since = Some(ms(2_000));
        subflows[0].health.copied = true;
        let at_proxy = |subflows: &[Subflow]| {
            let watch = Watch {
                client: false,
                ..watch(&config, subflows)
            };
            watch.deadline()
        };
        assert_eq!(at_proxy(&subflows), Some(ms(62_000)));
        subflows.push(Subflow::for_test(2, None, Role::Backup));
        assert_eq!(at_proxy(&subflows), Some(ms(17_000)));
    }

    #[test]
    fn where_no_ack_comes_at_all_only_the_path_that_brought_them_is_probed() {
        let config = SessionConfig::default();
        let subflows = [even(1), even(2)];
        let silent = Watch {
            last_ack: Some((SubflowId(2), ms(1_000))),
            ..watch(&config, &subflows)
        };
        assert_eq!(silent.to_probe(ms(1_200)), [SubflowId(2)]);
        let none = Watch {
            last_ack: None,
            ..watch(&config, &subflows)
        };
        assert!(none.to_probe(ms(1_200)).is_empty());
    }

    #[test]
    fn a_hello_waits_for_its_answer_for_less_long_while_others_wait_for_it() {
        let config = SessionConfig::default();
        let mut subflows = vec![Subflow::for_test(1, None, Role::Regular)];
        subflows[0].phase = Phase::AwaitOk;
        subflows[0].hello_at = Some(ms(1_000));
        assert_eq!(watch(&config, &subflows).deadline(), Some(ms(16_000)));
        subflows.push(Subflow::for_test(2, None, Role::Regular));
        subflows[1].phase = Phase::AwaitSession;
        let watch = watch(&config, &subflows);
        assert_eq!(watch.deadline(), Some(ms(6_000)));
        let expected = Verdict::GivenUp("no answer for 5 s".to_owned());
        assert_eq!(watch.verdicts(ms(6_000)), [(SubflowId(1), expected)]);
    }

    #[test]
    fn a_primary_asks_twice_while_an_answer_is_due() {
        let mut streams = Streams::new();
        let mut subflows = [Subflow::for_test(1, None, Role::Regular)];
        let mut liveness = Liveness::default();
        assert_eq!(liveness.deadline(&streams, &subflows), None);
        let id = streams.open(Stream::new(StreamClass::Bulk, None, ms(0), 1_000));
        let mut asked = Vec::new();
        for wrote in [true, false] {
            streams.get_mut(id).unwrap().wrote_last = wrote;
            streams.update(id);
            liveness.reset();
            while let Some(at) = liveness.deadline(&streams, &subflows) {
                liveness.ask(at, &mut subflows);
                asked.push(at.since(ms(0)).as_secs());
                assert!(std::mem::take(&mut subflows[0].pings.wanted));
            }
        }
        // Without an answer that is due it asks once.
        assert_eq!(asked, [5, 15, 5]);
    }

    #[test]
    fn one_subflow_that_works_is_asked_and_a_direct_one_first() {
        let mut subflows = [
            Subflow::for_test(1, Some(0), Role::Regular),
            Subflow::for_test(2, None, Role::Backup),
            Subflow::for_test(3, None, Role::Regular),
            Subflow::for_test(4, Some(0), Role::Express),
        ];
        let mut asked = |failed: &[usize]| -> Vec<u32> {
            for i in failed {
                subflows[*i].health.failed_since = Some(ms(1));
            }
            Liveness::default().ask(ms(5_000), &mut subflows);
            let asked = subflows.iter_mut();
            let asked = asked.filter_map(|s| std::mem::take(&mut s.pings.wanted).then_some(s.id.0));
            asked.collect()
        };
        assert_eq!(asked(&[]), [3]);
        assert_eq!(asked(&[2]), [1]);
        assert_eq!(asked(&[0]), [2]);
        assert_eq!(asked(&[1]), [1, 2, 3]);
    }

    #[test]
    fn after_a_silence_those_that_have_brought_something_lately_are_not_asked() {
        let mut subflows = [1, 2, 3].map(|id| Subflow::for_test(id, None, Role::Regular));
        subflows[1].rx.at = ms(4_001);
        subflows[2].give(ms(0), 0, 0..10);
        ask_idle(ms(9_000), &mut subflows);
        assert_eq!(subflows.map(|s| s.pings.wanted), [true, false, false]);
    }
}
