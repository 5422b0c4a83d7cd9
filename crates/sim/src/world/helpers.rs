//! Helpers: relays between pipes and HS-Paths, and their reports.

use mpbond_manager::LinkId;

use super::World;
use super::host::far_report;
use super::net::Report;
use super::sockets::{endpoint_config, helper_config};
use crate::tcp::{Config, End, State};

impl World {
    /// Moves bytes through all helpers; whether anything moved.
    pub(super) fn relay(&mut self) -> bool {
        for l in self.net.take_touched() {
            for io in &mut self.lines[l].ends {
                io.dirty = true;
            }
        }
        let mut moved = false;
        for i in 0..self.live.len() {
            let l = self.live[i];
            let line = &mut self.lines[l];
            let Some(relay) = &mut line.relay else {
                continue;
            };
            if !line.ends[0].dirty && !line.ends[1].dirty {
                continue;
            }
            let Some(hs) = line.second else {
                // The helper connects onward when it was connected to.
                if self.net.socket(line.first, End::B).state() == State::Established {
                    let links = &self.scenario.routes[line.route].links[1..];
                    let keepalive = self.keepalive(self.lines[l].attempt.express);
                    let near = helper_config(self.scenario.relay_bound_bytes);
                    let ends = [near, endpoint_config()].map(|end| Config { keepalive, ..end });
                    let hs = self.net.connect(self.now, l, false, links, ends.into());
                    let line = &mut self.lines[l];
                    line.second = Some(hs);
                    line.ends[1].conn = Some(hs);
                    moved = true;
                }
                continue;
            };
            let (pipe_socket, hs_socket) = self.net.helper_sockets(line.first, hs);
            if relay.handle(pipe_socket, hs_socket) {
                moved = true;
                let taken = relay.backward_taken_bytes();
                if taken > line.downlink_bytes {
                    line.downlink_bytes = taken;
                    line.downlink_at = Some(self.now);
                }
                self.net.push(self.now, line.first, End::B);
                self.net.push(self.now, hs, End::A);
            }
            self.report(l);
        }
        moved
    }

    /// A helper reports while data flows.
    fn report(&mut self, l: usize) {
        let line = &mut self.lines[l];
        let relayed = line.relayed_bytes();
        if relayed == line.reported_bytes || self.now < line.report_at {
            return;
        }
        line.reported_bytes = relayed;
        line.report_at = self.now + self.scenario.report_every;
        line.reports += 1;
        let (Some(relay), Some(hs), Some(request)) =
            (&line.relay, line.second, line.attempt.request)
        else {
            return;
        };
        let pipe = self.net.socket(line.first, End::B);
        let hs = self.net.socket(hs, End::A);
        let reported = |measured| self.scenario.false_reports.unwrap_or(measured);
        let of_pipe = far_report(&pipe.info(), relay.backward_level_bytes(pipe, hs));
        let of_hs = far_report(&hs.info(), relay.forward_level_bytes(pipe, hs));
        let report = Report {
            link: LinkId(line.route),
            request,
            number: line.reports,
            pipe: reported(of_pipe),
            hs: reported(of_hs),
            downlink: line.downlink_at.map(|at| self.now.since(at)),
        };
        let link = self.scenario.routes[line.route].links[0];
        self.net.send_report(self.now, link, report);
    }
}
