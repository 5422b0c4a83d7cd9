//! A day in the life of a laptop with a phone and a watch as helpers, in virtual time.
//!
//! Sessions, path manager, TCP and links are those of [`crate::world`]; networks and faults are in
//! `schedule`, requests in `traffic`. Every byte of every request is checked. The report has the
//! longest wait of any request with its cause, and packets and energy of quiet hours beside the
//! least that keep-alives need. A seed always gives the same day.

mod account;
mod schedule;
mod traffic;

use std::time::Duration;

use mpbond_statistics::Sample;
use mpbond_units::Timestamp;
use serde::Serialize;

pub use account::QuietLink;

use account::Accounts;
use schedule::Schedule;
use traffic::{Kind, Request};

use crate::world::{Dice, Lasting, Note, Noted, Scenario, Served, World};

/// Keep-alive of all daemons.
const KEEPALIVE: Duration = Duration::from_secs(240);

/// Pause of an application before it repeats a request.
const REPEAT_AFTER: Duration = Duration::from_secs(1);

/// Time after the end of the day in which the last requests have to be served.
const OVERTIME: Duration = Duration::from_secs(3_600);

/// Names of [`schedule::routes`].
const ROUTES: [&str; 3] = ["laptop's", "phone's", "watch's"];

/// A part of a day.
#[derive(Debug, Clone, Copy)]
pub struct Day {
    /// Seed of the day.
    pub seed: u64,
    /// Beginning, as time since midnight.
    pub from: Duration,
    /// Length.
    pub length: Duration,
    /// Whether the laptop is without its helpers.
    pub alone: bool,
}

/// Results of a day.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Seed of the day.
    pub seed: u64,
    /// Length in hours.
    pub hours: f64,
    /// Requests by kind.
    pub kinds: Vec<KindReport>,
    /// Number of sessions that were lost, by any cause.
    pub sessions_lost: usize,
    /// Number of connections that a NAT had forgotten.
    pub forgotten: usize,
    /// Waits of requests that were sent on such a connection, without any other cause.
    pub forgotten_requests_s: Vec<f64>,
    /// Waits for answers that were sent on such a connection, without any other cause. The origin
    /// had nothing to say for so long; the primary, which waits, has to ask.
    pub forgotten_answers_s: Vec<f64>,
    /// Hours in which no application waited for anything.
    pub quiet_hours: f64,
    /// Quiet hours by link.
    pub links: Vec<QuietLink>,
    /// Packets that all links carried.
    pub packets: u64,
}

/// Requests of one kind.
#[derive(Debug, Clone, Serialize)]
pub struct KindReport {
    /// The kind.
    pub kind: &'static str,
    /// Bytes in both directions.
    pub bytes: u64,
    /// Requests that were repeated since their session was lost.
    pub repeated: usize,
    /// The longest wait of each request, in seconds.
    pub waits_s: Vec<f64>,
    /// The longest wait of all.
    pub longest: Option<Wait>,
}

/// A wait of a request for bytes that could have been sent.
#[derive(Debug, Clone, Serialize)]
pub struct Wait {
    /// When it began, in seconds since the beginning.
    pub at_s: f64,
    /// Its length without the laptop's sleep, in seconds.
    pub seconds: f64,
    /// What was not as usual.
    pub cause: String,
}

/// A day on which something was lost, or stood still.
#[derive(Debug, Clone, thiserror::Error)]
#[error("day {seed}: {what}")]
pub struct LostDay {
    /// Seed of the day.
    pub seed: u64,
    /// What was lost.
    pub what: String,
}

impl KindReport {
    /// A quantile of the waits, in seconds; zero without requests.
    pub fn wait_s(&self, share: f64) -> f64 {
        quantile_of(&self.waits_s, share)
    }
}

/// A quantile of samples; zero if there are none.
pub fn quantile_of(samples: &[f64], share: f64) -> f64 {
    let sample = Sample::new(samples.to_vec());
    sample.quantile(share).unwrap_or_default()
}

/// A day that is under way.
struct Running {
    schedule: Schedule,
    requests: Vec<Request>,
    world: World,
}

impl Day {
    /// The whole day of a seed.
    pub fn whole(seed: u64) -> Self {
        Self {
            seed,
            from: Duration::ZERO,
            length: Duration::from_secs(24 * 3_600),
            alone: false,
        }
    }

