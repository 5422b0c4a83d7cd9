//! Computes the results of a world: the outcome of each exchange, and its lower bound.

use std::time::Duration;

use mpbond_session::{Copies, Session, SessionStats, SubflowId};
use mpbond_units::{BitRate, Timestamp};

use super::app::{App, End, Running};
use super::host::Host;
use super::line::{Line, SERVER_FLIGHT};
use super::{Exchange, ExchangeOutcome, Failure, Observed, Outcome, Share, World};
use crate::ideal::{self, Capacity, Direction, Hop, Medium, Path, Topology, Transfer};
use crate::link::{LinkChange, LinkConfig, Rate};

impl World {
    pub(super) fn outcome(&self) -> Result<Outcome, Failure> {
        let mut exchanges = Vec::new();
        for (e, x) in self.scenario.exchanges.iter().enumerate() {
            if let Some(Some(r)) = self.running.get(e) {
                if self.direct_at[e].is_none() {
                    self.check_end(e, x, r)?;
                }
                exchanges.push(self.exchange_outcome(x, r));
            }
        }
        let stats = |host: &Host| {
            host.session
                .as_ref()
                .map_or_else(SessionStats::default, Session::stats)
        };
        let joined = |line: &&Line| line.ends[1].tx_octets > SERVER_FLIGHT;
        Ok(Outcome {
            exchanges,
            client: stats(&self.hosts[0]),
            server: stats(&self.hosts[1]),
            ended: self.now,
            packets: self.net.events,
            went_direct: self.went_direct(),
            joins: self.lines.iter().filter(joined).count(),
            longest_gap: self.longest_gap,
        })
    }

    /// Results, with or without a failure.
    pub(super) fn observed(mut self, failure: Option<Failure>) -> Observed {
        let exchanges = self.scenario.exchanges.iter().enumerate().map(|(e, x)| {
            let r = self.running.get(e)?.as_ref()?;
            let well = r.is_over() && self.check_end(e, x, r).is_ok();
            well.then(|| self.exchange_outcome(x, r))
        });
        Observed {
            exchanges: exchanges.collect(),
            left_out: self.left_out,
            visits: self.visits.outcomes(),
            ended: self.now,
            failure,
            passed: self.net.passed.take().unwrap_or_default(),
        }
    }

    /// Checks that everything arrived and that both ends saw the right end.
    fn check_end(&self, e: usize, x: &Exchange, r: &Running) -> Result<(), Failure> {
        if x.is_endless() || !x.ends_well() {
            return Ok(());
        }
        let up = r.origin.as_ref().map_or(0, |o| o.read);
        let ends = [
            r.client.ended.map(|(_, end)| end),
            r.origin.as_ref().and_then(|o| o.ended).map(|(_, end)| end),
        ];
        let finished = ends.iter().all(|e| *e == Some(End::Finished));
        let times = x.rounds.map_or(1, |_| r.client.answered().len() as u64);
        let of = [x.down_bytes, x.up_bytes].map(|bytes| bytes * times);
        if !finished || [r.client.read, up] != of {
            return Err(self.failure(format!(
                "exchange {e}: {} of {} down, {up} of {} up, ended {ends:?}",
                r.client.read, of[0], of[1]
            )));
        }
        Ok(())
    }

