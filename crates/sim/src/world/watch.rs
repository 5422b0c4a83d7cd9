//! A lasting world, step by step, for an observer; its requests and events at the end.

use mpbond_units::Timestamp;

use super::World;
use super::app::{App, End, Running};
use super::course::MAX_TURNS;
use super::lasting::Note;
use super::outcome::{Failure, Passed};

/// A step of a lasting world.
pub(crate) struct Step<'a> {
    /// When it was.
    pub now: Timestamp,
    /// Time of the next step.
    pub next: Timestamp,
    /// Packets that links carried in this step.
    pub passed: &'a [Passed],
    /// Whether no application waits for a byte that exists.
    pub is_quiet: bool,
}

/// An exchange that was served, with its repetitions.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    /// When the application first opened it.
    pub started: Timestamp,
    /// Number of times that it was repeated after its session was lost.
    pub repeated: u32,
    /// Bytes read at both ends.
    pub bytes: u64,
    /// Times in which an end waited for bytes that the other could have sent.
    pub waits: Vec<(Timestamp, Timestamp)>,
    /// Of these, the wait for the first byte of the request at the origin. None if it was repeated
    /// since an answer was lost with its session.
    pub request: Option<(Timestamp, Timestamp)>,
    /// Of these, the wait for the first byte of the answer, or of the request again if the answer
    /// was lost with its session.
    pub answer: Option<(Timestamp, Timestamp)>,
}

impl World {
    /// Simulates a lasting scenario until `end`, or until all is served if that is later, but never
    /// beyond the scenario's limit.
    pub(crate) fn live_until(
        &mut self,
        end: Timestamp,
        observer: &mut dyn FnMut(&Self, &Step),
    ) -> Result<(), Failure> {
        let limit = Timestamp::ZERO + self.scenario.limit;
        let mut turns = 0;
        loop {
            self.step().map_err(|what| self.failure(what))?;
            let is_served = self.waiting.is_empty() && self.active.is_empty();
            let until = if is_served { end } else { limit };
            let next = self.next_event().unwrap_or(until).min(until);
            let passed = self.net.passed.take().unwrap_or_default();
            let step = Step {
                now: self.now,
                next,
                passed: &passed,
                is_quiet: self.is_quiet(),
            };
            observer(self, &step);
            let mut passed = passed;
            passed.clear();
            self.net.passed = Some(passed);
            self.check()?;
            if next >= until {
                return Ok(());
            }
            turns = if next > self.now { 0 } else { turns + 1 };
            if turns > MAX_TURNS {
                return Err(self.failure("time does not advance".to_owned()));
            }
            self.now = self.now.max(next);
        }
    }

    /// Whether every exchange that runs waits for an origin that has nothing to say yet.
    fn is_quiet(&self) -> bool {
        let thinks = |r: &Running| r.origin.as_ref().is_some_and(|o| o.thinks(self.now));
        let mut active = self.active.iter().filter_map(|e| self.running[*e].as_ref());
        active.all(thinks)
    }

    /// Established connections over each link, of hosts that are awake.
    pub(crate) fn connections(&self) -> Vec<u64> {
        let mut counts = vec![0; self.scenario.links.len()];
        for &l in &self.live {
            let line = &self.lines[l];
            let links = &self.scenario.routes[line.route].links;
            let conns = [Some(line.first), line.second];
            for (hop, conn) in conns.into_iter().enumerate() {
                let works = conn.is_some_and(|c| self.is_connected(c));
                let keeps_alive = works && !line.attempt.express;
                let awake = hop > 0 || !self.hosts[0].is_frozen(self.now);
                if let Some(link) = links.get(hop).filter(|_| keeps_alive && awake) {
                    counts[*link] += 1;
                }
            }
        }
        counts
    }

    /// Events that the scenario does not name.
    pub(crate) fn notes(&self) -> &[Note] {
        &self.lasting.notes
    }

    /// Packets that all links carried.
    pub(crate) fn packets(&self) -> u64 {
        self.net.events
    }

    /// An exchange, if every byte of both directions has arrived.
    pub(crate) fn served(&self, e: usize) -> Option<Served> {
        let x = &self.scenario.exchanges[e];
        let r = self.running[e].as_ref()?;
        let origin = r.origin.as_ref()?;
        let ended = matches!(r.client.ended, Some((_, End::Finished)));
        if !ended || r.client.read != x.down_bytes || origin.read != x.up_bytes {
            return None;
        }
        let before = self.lasting.before[e];
        let since = before.map_or(r.started, |b| b.waits_since);
        let asked = origin.asked.map(|at| (since, at));
        let lost_answer = before.is_some_and(|b| b.lost_answer);
        let request = asked.filter(|_| !lost_answer);
        let answer = origin.ready().zip(r.client.first_read);
        let mut waits: Vec<_> = asked.into_iter().chain(answer).collect();
        let answer = if lost_answer { asked } else { answer };
        for (reader, writer) in [(&r.client, &x.origin), (origin, &x.client)] {
            let (gap, at) = reader.later_gap;
            let due = writer.pace.map(|p| p.every).unwrap_or_default();
            waits.push((at.before(gap.saturating_sub(due)), at));
        }
        Some(Served {
            started: before.map_or(r.started, |b| b.started),
            repeated: before.map_or(0, |b| b.attempts),
            bytes: r.client.read + origin.read,
            waits,
            request,
            answer,
        })
    }

    /// State of an exchange that was not served, for people.
    pub(crate) fn unserved(&self, e: usize) -> String {
        let Some(r) = &self.running[e] else {
            return "not opened".to_owned();
        };
        let origin = r.origin.as_ref();
        let origin = origin.map_or_else(|| "none".to_owned(), App::to_string);
        format!("client {}, origin {origin}", r.client)
    }
}
