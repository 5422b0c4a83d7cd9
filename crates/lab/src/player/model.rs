//! The pure models behind the lanes: links alone, and groups of those that
//! share something.

use std::collections::HashMap;
use std::sync::Arc;

use mpbond_radio::{Direction as Way, RadioProfile};
use mpbond_sim::link::{
    Delivered, Dropped, Group, Link, LinkChange, LinkConfig, LinkStats, Medium, MediumId, RadioId,
};
use mpbond_units::Timestamp;

use crate::experiment::{Direction, Duplex};

/// A medium that links of the same name for it share.
#[derive(Debug, Clone)]
pub struct PlayedMedium {
    /// Its name.
    pub name: String,
    /// How it carries packets.
    pub medium: Medium,
    /// Whether both directions of a link are on it.
    pub duplex: Duplex,
}

/// A radio at one end of a link.
#[derive(Debug, Clone)]
pub struct PlayedRadio {
    /// Radios of links on one medium are one radio where this is the same.
    pub owner: String,
    /// Its figures.
    pub profile: Arc<RadioProfile>,
}

/// What a link shares with others, or its directions with each other.
#[derive(Debug, Clone, Default)]
pub struct Shared {
    /// The medium that it is on.
    pub medium: Option<PlayedMedium>,
    /// The radio of the near host.
    pub near_radio: Option<PlayedRadio>,
    /// The radio of the far host.
    pub far_radio: Option<PlayedRadio>,
}

impl Shared {
    fn is_nothing(&self) -> bool {
        self.medium.is_none() && self.near_radio.is_none() && self.far_radio.is_none()
    }
}

type Packet = Vec<u8>;

// A handful exist, so their size does not matter.
#[allow(clippy::large_enum_variant)]
enum Model {
    Alone(Link<Packet>),
    Shared(Group<Packet>),
}

/// Where a lane's model is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat {
    model: usize,
    member: usize,
}

/// All models.
#[derive(Default)]
pub(super) struct Models {
    models: Vec<Model>,
    /// The groups by the name of their medium, or of the link with radios.
    groups: HashMap<(bool, String), usize>,
    media: HashMap<(String, Option<Direction>), MediumId>,
    radios: HashMap<(usize, String), RadioId>,
}

impl Models {
    /// Adds both directions of a link, up and down.
    pub fn add(&mut self, name: &str, shared: &Shared, up: Config, down: Config) -> [Seat; 2] {
        if shared.is_nothing() {
            return [up, down].map(|config| self.add_model(Model::Alone(config.link())));
        }
        let key = match &shared.medium {
            Some(medium) => (true, medium.name.clone()),
            None => (false, name.to_owned()),
        };
        let index = match self.groups.get(&key) {
            Some(index) => *index,
            None => {
                let index = self.add_model(Model::Shared(Group::new())).model;
                self.groups.insert(key, index);
                index
            }
        };
        [(Direction::Up, up), (Direction::Down, down)].map(|(direction, config)| {
            let member = self.add_member(index, shared, direction, config);
            Seat {
                model: index,
                member,
            }
        })
    }

    fn add_model(&mut self, model: Model) -> Seat {
        self.models.push(model);
        Seat {
            model: self.models.len() - 1,
            member: 0,
        }
    }

    fn add_member(
        &mut self,
        index: usize,
        shared: &Shared,
        direction: Direction,
        config: Config,
    ) -> usize {
        let Some(Model::Shared(group)) = self.models.get_mut(index) else {
            unreachable!("the index is a group's");
        };
        let medium = shared.medium.as_ref().map(|medium| {
            let own = (medium.duplex == Duplex::Full).then_some(direction);
            *self
                .media
                .entry((medium.name.clone(), own))
                .or_insert_with(|| group.add_medium(medium.medium))
        });
        let mut radio = |radio: &PlayedRadio| {
            *self
                .radios
                .entry((index, radio.owner.clone()))
                .or_insert_with(|| group.add_radio(radio.profile.clone()))
        };
        let near = shared.near_radio.as_ref().map(&mut radio);
        let far = shared.far_radio.as_ref().map(&mut radio);
        let (sender, receiver) = match direction {
            Direction::Up => (near, far),
            Direction::Down => (far, near),
        };
        let sends = sender.map(|radio| (radio, Way::Up));
        let receives = receiver.map(|radio| (radio, Way::Down));
        let radios = sends.into_iter().chain(receives).collect();
        group.add(config.link(), medium, radios)
    }

    pub fn enqueue(
        &mut self,
        seat: Seat,
        now: Timestamp,
        packet: Packet,
    ) -> Result<(), Dropped<Packet>> {
        let bytes = packet.len() as u32;
        match &mut self.models[seat.model] {
            Model::Alone(link) => link.enqueue(now, bytes, packet),
            Model::Shared(group) => group.enqueue(seat.member, now, bytes, packet),
        }
    }

    pub fn poll(&mut self, seat: Seat, now: Timestamp) -> Option<Delivered<Packet>> {
        match &mut self.models[seat.model] {
            Model::Alone(link) => link.poll(now),
            Model::Shared(group) => group.poll(seat.member, now),
        }
    }

