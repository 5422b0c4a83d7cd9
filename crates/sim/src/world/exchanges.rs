//! Exchanges: when they start, and which way they go.

use std::time::Duration;

use mpbond_manager::{Admission, WithoutProxy};
use mpbond_session::{ResetCode, StreamId};
use mpbond_units::Timestamp;

use super::World;
use super::app::{App, Running};
use super::host::destination;
use super::scenario::{Exchange, When};

impl World {
    /// When something of the scenario happens, if that is known yet.
    pub(super) fn instant(&self, when: When) -> Option<Timestamp> {
        let exchange = |e: usize| self.running.get(e)?.as_ref();
        match when {
            When::At(after) => Some(Timestamp::ZERO + after),
            When::AfterJoined(after) => Some(self.joined? + after),
            When::AfterStart(e, after) => Some(exchange(e)?.started + after),
            When::AfterEnd(e, after) => Some(exchange(e)?.client.ended?.0 + after),
        }
    }

    /// When an exchange that has not started yet starts, or the manager is asked again.
    pub(super) fn start_of(&self, e: usize) -> Option<Timestamp> {
        if self.running[e].is_some() || self.direct_at[e].is_some() {
            return None;
        }
        let start = self.instant(self.scenario.exchanges[e].start)?;
        Some(self.ask_at[e].map_or(start, |at| at.max(start)))
    }

    /// Opens streams of exchanges that are due, and wakes applications that go on after a pause.
    pub(super) fn start_exchanges(&mut self) -> Result<(), String> {
        for e in 0..self.scenario.exchanges.len() {
            if self.start_of(e).is_some_and(|t| t <= self.now) && self.is_admitted(e) {
                self.open(e)?;
            }
        }
        for (side, host) in self.hosts.iter_mut().enumerate() {
            for (e, r) in self.running.iter().enumerate() {
                let app = match (side, r) {
                    (0, Some(r)) => Some(&r.client),
                    (_, Some(r)) => r.origin.as_ref(),
                    (_, None) => None,
                };
                if app.is_some_and(|a| a.resumes().any(|t| t == self.now)) {
                    host.wake(e);
                }
            }
        }
        Ok(())
    }

    /// Whether an exchange that is due may be opened in the session now.
    fn is_admitted(&mut self, e: usize) -> bool {
        if self.hosts[0].is_frozen(self.now) || self.hosts[0].session.is_none() {
            return false;
        }
        if self.scenario.without_proxy == WithoutProxy::Refuse {
            return true;
        }
        self.refresh_subflows();
        match self.manager.admission(self.primary_clock()) {
            Admission::Session => true,
            Admission::Wait(until) => {
                // The manager knows of a path at once, the exchange within this time.
                let soon = self.now + Duration::from_millis(1);
                self.ask_at[e] = Some(soon.min(self.hosts[0].world_time(until)));
                false
            }
            Admission::WithoutProxy => {
                self.direct_at[e] = Some(self.now);
                false
            }
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
        self.running[e] = Some(Running {
            started: self.now,
            stream,
            client: App::new(self.now, e, true, x.client, x.up_bytes, false)
                .expecting(x.by_length.then_some(x.down_bytes))
                .keeping_arrivals(self.scenario.keeps_log),
            origin: None,
        });
        host.wake(e);
        self.manager.handle_opened(clock, stream);
        Ok(())
    }

    /// The primary takes a connection back from the session and connects it direct.
    pub(super) fn go_direct(&mut self, stream: StreamId) {
        let clock = self.primary_clock();
        let found = self.running.iter().position(|r| {
            let running = r.as_ref();
            running.is_some_and(|r| r.stream == stream)
        });
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
        let is_over = |(e, x): (usize, &Exchange)| {
            let running = self.running[e].as_ref();
            let over = running.is_some_and(|r| r.is_over() || x.is_endless());
            over || self.direct_at[e].is_some()
        };
        self.hosts[1].has_let_go || self.scenario.exchanges.iter().enumerate().all(is_over)
    }
}