    fn exchange_outcome(&self, x: &Exchange, r: &Running) -> ExchangeOutcome {
        let direction = x.direction();
        let bytes = x.up_bytes.max(x.down_bytes);
        let (reader, sender) = match direction {
            Direction::Down => (Some(&r.client), r.origin.as_ref()),
            Direction::Up => (r.origin.as_ref(), Some(&r.client)),
        };
        let sent = sender.and_then(|app| app.closed.as_deref());
        let closed = reader.and_then(|app| app.closed.as_deref());
        let mut shares: Vec<Share> = Vec::new();
        for share in closed.map_or(&[][..], |c| &c.subflows) {
            // A route that was lost and joined again counts once.
            let name = self.route_name(r.session, share.subflow);
            let finished = share.last_in.map(|t| t.since(r.started));
            match shares.iter_mut().find(|s| s.route == name) {
                Some(s) => {
                    s.bytes += share.bytes_in;
                    s.finished = s.finished.max(finished);
                }
                None if share.bytes_in > 0 => shares.push(Share {
                    route: name,
                    bytes: share.bytes_in,
                    finished,
                }),
                None => {}
            }
        }
        ExchangeOutcome {
            started: r.started,
            took: r.client.ended.map(|(t, _)| t.since(r.started)),
            direction,
            client_saw: r.client.ended.map(|(_, end)| end),
            origin_saw: r.origin.as_ref().and_then(|o| o.ended).map(|(_, end)| end),
            down_bytes: r.client.read,
            up_bytes: r.origin.as_ref().map_or(0, |o| o.read),
            shares,
            redundant_bytes: closed.map_or(0, |c| c.redundant_bytes_in),
            copies: sent.map_or_else(Copies::default, |c| c.copies_out),
            longest_stall: reader.map_or(Duration::ZERO, |app| app.longest_gap),
            first_byte: r.client.first_read.map(|t| t.since(r.started)),
            ready: (r.origin.as_ref().and_then(App::ready)).map(|t| t.since(r.started)),
            writes: (r.origin.as_ref()).map_or_else(Vec::new, |o| o.writes_since(r.started)),
            rounds: r.client.answered().to_vec(),
            arrivals: reader.map_or_else(Vec::new, |app| app.arrivals_since(r.started)),
            ideal: (self.scenario.has_bounds)
                .then(|| self.topology(r.started, direction))
                .and_then(|links| ideal::ideal_time(&links, Transfer { bytes, direction }).ok()),
        }
    }

    fn route_name(&self, session: u64, id: SubflowId) -> String {
        let line = self
            .lines
            .iter()
            .find(|line| line.session == session && line.subflow == Some(id))
            .map(|line| self.scenario.routes[line.route].name.clone());
        line.unwrap_or_else(|| id.to_string())
    }

    /// The links from `start` on, for the lower bound.
    fn topology(&self, start: Timestamp, direction: Direction) -> Topology {
        let users = |link: usize| {
            let routes = self.scenario.routes.iter();
            routes.filter(|r| r.links.contains(&link)).count()
        };
        let capacity = |link: usize, side: usize| {
            let l = &self.scenario.links[link];
            let config = if side == 0 { &l.up } else { &l.down };
            capacity(config, &self.rates[link][side], start)
        };
        let hop = |&link: &usize| Hop {
            down: capacity(link, 1),
            up: capacity(link, 0),
            delay: self.scenario.links[link].down.delay,
            shared_medium: (users(link) > 1).then(|| link.to_string()),
        };
        let paths = self.scenario.routes.iter().map(|r| Path {
            name: r.name.clone(),
            hops: r.links.iter().map(hop).collect(),
        });
        let shared = (0..self.scenario.links.len()).filter(|link| users(*link) > 1);
        let side = usize::from(direction == Direction::Down);
        Topology {
            paths: paths.collect(),
            media: shared
                .map(|link| Medium {
                    name: link.to_string(),
                    capacity: capacity(link, side),
                })
                .collect(),
        }
    }
}

/// Rate of a link from `start` on, after all changes.
fn capacity(
    config: &LinkConfig,
    changes: &[(Timestamp, LinkChange)],
    start: Timestamp,
) -> Capacity {
    let Rate::Constant(first) = config.rate else {
        return Capacity::from(config).from_offset(start.since(Timestamp::ZERO));
    };
    let mut rate = first;
    let mut up = true;
    let mut steps = vec![(Duration::ZERO, rate)];
    for (at, change) in changes {
        if let Some(Rate::Constant(r)) = change.rate {
            rate = r;
        }
        up = change.up.unwrap_or(up);
        let now = if up { rate } else { BitRate::ZERO };
        let after = at.since(start);
        if *at <= start {
            steps[0].1 = now;
        } else {
            steps.push((after, now));
        }
    }
    Capacity::schedule(&steps)
}
