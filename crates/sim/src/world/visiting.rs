//! Visits of a world: when they begin, and the exchanges that they add.

use super::World;
use super::scenario::Ending;

impl World {
    /// Begins visits that are due, and the exchanges that their clients request. Returns whether
    /// there are any.
    pub(super) fn visit(&mut self) -> Result<bool, String> {
        for (visit, start) in self.visits.waiting() {
            if self.instant(start).is_some_and(|at| at <= self.now) {
                self.visits.begin(self.now, visit);
            }
        }
        let ended = |e: usize| Some(self.running.get(e)?.as_ref()?.client.ended?.0);
        let mut requested = Vec::new();
        let first = self.scenario.exchanges.len();
        while let Some(exchange) = self.visits.poll(self.now, first + requested.len(), ended) {
            requested.push(exchange);
        }
        let any = !requested.is_empty();
        for exchange in requested {
            self.waiting.put(self.now, self.scenario.exchanges.len());
            self.scenario.exchanges.push(exchange);
            self.running.push(None);
            self.left_out.push(false);
            self.direct_at.push(None);
        }
        if any {
            self.start_exchanges()?;
        }
        let stops = self.visits.take_stops();
        for e in &stops {
            self.stop(*e);
        }
        Ok(any || !stops.is_empty())
    }

    /// The client of a running exchange stops reading now.
    fn stop(&mut self, e: usize) {
        if let Some(running) = self.running.get_mut(e).and_then(Option::as_mut) {
            let ending = Ending::StopAt(self.now.since(running.started));
            running.client.end_by(ending);
            self.scenario.exchanges[e].client.ending = ending;
            self.hosts[0].wake(e);
        }
    }
}