    pub fn apply(&mut self, seat: Seat, now: Timestamp, change: &LinkChange) {
        match &mut self.models[seat.model] {
            Model::Alone(link) => link.apply(now, change),
            Model::Shared(group) => group.apply(seat.member, now, change),
        }
    }

    pub fn stats(&self, seat: Seat) -> LinkStats {
        match &self.models[seat.model] {
            Model::Alone(link) => link.stats(),
            Model::Shared(group) => group.link(seat.member).map(Link::stats).unwrap_or_default(),
        }
    }

    /// When any of them next has something to do.
    pub fn next_event(&self) -> Option<Timestamp> {
        let events = self.models.iter().filter_map(|model| match model {
            Model::Alone(link) => link.next_event(),
            Model::Shared(group) => group.next_event(),
        });
        events.min()
    }

    /// Puts every radio to rest.
    pub fn rest_radios(&mut self) {
        for model in &mut self.models {
            if let Model::Shared(group) = model {
                group.rest_radios();
            }
        }
    }
}

/// What one direction's model is made of.
pub(super) struct Config {
    pub config: LinkConfig,
    pub seed: u64,
    pub start: Timestamp,
}

impl Config {
    fn link(self) -> Link<Packet> {
        Link::starting_at(self.config, self.seed, self.start)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mpbond_radio::Profiles;
    use mpbond_sim::link::Rate;
    use mpbond_units::BitRate;

    use super::*;

    fn config() -> Config {
        // A full packet takes 1 ms.
        let rate = Rate::Constant(BitRate::from_mbps(12.0));
        Config {
            config: LinkConfig::new(rate),
            seed: 1,
            start: Timestamp::ZERO,
        }
    }

    fn medium(duplex: Duplex) -> Option<PlayedMedium> {
        Some(PlayedMedium {
            name: "air".into(),
            medium: Medium::default(),
            duplex,
        })
    }

    fn radio(owner: &str) -> Option<PlayedRadio> {
        let profiles = Profiles::shipped().unwrap();
        Some(PlayedRadio {
            owner: owner.into(),
            profile: Arc::new(profiles.radio("lte-2012").unwrap().clone()),
        })
    }

    /// When a packet of each seat is there, all offered at 0, in tenths of ms.
    fn arrivals<const N: usize>(models: &mut Models, seats: [Seat; N]) -> [u64; N] {
        for seat in seats {
            let taken = models.enqueue(seat, Timestamp::ZERO, vec![0; 1500]);
            taken.unwrap();
        }
        let mut out = [0; N];
        while let Some(at) = models.next_event() {
            for (seat, out) in seats.into_iter().zip(&mut out) {
                if models.poll(seat, at).is_some() {
                    *out = at.as_nanos() / 100_000;
                }
            }
        }
        out
    }

    fn two_links(first: &Shared, second: &Shared) -> [u64; 4] {
        let mut models = Models::default();
        let [a, b] = models.add("one", first, config(), config());
        let [c, d] = models.add("two", second, config(), config());
        arrivals(&mut models, [a, b, c, d])
    }

    #[test]
    fn links_share_what_they_name() {
        let nothing = Shared::default();
        assert_eq!(two_links(&nothing, &nothing), [10; 4]);
        let half = Shared {
            medium: medium(Duplex::Half),
            ..Shared::default()
        };
        assert_eq!(two_links(&half, &half), [10, 20, 30, 40]);
        assert_eq!(two_links(&half, &nothing), [10, 20, 10, 10]);
        let full = Shared {
            medium: medium(Duplex::Full),
            ..Shared::default()
        };
        assert_eq!(two_links(&full, &full), [10, 10, 20, 20]);
    }

    #[test]
    fn a_radio_serves_both_directions_of_its_links() {
        let near = Shared {
            near_radio: radio("phone/one"),
            ..Shared::default()
        };
        // Woken by the packet up, 260.1 ms; the one down waits for the same.
        let mut models = Models::default();
        let [up, down] = models.add("one", &near, config(), config());
        assert_eq!(arrivals(&mut models, [up, down]), [2611, 2611]);
        models.apply(up, Timestamp::from_millis(300), &LinkChange::default());
        models.rest_radios();
        let later = Timestamp::from_millis(300);
        models.enqueue(down, later, vec![0; 1500]).unwrap();
        let at = models.next_event().unwrap();
        assert!(at - later >= Duration::from_micros(261_100), "{at}");
        // One radio at both links of a host, and another at the far end.
        let shared = Shared {
            medium: medium(Duplex::Half),
            near_radio: radio("primary/air"),
            far_radio: None,
        };
        assert_eq!(two_links(&shared, &shared), [2611, 2621, 2631, 2641]);
        let both_ends = Shared {
            far_radio: radio("tablet/one"),
            ..near
        };
        let mut models = Models::default();
        let [up, _] = models.add("one", &both_ends, config(), config());
        let [after_both] = arrivals(&mut models, [up]);
        assert!(after_both >= 2 * 2601 + 10, "{after_both}");
    }
}