    fn plan(&self) -> Running {
        let mut dice = Dice::new(self.seed);
        let nats = schedule::nats(&mut dice);
        let schedule = Schedule::new(&mut dice);
        let mut requests = traffic::requests(&mut dice, &schedule);
        let end = self.from + self.length;
        requests.retain(|r| r.at >= self.from && r.at < end);
        for r in &mut requests {
            r.at -= self.from;
            r.exchange.start = crate::world::When::At(r.at);
        }
        let mut schedule = schedule.within(self.from, self.length);
        let mut routes = schedule::routes();
        if self.alone {
            schedule.without_helpers();
            routes.truncate(1);
        }
        let mut scenario = Scenario::new(schedule::links(), routes);
        scenario.seed = self.seed;
        scenario.exchanges = requests.iter().map(|r| r.exchange.clone()).collect();
        scenario.faults = schedule.scenario_faults();
        scenario.limit = self.length + OVERTIME;
        scenario.stall_limit = scenario.limit;
        scenario.has_bounds = false;
        scenario.lasting = Some(Lasting {
            keepalive: Some(KEEPALIVE),
            nats,
            repeat_after: REPEAT_AFTER,
        });
        Running {
            schedule,
            requests,
            world: World::new(scenario),
        }
    }

    /// Simulates it.
    ///
    /// # Errors
    /// A byte was wrong or lost, a request was not served, or an invariant of a world was violated.
    pub fn live(&self) -> Result<Report, LostDay> {
        let lost = |what: String| LostDay {
            seed: self.seed,
            what,
        };
        let mut day = self.plan();
        let mut accounts = Accounts::new(KEEPALIVE).map_err(|e| lost(e.to_string()))?;
        let end = Timestamp::ZERO + self.length;
        let lived = day.world.live_until(end, &mut |world, step| {
            let connections = || world.connections();
            accounts.step(step.now, step.next, step.is_quiet, step.passed, connections);
        });
        lived.map_err(|e| lost(e.to_string()))?;
        let names: Vec<String> = schedule::links().into_iter().map(|l| l.name).collect();
        let (quiet, links) = accounts.finish(end, &names);
        day.report(self, quiet, links).map_err(lost)
    }
}

impl Running {
    fn report(&self, day: &Day, quiet: Duration, links: Vec<QuietLink>) -> Result<Report, String> {
        let mut kinds: Vec<KindReport> = Vec::new();
        for kind in Kind::ALL {
            kinds.push(KindReport {
                kind: kind.name(),
                bytes: 0,
                repeated: 0,
                waits_s: Vec::new(),
                longest: None,
            });
        }
        let (mut forgotten_requests_s, mut forgotten_answers_s) = (Vec::new(), Vec::new());
        for (e, request) in self.requests.iter().enumerate() {
            let Some(served) = self.world.served(e) else {
                let state = self.world.unserved(e);
                return Err(format!(
                    "{} {e} of {:?} was not served: {state}",
                    request.kind.name(),
                    request.at
                ));
            };
            let report = &mut kinds[request.kind as usize];
            report.bytes += served.bytes;
            report.repeated += usize::from(served.repeated > 0);
            let wait = self.longest_wait(&served);
            forgotten_requests_s.extend(self.after_forgotten(served.request));
            forgotten_answers_s.extend(self.after_forgotten(served.answer));
            report.waits_s.push(wait.seconds);
            let longest = &mut report.longest;
            if longest.as_ref().is_none_or(|l| l.seconds < wait.seconds) {
                *longest = Some(wait);
            }
        }
        let notes = self.world.notes();
        let lost = |n: &&crate::world::Note| matches!(n.what, Noted::SessionLost(_));
        let sessions_lost = notes.iter().filter(lost).count();
        Ok(Report {
            seed: day.seed,
            hours: day.length.as_secs_f64() / 3_600.0,
            kinds,
            sessions_lost,
            forgotten: notes.len() - sessions_lost,
            forgotten_requests_s,
            forgotten_answers_s,
            quiet_hours: quiet.as_secs_f64() / 3_600.0,
            links,
            packets: self.world.packets(),
        })
    }

    /// Length of a wait without the laptop's sleep.
    fn length(&self, (from, to): (Timestamp, Timestamp)) -> Duration {
        let [a, b] = [from, to].map(|t| t.since(Timestamp::ZERO));
        to.since(from).saturating_sub(self.schedule.slept(a, b))
    }

    fn longest_wait(&self, served: &Served) -> Wait {
        let longest = served.waits.iter().max_by_key(|w| self.length(**w));
        let wait = longest.copied().unwrap_or((served.started, served.started));
        Wait {
            at_s: wait.0.since(Timestamp::ZERO).as_secs_f64(),
            seconds: self.length(wait).as_secs_f64(),
            cause: self.cause(wait),
        }
    }

    /// Length of a wait that has a forgotten connection as its only cause.
    fn after_forgotten(&self, wait: Option<(Timestamp, Timestamp)>) -> Option<f64> {
        let (from, to) = wait?;
        let notes = self.world.notes().iter();
        let mut notes = notes.filter(|n| n.at >= from && n.at <= to);
        let met = notes.any(|n| matches!(n.what, Noted::Forgotten(_)));
        let is_usual = self.conditions((from, to)).is_empty();
        (met && is_usual).then(|| self.length((from, to)).as_secs_f64())
    }

