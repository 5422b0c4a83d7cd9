//! Exchanges: when they start, and which way they go.

use std::time::Duration;

use mpbond_manager::{Admission, WithoutProxy};
use mpbond_session::{ResetCode, StreamId};
use mpbond_units::Timestamp;

use super::World;
use super::app::{App, Running};
use super::host::Side;
use super::results::{destination, exchange_with};
use super::rounds::{Asking, Part};
use super::when::When;

/// Way of an exchange that is due.
enum Entry {
    Open,
    AskAt(Timestamp),
    Direct,
}

impl World {
    /// When something of the scenario happens, if that is known yet.
    pub(super) fn instant(&self, when: When) -> Option<Timestamp> {
        let exchange = |e: usize| self.running.get(e)?.as_ref();
        match when {
            When::At(after) => Some(Timestamp::ZERO + after),
            When::AfterJoined(after) => Some(self.joined? + after),
            When::AfterStart(e, after) => Some(exchange(e)?.started + after),
            When::AfterEnd(e, after) => Some(exchange(e)?.client.ended?.0 + after),
            When::AfterVisit(v, after) => Some(self.visits.ended(v)? + after),
            When::AfterAll { first, last, wait } => {
                let over = |e: usize| match self.left_out[e] {
                    true => Some(Timestamp::ZERO),
                    false => Some(exchange(e)?.client.ended?.0),
                };
                // The last one is most likely to run.
                let mut all = (first..=last).rev();
                Some(all.try_fold(Timestamp::ZERO, |end, e| Some(end.max(over(e)?)))? + wait)
            }
        }
    }

    /// When an exchange starts, if that is known yet.
    pub(super) fn start_of(&self, e: usize) -> Option<Timestamp> {
        self.instant(self.scenario.exchanges[e].start)
    }

    /// Opens streams of exchanges that are due, and wakes applications that go on after a pause.
    pub(super) fn start_exchanges(&mut self) -> Result<(), String> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let due = waiting.take_due(self.now, |e| self.start_of(e));
        self.waiting = waiting;
        for e in due {
            if self.runs_beside(e) {
                self.left_out[e] = true;
                continue;
            }
            match self.admit() {
                Entry::Open => self.open(e)?,
                Entry::AskAt(at) => self.waiting.put(at, e),
                Entry::Direct => self.direct_at[e] = Some(self.now),
            }
        }
        for host in self.hosts.iter_mut().chain(&mut self.leaving) {
            for &e in &self.active {
                let running = self.running[e].as_ref();
                let app = match running.filter(|r| r.session == host.number) {
                    Some(r) if host.side == Side::Primary => Some(&r.client),
                    Some(r) => r.origin.as_ref(),
                    None => None,
                };
                if app.is_some_and(|a| a.resumes().any(|t| t == self.now)) {
                    host.wake(e);
                }
            }
        }
        Ok(())
    }

    /// Whether an exchange runs beside which this one does not.
    fn runs_beside(&self, e: usize) -> bool {
        let mut others = self.scenario.exchanges[e].never_beside.clone();
        others.any(|other| {
            let running = self.running.get(other).and_then(Option::as_ref);
            running.is_some_and(|r| r.client.ended.is_none() && self.direct_at[other].is_none())
        })
    }

    /// Whether an exchange that is due may be opened in the session now.
    fn admit(&mut self) -> Entry {
        if self.hosts[0].is_frozen(self.now) || self.hosts[0].session.is_none() {
            return Entry::AskAt(self.now);
        }
        self.refresh_subflows();
        if self.scenario.without_proxy == WithoutProxy::Refuse {
            return Entry::Open;
        }
        match self.manager.admission(self.primary_clock()) {
            Admission::Session => Entry::Open,
            Admission::Wait(until) => {
                // The manager knows of a path at once, the exchange within this time.
                let soon = self.now + Duration::from_millis(1);
                Entry::AskAt(soon.min(self.hosts[0].world_time(until)))
            }
            Admission::WithoutProxy => Entry::Direct,
        }
    }

    fn open(&mut self, e: usize) -> Result<(), String> {
        let x = &self.scenario.exchanges[e];
        let host = &mut self.hosts[0];
        let clock = host.clock(self.now);
        let Some(session) = &mut host.session else {
            return Ok(());
        };
        let stream = session
            .open(clock, destination(e), x.class)
            .map_err(|error| format!("exchange {e} cannot be opened: {error}"))?;
        for end in &x.chunk_ends {
            session.mark_peer_chunk_end(stream, *end);
        }
        let asking = |rounds| Asking::new(self.now, rounds, x.down_bytes);
        let asks = x.rounds.map(|rounds| Part::Asks(asking(rounds)));
        self.running[e] = Some(Running {
            started: self.now,
            session: host.number,
            stream,
            client: App::new(self.now, e, true, x.client, x.up_bytes, false)
                .expecting(x.is_by_length().then_some(x.down_bytes))
                .repeating(asks)
                .keeping_arrivals(self.scenario.keeps_log),
            origin: None,
            is_whole: false,
        });
        host.wake(e);
        let place = self.active.partition_point(|other| *other < e);
        self.active.insert(place, e);
        self.manager.handle_opened(clock, stream);
        Ok(())
    }

    /// The primary takes a connection back from the session and connects it direct.
    pub(super) fn go_direct(&mut self, stream: StreamId) {
        let clock = self.primary_clock();
        let number = self.hosts[0].number;
        let found = exchange_with(&self.running, &self.active, (number, stream));
        if let (Some(e), Some(session)) = (found, &mut self.hosts[0].session)
            && session.unheard(stream).is_some()
        {
            session.reset(clock, stream, ResetCode::Cancelled);
            session.stop(clock, stream, ResetCode::Cancelled);
            self.direct_at[e] = Some(self.now);
            self.hosts[0].look_again();
        }
    }

    /// Exchanges that went direct, and the time from their start until then.
    pub(super) fn went_direct(&self) -> Vec<(usize, Duration)> {
        let direct = self.direct_at.iter().enumerate();
        let took = |(e, at): (usize, &Option<Timestamp>)| {
            let start = self.instant(self.scenario.exchanges[e].start)?;
            Some((e, (*at)?.since(start)))
        };
        direct.filter_map(took).collect()
    }

    /// Whether nothing is left to happen that somebody waits for.
    pub(super) fn is_done(&self) -> bool {
        let is_over = |&e: &usize| {
            let running = self.running[e].as_ref();
            let is_endless = self.scenario.exchanges[e].is_endless();
            let over = running.is_some_and(|r| r.is_over() || is_endless);
            over || self.direct_at[e].is_some()
        };
        let is_done =
            self.waiting.is_empty() && self.visits.are_over() && self.active.iter().all(is_over);
        self.hosts[1].has_let_go || is_done
    }
}
