//! Several pipes to a helper of which the best one is used. As in the daemon, the path manager is
//! shown them while bytes move, and when an interface loses its carrier.

use std::time::Duration;

use mpbond_manager::{LinkId, PIPES_EVERY, PipeFacts};
use mpbond_session::IDLE_LONG;
use mpbond_units::Timestamp;

use super::World;
use super::host::Host;
use super::line::Stage;

/// Interval while no bytes move, until that has lasted long.
const QUIET: Duration = Duration::from_secs(1);

impl World {
    /// When the pipes are looked at next.
    pub(super) fn pipes_due(&self) -> Option<Timestamp> {
        let is_awake = !self.hosts[0].is_frozen(self.now);
        let due = self.pipes_quiet_for().map(|_| self.watched.at);
        let plugged = self.watched.unplugged.iter().copied().flatten();
        due.into_iter().chain(plugged).min().filter(|_| is_awake)
    }

    /// Time since bytes moved, if pipes are looked at.
    fn pipes_quiet_for(&self) -> Option<Duration> {
        let session = self.hosts[0].session.as_ref();
        let session = session.filter(|_| self.manager.chooses_pipes())?;
        let quiet = session.quiet_for(self.primary_clock());
        (quiet < IDLE_LONG).then_some(quiet)
    }

    /// The interface of a pipe has no carrier for so long.
    pub(super) fn unplug(&mut self, route: usize, length: Duration) {
        self.watched.unplugged[route] = Some(self.now + length);
        self.watched.at = self.now;
    }

    /// Shows the manager the pipes, if that is due.
    pub(super) fn watch_pipes(&mut self) {
        for end in &mut self.watched.unplugged {
            if end.take_if(|end| *end <= self.now).is_some() {
                self.watched.at = self.now;
            }
        }
        let Some(quiet) = self.pipes_quiet_for() else {
            return;
        };
        if self.watched.at > self.now || self.hosts[0].is_frozen(self.now) {
            return;
        }
        let wait = if quiet < QUIET { PIPES_EVERY } else { QUIET };
        self.watched.at = self.now + wait;
        let clock = self.primary_clock();
        let mut facts = self.pipe_facts(clock);
        for fact in &mut facts {
            if let Some(walk) = self.scenario.routes[fact.link.0].walk {
                let dbm = walk.dbm(self.now);
                fact.signal = Some(self.watched.signal(clock, fact, dbm));
            }
        }
        self.manager.handle_pipes(clock, &facts);
    }

    fn pipe_facts(&self, clock: Timestamp) -> Vec<PipeFacts> {
        let Some(session) = &self.hosts[0].session else {
            return Vec::new();
        };
        let (subflows, unscheduled) = (session.subflows(clock), session.unscheduled_bytes());
        let routes = self.scenario.routes.iter().enumerate();
        let pipes = routes.filter(|(_, route)| route.place.is_some());
        let facts = pipes.filter_map(|(route, _)| {
            let link = LinkId(route);
            let subflow = self.manager.pipe_subflow(link)?;
            let stats = subflows.iter().find(|stats| stats.id == subflow)?;
            Some(PipeFacts {
                carrier: self.watched.unplugged[route].is_none(),
                ..PipeFacts::of(link, stats, unscheduled)
            })
        });
        facts.collect()
    }

    /// Makes subflows regular or backup, as the manager has it; while signals are weak, those of
    /// routes that are backups are regular, too.
    pub(super) fn apply_roles(&mut self) {
        let help = self.signals.are_weak();
        let primary = &mut self.hosts[0];
        let (number, Some(session)) = (primary.number, &mut primary.session) else {
            return;
        };
        let mut roles = Vec::new();
        for line in self.live.iter().map(|l| &self.lines[*l]) {
            if let Stage::Up(subflow) = line.ends[0].stage
                && line.session == number
            {
                let route = &self.scenario.routes[line.route];
                let stands_by = self.manager.is_standby(LinkId(line.route));
                roles.push((route.backup && !help || stands_by, subflow));
            }
        }
        // As in the daemon: there is always a regular one.
        roles.sort_by_key(|(backup, _)| *backup);
        for (backup, subflow) in roles {
            session.set_backup(subflow, backup);
        }
        self.hosts_of(0).for_each(Host::look_again);
    }
}
