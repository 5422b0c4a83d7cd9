//! Faults and changes of a scenario, carried out when they are due.

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::Duration;

use mpbond_manager::LinkId;
use mpbond_units::Timestamp;

use super::host::Host;
use super::line::Stage;
use super::nat::Gate;
use super::scenario::Happening;
use super::{LONGEST_DELAY, World};
use crate::link::LinkChange;
use crate::tcp::End;

/// No fault makes a link slower than this.
const SLOWEST: Duration = Duration::from_secs(10);

/// How long a connection of the daemons may be quiet before their kernel asks whether it works: a
/// NAT that has forgotten it then passes the question on under another port, and a reset comes
/// back.
const KEEPALIVE: Duration = Duration::from_secs(240);

impl World {
    /// Everything of the scenario that is due now.
    pub(super) fn happenings(&mut self) {
        let mut faults = std::mem::take(&mut self.faults);
        let due = faults.take_due(self.now, |f| self.instant(self.scenario.faults[f].when));
        self.faults = faults;
        for i in due {
            match self.scenario.faults[i].what.clone() {
                Happening::Link { link, up, down } => {
                    for (direction, change) in [up, down].into_iter().enumerate() {
                        if let Some(change) = change {
                            self.note_delay(link, &change);
                            self.net.apply(self.now, link, direction == 0, &change);
                            self.rates[link][direction].push((self.now, change));
                        }
                    }
                }
                Happening::Signal { link, dbm } => {
                    self.signals.set(link, dbm);
                    self.net.set_signal(self.now, link, dbm);
                }
                Happening::Disconnect { link } => self.net.disconnect(self.now, link),
                Happening::RestRadios => self.net.rest_radios(),
                Happening::Kill { route } => self.kill(route),
                Happening::Leave { route, length } => {
                    self.kill(route);
                    self.link_is_up(route, false);
                    self.up_at[route] = Some(self.now + length);
                }
                Happening::Unplug { route, length } => self.unplug(route, length),
                Happening::Sever {
                    route,
                    nearer,
                    told,
                } => self.sever(route, nearer, told),
                Happening::Depart { route, length } => {
                    self.link_is_up(route, false);
                    self.sever(route, true, [true, false]);
                    self.up_at[route] = self.up_at[route].max(Some(self.now + length));
                }
                Happening::Sleep { length } => self.sleep(length),
                Happening::Network { link, nat, portal } => {
                    self.net.gates[link] = Gate { nat, portal };
                }
                Happening::Refuse { route, length } => {
                    self.lasting.refused_until[route] = self.now + length;
                    self.kill(route);
                }
                Happening::Restart => self.restart_proxy(),
                Happening::Upgrade => self.upgrade_proxy(),
                Happening::Freeze { who, length } => {
                    let until = self.now + length;
                    for host in self.hosts_of(who as usize) {
                        host.frozen_until = host.frozen_until.max(Some(until));
                    }
                }
                Happening::ClockJump { who, by } => {
                    self.hosts_of(who as usize).for_each(|host| host.jump(by));
                }
            }
        }
    }

    /// The primary's interface of a route comes up or goes down, and its system says so.
    fn link_is_up(&mut self, route: usize, up: bool) {
        let clock = self.primary_clock();
        self.manager.handle_link(clock, LinkId(route), up);
    }

    /// Interfaces that are due to come up, unless the primary stands still.
    pub(super) fn links_up(&mut self) {
        for route in 0..self.up_at.len() {
            let due = self.up_at[route].is_some_and(|at| at <= self.now);
            if due && !self.hosts[0].is_frozen(self.now) {
                self.up_at[route] = None;
                self.link_is_up(route, true);
            }
        }
    }

    /// A link with a delay over [`LONGEST_DELAY`] does not work; nor does it after that until all
    /// packets on it have arrived, since packets do not overtake each other.
    fn note_delay(&mut self, link: usize, change: &LinkChange) {
        let Some(delay) = change.delay else {
            return;
        };
        let slow_until = &mut self.slow_until[link];
        if delay > LONGEST_DELAY {
            *slow_until = Timestamp::FAR_FUTURE;
        } else if *slow_until == Timestamp::FAR_FUTURE {
            *slow_until = self.now + SLOWEST;
        }
    }

    fn sever(&mut self, route: usize, nearer: bool, told: [bool; 2]) {
        // The primary's system tells it of its own addresses, and of connections that break.
        let moves = nearer && told[0];
        for l in self.live.clone() {
            let line = &self.lines[l];
            if line.route != route {
                continue;
            }
            let far = line.second.filter(|_| !nearer);
            self.net.sever(far.unwrap_or(line.first));
            if !told[0] {
                self.severed.push((l, self.now + KEEPALIVE));
            }
            for side in [0, 1] {
                let stage = self.lines[l].ends[side].stage;
                let by_address = side == 0 && moves && matches!(stage, Stage::Up(_));
                if told[side] && stage != Stage::Gone && !by_address {
                    self.lose_line(side, l);
                }
            }
        }
        if moves {
            self.moves[route] += 1;
            let own: HashSet<IpAddr> = (0..self.moves.len()).map(|r| self.address(r)).collect();
            let clock = self.primary_clock();
            self.manager.handle_addresses(clock, &own);
        }
        for side in [0, 1] {
            // What was lost has to be settled, and its timers anew.
            self.hosts_of(side).for_each(Host::look_again);
        }
    }

    /// The kernel's keepalive finds dead connections over which the session sends nothing.
    pub(super) fn keep_alive(&mut self) {
        let due = |(_, at): &mut (usize, Timestamp)| *at <= self.now;
        let due: Vec<usize> = self.severed.extract_if(.., due).map(|(l, _)| l).collect();
        for l in due {
            if self.lines[l].ends[0].stage != Stage::Gone {
                self.lose_line(0, l);
                self.hosts_of(0).for_each(Host::look_again);
            }
        }
        let lines = &self.lines;
        self.severed
            .retain(|(l, _)| lines[*l].ends[0].stage != Stage::Gone);
    }

    pub(super) fn kill(&mut self, route: usize) {
        for &l in &self.live {
            let line = &self.lines[l];
            if line.route != route {
                continue;
            }
            let ends = if line.relay.is_some() {
                let hs = line.second.map(|hs| (hs, End::A));
                [Some((line.first, End::B)), hs]
            } else {
                [Some((line.first, End::A)), Some((line.first, End::B))]
            };
            for (conn, end) in ends.into_iter().flatten() {
                self.net.socket_mut(conn, end).abort();
                self.net.push(self.now, conn, end);
            }
            for io in &mut self.lines[l].ends {
                io.dirty = true;
            }
        }
    }
}
