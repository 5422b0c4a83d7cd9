//! Models of all links, single ones and groups: the pure part of a player.

use std::collections::HashMap;
use std::sync::Arc;

use mpbond_radio::machine::Band;
use mpbond_radio::{Direction, RadioProfile};
use mpbond_units::Timestamp;

use super::airtime::Medium;
use super::group::{Group, MediumId, RadioId};
use super::{Delivered, Dropped, Link, LinkChange, LinkStats};

/// A medium shared by all links that name it.
#[derive(Debug, Clone)]
pub struct SharedMedium {
    /// Its name.
    pub name: String,
    /// Properties of the medium.
    pub medium: Medium,
    /// Whether a link's two directions share it. If not, each has a medium of its own, as in a cell
    /// with two frequencies.
    pub half_duplex: bool,
    /// How often a packet that is lost on it is sent again ([`Link::with_retries`]).
    pub retries: u32,
}

/// A radio at one end of a link.
#[derive(Debug, Clone)]
pub struct SharedRadio {
    /// Name: links on one medium share radios of the same name.
    pub owner: String,
    /// Profile of the radio.
    pub profile: Arc<RadioProfile>,
}

/// Medium and radios that a link shares with others, or its directions with each other.
#[derive(Debug, Clone, Default)]
pub struct Shared {
    /// The medium that it is on.
    pub medium: Option<SharedMedium>,
    /// The radio of the near host.
    pub near_radio: Option<SharedRadio>,
    /// The radio of the far host.
    pub far_radio: Option<SharedRadio>,
}

impl Shared {
    fn is_nothing(&self) -> bool {
        self.medium.is_none() && self.near_radio.is_none() && self.far_radio.is_none()
    }
}

// A handful exist, so their size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
enum Model<P> {
    Alone(Link<P>),
    Shared(Group<P>),
}

/// Location of the model of one direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    model: usize,
    member: usize,
}

/// The models of all links.
#[derive(Debug)]
pub struct Models<P> {
    models: Vec<Model<P>>,
    /// The groups by the name of their medium, or of the link with radios.
    groups: HashMap<(bool, String), usize>,
    /// By name and, where each direction has one of its own, direction.
    media: HashMap<(String, Option<Direction>), MediumId>,
    radios: HashMap<(usize, String), RadioId>,
}

impl<P> Default for Models<P> {
    fn default() -> Self {
        Self {
            models: Vec::new(),
            groups: HashMap::new(),
            media: HashMap::new(),
            radios: HashMap::new(),
        }
    }
}

