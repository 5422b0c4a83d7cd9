//! Names by the addresses with which they were answered.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::addresses::addresses;
use super::message::Query;

/// Maximum number of names of an asker for an address.
const MAX_NAMES_EACH: usize = 16;

/// Maximum number of names of another host that asks.
const MAX_NAMES_OF_HOST: usize = 256;

/// Maximum number of names of this host, and of all other hosts together.
const MAX_NAMES: usize = 1_024;

/// Time for which a name is known at least, whatever the TTL: a client that asks for the addresses
/// of both families waits some seconds for the second answer before it connects.
const KEPT_AT_LEAST: Duration = Duration::from_secs(10);

/// Time for which a name is known at most: the owner of the name chooses the TTL.
const KEPT_AT_MOST: Duration = Duration::from_hours(1);

/// Names for which the stub has answered an asker with an address, until the TTL of the answer
/// ends. An address may have several.
///
/// An asker is the address of another host, or `None` for this host.
#[derive(Debug, Default)]
pub struct KnownNames {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// In the order of their last answers.
    known: Vec<Known>,
    /// Number of [`Paused`] now.
    paused: usize,
    /// Number of [`Paused`] since the start.
    pauses: u64,
}

#[derive(Debug)]
struct Known {
    asker: Option<IpAddr>,
    address: IpAddr,
    name: Arc<str>,
    until: Instant,
}

/// As long as it exists, look-ups may be answered by others than the proxy: what is asked meanwhile
/// is not noted.
#[derive(Debug)]
pub struct Paused(Arc<KnownNames>);

impl Drop for Paused {
    fn drop(&mut self) {
        self.0.state().paused -= 1;
    }
}

impl KnownNames {
    /// Notes the addresses in a response to this asker. Where there is no room, the name that was
    /// answered least recently gives way.
    pub fn note(&self, now: Instant, asker: Option<IpAddr>, query: &Query, response: &[u8]) {
        let (addresses, ttl) = addresses(query, response);
        if addresses.is_empty() {
            return;
        }
        let name = Arc::<str>::from(query.name());
        let until = now + ttl.clamp(KEPT_AT_LEAST, KEPT_AT_MOST);
        let known = &mut self.state().known;
        known.retain(|known| now < known.until);
        for address in addresses.into_iter().take(MAX_NAMES_EACH) {
            let name = Arc::clone(&name);
            let new = Known {
                asker,
                address,
                name,
                until,
            };
            add(known, new);
        }
    }

    /// Names of an address for this asker.
    pub fn of(&self, now: Instant, asker: Option<IpAddr>, address: IpAddr) -> Vec<Arc<str>> {
        let state = self.state();
        let found = state
            .known
            .iter()
            .filter(|known| known.asker == asker && known.address == address && now < known.until);
        found.map(|known| Arc::clone(&known.name)).collect()
    }

    /// Notes nothing that is asked before the result is dropped.
    pub fn pause(self: &Arc<Self>) -> Paused {
        let mut state = self.state();
        state.paused += 1;
        state.pauses += 1;
        Paused(Arc::clone(self))
    }

    /// The number of pauses so far; `None` during one.
    pub(super) fn pauses(&self) -> Option<u64> {
        let state = self.state();
        (state.paused == 0).then_some(state.pauses)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(all: &mut Vec<Known>, mut new: Known) {
    let is_same = |known: &Known| {
        known.asker == new.asker && known.address == new.address && known.name == new.name
    };
    if let Some(at) = all.iter().position(is_same) {
        // The client may have kept the earlier answer.
        new.until = new.until.max(all.remove(at).until);
    }
    let of_asker = |known: &Known| known.asker == new.asker;
    let of_address = |known: &Known| of_asker(known) && known.address == new.address;
    let of_kind = |known: &Known| known.asker.is_some() == new.asker.is_some();
    let each = new.asker.map_or(MAX_NAMES, |_| MAX_NAMES_OF_HOST);
    make_room(all, MAX_NAMES_EACH, of_address);
    make_room(all, each, of_asker);
    make_room(all, MAX_NAMES, of_kind);
    all.push(new);
}

/// Removes the one answered least recently of those that count, if there are as many as may be.
fn make_room(all: &mut Vec<Known>, most: usize, counts: impl Fn(&Known) -> bool) {
    let mut counted = (0..all.len()).filter(|at| counts(&all[*at]));
    if let Some(first) = counted.next()
        && counted.count() + 1 >= most
    {
        all.remove(first);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::addresses::tests::{record, response};
    use super::*;

    fn query(name: &str) -> Query {
        let header = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let labels = name.split('.').flat_map(|label| {
            let length = std::iter::once(label.len() as u8);
            length.chain(label.bytes()).collect::<Vec<u8>>()
        });
        let labels: Vec<u8> = labels.collect();
        let message = [&header[..], &labels, &[0, 0, 1, 0, 1]].concat();
        Query::parse(&message).unwrap()
    }

    const OTHER: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)));