    fn conditions(&self, (from, to): (Timestamp, Timestamp)) -> Vec<&'static str> {
        let [a, b] = [from, to].map(|t| t.since(Timestamp::ZERO));
        let conditions = self.schedule.conditions.iter();
        let mut whats: Vec<_> = conditions
            .filter(|c| c.from <= b && c.to >= a)
            .map(|c| c.what)
            .collect();
        whats.dedup();
        whats
    }

    /// Everything unusual during a wait.
    fn cause(&self, wait: (Timestamp, Timestamp)) -> String {
        let mut causes: Vec<String> = Vec::new();
        let mut add = |cause: String| {
            if !causes.contains(&cause) {
                causes.push(cause);
            }
        };
        self.conditions(wait)
            .into_iter()
            .for_each(|c| add(c.to_owned()));
        let notes = self.world.notes().iter();
        let overlaps = |n: &&Note| n.at <= wait.1 && n.until.is_none_or(|u| u >= wait.0);
        for note in notes.filter(overlaps) {
            match &note.what {
                Noted::Forgotten(route) => {
                    let whose = ROUTES.get(*route).unwrap_or(&"a");
                    add(format!("the {whose} NAT had forgotten the connection"));
                }
                Noted::SessionLost(reason) => add(format!("the session was lost: {reason}")),
            }
        }
        match causes.is_empty() {
            true => "nothing unusual".to_owned(),
            false => causes.join("; "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Exchange, Nat, When};

    /// Two hours around noon: an upgraded proxy, a captive portal, other networks, sleep.
    fn noon(seed: u64) -> Day {
        Day {
            seed,
            from: Duration::from_secs(11 * 3_600 + 1_800),
            length: Duration::from_secs(2 * 3_600),
            alone: seed == 2,
        }
    }

    #[test]
    fn two_hours_around_noon_lose_nothing() {
        for seed in 1..=3 {
            let report = noon(seed).live().unwrap();
            let served: usize = report.kinds.iter().map(|k| k.waits_s.len()).sum();
            assert!(served > 3 && report.quiet_hours > 0.5, "{report:?}");
            assert_eq!(report.links.len(), 5);
        }
    }

    /// The upgrade is half an hour after the beginning. An old process serves what is open for ten
    /// minutes.
    #[test]
    fn requests_over_noon_do_not_notice_that_the_proxy_is_upgraded() {
        let s = Duration::from_secs;
        let (noon_at, end) = (s(1_800), s(2_370));
        let mut long_polls = 0;
        for seed in (1..=12).filter(|seed| *seed != 2) {
            let mut day = noon(seed).plan();
            let length = Timestamp::ZERO + s(7_200);
            day.world.live_until(length, &mut |_, _| ()).unwrap();
            for (e, r) in day.requests.iter().enumerate() {
                let takes = r.exchange.origin.thinks + s(5);
                let over_noon = r.at < noon_at && r.at + takes > noon_at && r.at + takes < end;
                if over_noon && day.schedule.is_awake(r.at, takes) {
                    let served = day.world.served(e).unwrap();
                    let wait = day.longest_wait(&served);
                    assert_eq!(served.repeated, 0, "day {seed}: {r:?}, {wait:?}");
                    assert!(wait.seconds < 1.5, "day {seed}: {r:?}, {wait:?}");
                    long_polls += 1;
                }
            }
        }
        assert!(long_polls >= 4, "{long_polls}");
    }

    /// A kernel's keep-alive meets the NAT that has forgotten a connection, a minute before the
    /// origin answers over that connection. The primary closes it when its own kernel does.
    #[test]
    fn a_connection_that_was_forgotten_before_a_wait_is_named_as_its_cause() {
        let s = Duration::from_secs;
        let mut exchange = Exchange::download(When::At(s(2)), 1_000);
        exchange.origin.thinks = s(180);
        let mut scenario = Scenario::multihomed(&[(8.0, Duration::from_millis(25))]);
        scenario.exchanges = vec![exchange];
        scenario.limit = s(3_600);
        scenario.stall_limit = scenario.limit;
        let timeout = s(60);
        let resets = false;
        scenario.lasting = Some(Lasting {
            keepalive: Some(s(100)),
            nats: vec![Some(Nat { timeout, resets })],
            repeat_after: REPEAT_AFTER,
        });
        let mut day = noon(1).plan();
        day.world = World::new(scenario);
        day.schedule.conditions.clear();
        day.world
            .live_until(Timestamp::ZERO + s(1_800), &mut |_, _| ())
            .unwrap();
        let served = day.world.served(0).unwrap();
        let forgotten = day.world.notes()[0].at;
        let wait = day.longest_wait(&served);
        assert!(forgotten < Timestamp::ZERO + s(179), "{forgotten}");
        assert!(wait.at_s > 181.0 && wait.seconds > 5.0, "{wait:?}");
        let cause = "the laptop's NAT had forgotten the connection";
        assert!(wait.cause.contains(cause), "{wait:?}");
    }

    #[test]
    fn a_seed_gives_the_same_day() {
        let day = |seed| format!("{:?}", noon(seed).live());
        assert_eq!(day(4), day(4));
    }
}
