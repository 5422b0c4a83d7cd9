//! Several users at the same time, each with a primary and a session of the user's own, over links
//! and media that they share.

use super::World;
use super::net::SharedLinks;
use super::outcome::Observed;
use super::user::User;

impl World {
    /// Simulates the worlds of all users in the same time, from the same instant on. When one
    /// fails, the others end with what has happened until then.
    ///
    /// # Panics
    /// As [`World::new`].
    pub fn observe_together(users: Vec<User>) -> Vec<Observed> {
        let links = SharedLinks::default();
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