    /// Notes that a name of eleven octets has this address.
    fn note_of(
        known: &KnownNames,
        now: Instant,
        asker: Option<IpAddr>,
        (name, address, ttl): (&str, [u8; 4], u32),
    ) {
        let response = response(&[record(1, ttl, &address)]);
        known.note(now, asker, &query(name), &response);
    }

    fn note(known: &KnownNames, now: Instant, name: &str, address: [u8; 4], ttl: u32) {
        note_of(known, now, None, (name, address, ttl));
    }

    fn names(known: &KnownNames, now: Instant, address: [u8; 4]) -> Vec<String> {
        let found = known.of(now, None, address.into());
        found.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn a_name_is_known_until_the_ttl_ends_ten_seconds_at_least_and_an_hour_at_most() {
        let (known, now) = (KnownNames::default(), Instant::now());
        let (one, other) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        let second = Duration::from_secs(1);
        note(&known, now, "WWW.example", one, 60);
        note(&known, now, "ftp.example", one, 0);
        assert_eq!(names(&known, now, one), ["www.example", "ftp.example"]);
        assert!(names(&known, now, other).is_empty());
        assert_eq!(names(&known, now + 9 * second, one).len(), 2);
        assert_eq!(names(&known, now + 10 * second, one), ["www.example"]);
        // A later answer with a lower TTL takes nothing of the first one's.
        note(&known, now + 30 * second, "www.example", one, 5);
        assert_eq!(names(&known, now + 59 * second, one), ["www.example"]);
        assert!(names(&known, now + 60 * second, one).is_empty());
        note(&known, now, "www.example", other, i32::MAX as u32);
        assert_eq!(names(&known, now + 3_599 * second, other).len(), 1);
        assert!(names(&known, now + 3_600 * second, other).is_empty());
    }

    #[test]
    fn names_are_those_of_the_asker() {
        let (known, now) = (KnownNames::default(), Instant::now());
        let address = [192, 0, 2, 1];
        note_of(&known, now, OTHER, ("www.example", address, 60));
        assert!(names(&known, now, address).is_empty());
        let third = Some([10, 0, 0, 8].into());
        assert!(known.of(now, third, address.into()).is_empty());
        assert_eq!(known.of(now, OTHER, address.into()).len(), 1);
    }

    #[test]
    fn names_are_bounded_and_an_asker_displaces_none_of_this_host() {
        let (known, start) = (KnownNames::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let shared = [192, 0, 2, 1];
        for n in 0..100_u64 {
            note(&known, at(n), &format!("a{n:02}.example"), shared, 900);
        }
        let found = names(&known, at(100), shared);
        assert_eq!(found.len(), MAX_NAMES_EACH);
        assert!(found.contains(&"a99.example".to_owned()));
        for n in 0..1_500_u64 {
            let [.., high, low] = n.to_be_bytes();
            let name = ("www.example", [10, 0, high, low], 900);
            note_of(&known, at(200 + n), OTHER, name);
        }
        assert_eq!(
            known.state().known.len(),
            MAX_NAMES_EACH + MAX_NAMES_OF_HOST
        );
        for n in 0..1_500_u64 {
            let [.., high, low] = n.to_be_bytes();
            let asker = Some([10, 1, high, low].into());
            note_of(&known, at(6_000 + n), asker, ("www.example", shared, 900));
        }
        assert_eq!(known.state().known.len(), MAX_NAMES_EACH + MAX_NAMES);
        assert_eq!(names(&known, at(12_000), shared), found);
        for n in 0..1_500_u64 {
            let [.., high, low] = n.to_be_bytes();
            note(
                &known,
                at(12_000 + n),
                "www.example",
                [10, 0, high, low],
                900,
            );
        }
        assert_eq!(known.state().known.len(), 2 * MAX_NAMES);
        assert!(names(&known, at(17_000), shared).is_empty());
        assert_eq!(names(&known, at(17_000), [10, 0, 0x05, 0xdb]).len(), 1);
    }

    #[test]
    fn names_whose_time_has_ended_give_way_first() {
        let (known, now) = (KnownNames::default(), Instant::now());
        let address = [192, 0, 2, 1];
        note(&known, now, "www.example", address, 900);
        for n in 0..15 {
            note(&known, now, &format!("a{n:02}.example"), address, 0);
        }
        let later = now + KEPT_AT_LEAST;
        note(&known, later, "ftp.example", address, 900);
        assert_eq!(
            names(&known, later, address),
            ["www.example", "ftp.example"]
        );
    }
}