impl<P> Models<P> {
    /// Adds both directions of a link, up and down as seen from its near host.
    pub fn add(&mut self, name: &str, shared: &Shared, up: Link<P>, down: Link<P>) -> [Seat; 2] {
        if shared.is_nothing() {
            return [up, down].map(|link| self.add_model(Model::Alone(link)));
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
        [(Direction::Up, up), (Direction::Down, down)].map(|(direction, link)| {
            let member = self.add_member(index, shared, direction, link);
            Seat {
                model: index,
                member,
            }
        })
    }

    fn add_model(&mut self, model: Model<P>) -> Seat {
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
        link: Link<P>,
    ) -> usize {
        let Some(Model::Shared(group)) = self.models.get_mut(index) else {
            unreachable!("the index is a group's");
        };
        let medium = shared.medium.as_ref().map(|medium| {
            let own = (!medium.half_duplex).then_some(direction);
            *self
                .media
                .entry((medium.name.clone(), own))
                .or_insert_with(|| group.add_medium(medium.medium))
        });
        let mut radio = |radio: &SharedRadio| {
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
        let sends = sender.map(|radio| (radio, Direction::Up));
        let receives = receiver.map(|radio| (radio, Direction::Down));
        let radios = sends.into_iter().chain(receives).collect();
        let retries = shared.medium.as_ref().map_or(0, |medium| medium.retries);
        group.add(link.with_retries(retries), medium, radios)
    }

    /// Offers a packet of `bytes` (IP bytes).
    ///
    /// # Errors
    /// See [`Link::enqueue`].
    pub fn enqueue(
        &mut self,
        seat: Seat,
        now: Timestamp,
        bytes: u32,
        packet: P,
    ) -> Result<(), Dropped<P>> {
        match &mut self.models[seat.model] {
            Model::Alone(link) => link.enqueue(now, bytes, packet),
            Model::Shared(group) => group.enqueue(seat.member, now, bytes, packet),
        }
    }

    /// The next packet of a link that has arrived by `now`.
    pub fn poll(&mut self, seat: Seat, now: Timestamp) -> Option<Delivered<P>> {
        match &mut self.models[seat.model] {
            Model::Alone(link) => link.poll(now),
            Model::Shared(group) => group.poll(seat.member, now),
        }
    }

    /// Changes one direction of a link now; see [`Link::apply`].
    pub fn apply(&mut self, seat: Seat, now: Timestamp, change: &LinkChange) {
        match &mut self.models[seat.model] {
            Model::Alone(link) => link.apply(now, change),
            Model::Shared(group) => group.apply(seat.member, now, change),
        }
    }

    /// Counters of one direction of a link.
    pub fn stats(&self, seat: Seat) -> LinkStats {
        self.link(seat).map(Link::stats).unwrap_or_default()
    }

    /// Whether one direction of a link is up.
    pub fn is_up(&self, seat: Seat) -> bool {
        self.link(seat).is_some_and(Link::is_up)
    }

    fn link(&self, seat: Seat) -> Option<&Link<P>> {
        match &self.models[seat.model] {
            Model::Alone(link) => Some(link),
            Model::Shared(group) => group.link(seat.member),
        }
    }

    /// Time of the next event of any link.
    pub fn next_event(&self) -> Option<Timestamp> {
        let events = self.models.iter().filter_map(|model| match model {
            Model::Alone(link) => link.next_event(),
            Model::Shared(group) => group.next_event(),
        });
        events.min()
    }

    /// The band of the medium that shares its antenna with Bluetooth, if one does
    /// ([`Group::band`]). One medium at most has `shares_antenna`, and one of both directions.
    pub fn band(&mut self, now: Timestamp) -> Option<&mut Band> {
        self.models.iter_mut().find_map(|model| match model {
            Model::Shared(group) => group.band(now),
            Model::Alone(_) => None,
        })
    }

    /// Returns every radio to idle.
    pub fn rest_radios(&mut self) {
        for model in &mut self.models {
            if let Model::Shared(group) = model {
                group.rest_radios();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mpbond_radio::Profiles;
    use mpbond_units::BitRate;

    use super::*;
    use crate::link::{LinkConfig, Rate};

    fn link() -> Link<&'static str> {
        // A full packet takes 1 ms.
        let rate = Rate::Constant(BitRate::from_mbps(12.0));
        Link::new(LinkConfig::new(rate), 1)
    }

    fn medium(half_duplex: bool) -> Option<SharedMedium> {
        Some(SharedMedium {
            name: "air".into(),
            medium: Medium::default(),
            half_duplex,
            retries: 0,
        })
    }

    #[test]
    fn a_band_is_there_where_a_medium_shares_its_antenna() {
        let mut models: Models<&str> = Models::default();
        let mut shared = Shared {
            medium: medium(true),
            ..Shared::default()
        };
        models.add("one", &shared, link(), link());
        assert!(models.band(Timestamp::ZERO).is_none());
        if let Some(medium) = &mut shared.medium {
            medium.name = "other".into();
            medium.medium.shares_antenna = true;
        }
        let [up, _] = models.add("two", &shared, link(), link());
        models.enqueue(up, Timestamp::ZERO, 1500, "").unwrap();
        let now = Timestamp::from_micros(400);
        let band = models.band(now).unwrap();
        let slots = Duration::from_millis(4);
        // The packet of WiFi is on the air until 1 ms.
        let through = band.packet(now, mpbond_radio::machine::BandUser::Bluetooth, slots);
        assert_eq!(through, Timestamp::from_millis(5));
    }

    fn radio(owner: &str) -> Option<SharedRadio> {
        let profiles = Profiles::shipped().unwrap();
        Some(SharedRadio {
            owner: owner.into(),
            profile: Arc::new(profiles.radio("lte-2012").unwrap().clone()),
        })
    }

    /// When a packet of each seat is there, all offered at 0, in tenths of ms.
    fn arrivals<const N: usize>(models: &mut Models<&'static str>, seats: [Seat; N]) -> [u64; N] {
        for seat in seats {
            let taken = models.enqueue(seat, Timestamp::ZERO, 1500, "");
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
        let [a, b] = models.add("one", first, link(), link());
        let [c, d] = models.add("two", second, link(), link());
        arrivals(&mut models, [a, b, c, d])
    }

    #[test]
    fn links_share_what_they_name() {
        let nothing = Shared::default();
        assert_eq!(two_links(&nothing, &nothing), [10; 4]);
        let half = Shared {
            medium: medium(true),
            ..Shared::default()
        };
        assert_eq!(two_links(&half, &half), [10, 20, 30, 40]);
        assert_eq!(two_links(&half, &nothing), [10, 20, 10, 10]);
        let full = Shared {
            medium: medium(false),
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
        let [up, down] = models.add("one", &near, link(), link());
        assert_eq!(arrivals(&mut models, [up, down]), [2611, 2611]);
        models.apply(up, Timestamp::from_millis(300), &LinkChange::default());
        models.rest_radios();
        let later = Timestamp::from_millis(300);
        models.enqueue(down, later, 1500, "").unwrap();
        let at = models.next_event().unwrap();
        assert!(at - later >= Duration::from_micros(261_100), "{at}");
        // One radio at both links of a host, and another at the far end.
        let shared = Shared {
            medium: medium(true),
            near_radio: radio("primary/air"),
            far_radio: None,
        };
        assert_eq!(two_links(&shared, &shared), [2611, 2621, 2631, 2641]);
        let both_ends = Shared {
            far_radio: radio("tablet/one"),
            ..near
        };
        let mut models = Models::default();
        let [up, _] = models.add("one", &both_ends, link(), link());
        let [after_both] = arrivals(&mut models, [up]);
        assert!(after_both >= 2 * 2601 + 10, "{after_both}");
    }
}
