//! Helpers' reports on their relays. As in the daemon, all relays of a helper are reported on at
//! the same instants, each while it moves bytes and for a while after; the first byte after a rest
//! is reported at once. The sojourn time of bytes is simulated for pipes over Bluetooth only.

use std::time::Duration;

use mpbond_manager::{LinkId, REPORT_EVERY};
use mpbond_session::FarReport;
use mpbond_units::{BitRate, Timestamp};

use super::World;
use super::relay_report::Report;
use crate::tcp::{End, Info, State};

impl World {
    /// Sends the reports that are due.
    pub(super) fn report(&mut self) {
        for route in 0..self.report_at.len() {
            if self.report_at[route] > self.now {
                continue;
            }
            for i in 0..self.live.len() {
                let l = self.live[i];
                if self.lines[l].route == route && self.is_report_due(self.now, l) {
                    self.report_at[route] = self.now + REPORT_EVERY;
                    self.report_on(l);
                }
            }
        }
    }

    /// When the next report is due, if nothing moves before.
    pub(super) fn next_report(&self) -> Option<Timestamp> {
        let due = self.live.iter().filter_map(|&l| {
            let at = self.report_at[self.lines[l].route];
            self.is_report_due(at, l).then_some(at)
        });
        due.min()
    }

    fn is_report_due(&self, at: Timestamp, l: usize) -> bool {
        let line = &self.lines[l];
        let (Some(hs), Some(_)) = (line.second, line.attempt.request) else {
            return false;
        };
        let ends = [(line.first, End::B), (hs, End::A)];
        let runs = |(conn, end)| self.net.socket(conn, end).state() != State::Reset;
        line.reporting.is_due(at, line.relayed_bytes()) && ends.into_iter().all(runs)
    }

    fn report_on(&mut self, l: usize) {
        let line = &mut self.lines[l];
        let relayed_bytes = line.relayed_bytes();
        let (Some(relay), Some(hs), Some(request)) =
            (&line.relay, line.second, line.attempt.request)
        else {
            return;
        };
        let reporting = &mut line.reporting;
        let number = reporting.next(self.now, relayed_bytes);
        let pipe = self.net.socket(line.first, End::B);
        let hs = self.net.socket(hs, End::A);
        let route = &self.scenario.routes[line.route];
        let reported = |measured| route.false_reports.unwrap_or(measured);
        let of_pipe = FarReport {
            sojourn: relay.backward_sojourn(),
            ..far_report(&pipe.info(), relay.backward_level_bytes(pipe, hs))
        };
        let of_hs = far_report(&hs.info(), relay.forward_level_bytes(pipe, hs));
        let report = Report {
            link: LinkId(line.route),
            request,
            number,
            pipe: reported(of_pipe),
            hs: reported(of_hs),
            downlink: reporting.since_downlink(self.now),
        };
        self.net.send_report(self.now, route.links[0], report);
    }
}

/// A helper's report on a hop on which it sends.
fn far_report(info: &Info, level_bytes: u64) -> FarReport {
    let measured = info.delivery_rate.filter(|_| !info.app_limited);
    let window = || Some(BitRate::over(info.cwnd_bytes, info.srtt?));
    FarReport {
        throughput: measured.or_else(window).unwrap_or_default(),
        rtt: info.min_rtt.or(info.srtt).unwrap_or_default(),
        level_bytes,
        age: Duration::ZERO,
        sojourn: None,
        held_back: false,
    }
}
