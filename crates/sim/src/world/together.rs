//! Several users at the same time, each with a primary and a session of the user's own, over links
//! and media that they share.

use mpbond_manager::LinkLedger;

use super::World;
use super::net::SharedLinks;
use super::outcome::Observed;
use super::user::User;

/// Knowledge of users' sessions about each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sessions {
    /// They know nothing of each other.
    Independent,
    /// They are at one proxy, which orders their bytes by a [`LinkLedger`].
    InLedger,
}

impl World {
    /// Simulates the worlds of all users in the same time, from the same instant on. When one
    /// fails, the others end with what has happened until then.
    ///
    /// # Panics
    /// As [`World::new`].
    pub fn observe_together(users: Vec<User>, sessions: Sessions) -> Vec<Observed> {
        let links = SharedLinks::default();
        links.borrow_mut().ledger = (sessions == Sessions::InLedger).then(LinkLedger::default);
        let users = users.into_iter();
        let worlds = users.map(|user| Self::over(&links, user.scenario, &user.reversed));
        let mut worlds: Vec<Self> = worlds.collect();
        let failed = Self::live(&mut worlds, |_, _, _| {}).err();
        let worlds = worlds.into_iter().enumerate();
        let observed = worlds.map(|(number, world)| {
            let own = failed.iter().find(|(failed, _)| *failed == number);
            world.observed(own.map(|(_, failure)| failure.clone()))
        });
        observed.collect()
    }
}
