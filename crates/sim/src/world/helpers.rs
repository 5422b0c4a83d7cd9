//! Helpers: relays between pipes and HS-Paths.

use super::World;
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
            let messages = &mut self.messages[line.route];
            let beside = !line.attempt.express && messages.has_messages(self.now);
            relay.set_beside_messages(beside);
            let before = relay.backward_relayed_bytes();
            if relay.handle(self.now, pipe_socket, hs_socket) {
                moved = true;
                let bytes = relay.backward_relayed_bytes() - before;
                match line.attempt.express {
                    true => messages.express(self.now, before, bytes),
                    false => messages.others(bytes),
                }
                let taken = relay.backward_taken_bytes();
                line.reporting.note_downlink(self.now, taken);
                self.net.push(self.now, line.first, End::B);
                self.net.push(self.now, hs, End::A);
            }
        }
        moved
    }
}
