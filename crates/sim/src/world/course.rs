//! Course of worlds in time, of one or of several that share links.

use mpbond_session::Session;
use mpbond_units::Timestamp;

use super::World;
use super::outcome::Failure;

/// Limit of steps at one instant.
pub(super) const MAX_TURNS: u32 = 20_000;

impl World {
    /// Simulates worlds until all are over, and calls `watch` with the sessions of each (primary,
    /// proxy) after each of its steps.
    ///
    /// # Errors
    /// The first failure, with the index of its world.
    pub(super) fn live(
        worlds: &mut [Self],
        mut watch: impl FnMut(Timestamp, Option<&Session>, Option<&Session>),
    ) -> Result<(), (usize, Failure)> {
        let mut turns = 0;
        // By world: when its time after the last exchange is over.
        let mut over: Vec<Option<Timestamp>> = vec![None; worlds.len()];
        loop {
            for (number, (world, over)) in worlds.iter_mut().zip(&mut over).enumerate() {
                let done = world.step();
                done.map_err(|what| (number, world.failure(what)))?;
                world.note_joined();
                let [primary, proxy] = &world.hosts;
                watch(world.now, primary.session.as_ref(), proxy.session.as_ref());
                if over.is_none() && world.is_done() {
                    *over = Some(world.now + world.scenario.linger);
                }
            }
            let next = worlds.iter().filter_map(Self::next_event).min();
            let end = over.iter().copied().collect::<Option<Vec<_>>>();
            let end = end.and_then(|ends| ends.into_iter().max());
            if end.is_some_and(|end| next.is_none_or(|next| next > end)) {
                return Ok(());
            }
            for (number, world) in worlds.iter_mut().enumerate() {
                world.check().map_err(|failure| (number, failure))?;
            }
            // What stops all of them is the failure of one that is not over.
            let open = over.iter().position(Option::is_none).unwrap_or(0);
            let Some(world) = worlds.get(open) else {
                return Ok(());
            };
            let fails = |what: &str| Err((open, world.failure(what.to_owned())));
            let Some(next) = next else {
                return fails("no event is left, and exchanges are open");
            };
            if next > Timestamp::ZERO + world.scenario.limit {
                return fails("the scenario's time limit is over");
            }
            turns = if next > world.now { 0 } else { turns + 1 };
            if turns > MAX_TURNS {
                return fails("time does not advance");
            }
            for world in &mut *worlds {
                world.now = world.now.max(next);
            }
        }
    }
}
