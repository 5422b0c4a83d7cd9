//! Invariants of a world: bounds of windows and memory, and progress while a route works.

use mpbond_units::Timestamp;

use super::app::App;
use super::outcome::Failure;
use super::scenario::Route;
use super::{SLACK_BYTES, World};

impl World {
    /// Checks the invariants after a step.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        let mut arrived = 0;
        for host in self.hosts.iter().chain(&self.leaving) {
            let Some(s) = &host.session else {
                continue;
            };
            let stats = s.stats();
            arrived += stats.bytes_in - stats.redundant_bytes_in;
            let config = s.config();
            let most = config.receive_window_bytes + config.stalled_memory_bytes;
            let waiting = s.waiting_bytes();
            if waiting > most {
                return Err(self.failure(format!("{waiting} bytes wait, {most} may")));
            }
            let least_each = stats.streams_open * SLACK_BYTES;
            let most = config.send_memory_bytes + SLACK_BYTES + least_each;
            let held = s.held_bytes();
            if held > most {
                return Err(self.failure(format!("{held} bytes are held, {most} may be")));
            }
        }
        let running = self.active.iter().filter(|e| self.direct_at[**e].is_none());
        let running = running.filter_map(|e| self.running[*e].as_ref());
        let wants_more = running.into_iter().any(|r| {
            let apps = [Some(&r.client), r.origin.as_ref()];
            let rests = apps.iter().flatten().any(|a| a.is_paused(self.now));
            r.waits_for_bytes() && !rests
        });
        if arrived != self.progress.0 || !wants_more {
            self.progress = (arrived, self.now);
        }
        let works = |(i, r): (usize, &Route)| {
            let away = self.up_at[i].is_some();
            let link_works = |l: &usize| self.net.is_up(*l) && self.slow_until[*l] <= self.now;
            // The primary waits on a connection that is none.
            let severed = |(l, _): &(usize, Timestamp)| self.lines[*l].route == i;
            !away && r.links.iter().all(link_works) && !self.severed.iter().any(severed)
        };
        let awake = self.hosts.iter().all(|h| !h.is_frozen(self.now));
        let usable = awake && self.scenario.routes.iter().enumerate().any(works);
        self.usable_since = match (usable, self.usable_since) {
            (true, None) => Some(self.now),
            (true, since) => since,
            (false, _) => None,
        };
        if let Some(since) = self.usable_since {
            let silent = self.now.since(since.max(self.progress.1));
            self.longest_gap = self.longest_gap.max(silent);
            if silent > self.scenario.stall_limit {
                return Err(self.failure(format!("no new byte for {silent:?}")));
            }
        }
        Ok(())
    }

    /// A failure now, with the state of both ends.
    pub(super) fn failure(&self, what: String) -> Failure {
        let hosts = self.hosts.iter().chain(&self.leaving);
        let ends = hosts.filter_map(|h| Some((h.side, h.session.as_ref()?)));
        let state: Vec<String> = ends
            .map(|(side, s)| {
                let subflows: Vec<String> = s
                    .subflows(self.now)
                    .iter()
                    .map(|s| format!("{} {} {:?} pad {:?}", s.id, s.name, s.state, s.pad))
                    .collect();
                format!(
                    "[{side:?}: unscheduled {}, held {}, waiting {}, timeout {:?}, {}]",
                    s.unscheduled_bytes(),
                    s.held_bytes(),
                    s.waiting_bytes(),
                    s.poll_timeout(),
                    subflows.join(", ")
                )
            })
            .collect();
        let open: Vec<String> = self
            .running
            .iter()
            .enumerate()
            .filter_map(|(e, r)| r.as_ref().filter(|r| !r.is_over()).map(|r| (e, r)))
            .map(|(e, r)| {
                let origin = r.origin.as_ref();
                format!(
                    "exchange {e}: client {}, origin {}",
                    r.client,
                    origin.map_or_else(|| "none".to_owned(), App::to_string)
                )
            })
            .collect();
        Failure {
            at: self.now,
            what: format!("{what} {} [open: {}]", state.join(" "), open.join("; ")),
        }
    }
}
