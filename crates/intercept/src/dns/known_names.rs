//! Names by the addresses with which they were answered.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::addresses::addresses;
use super::message::Query;

/// Maximum number of names of all addresses.
const MAX_NAMES: usize = 1_024;

/// Maximum number of names of an address.
const MAX_NAMES_EACH: usize = 16;

/// Time for which a name is known at least, whatever the TTL: a client that asks for the addresses
/// of both families waits some seconds for the second answer before it connects.
const KEPT_AT_LEAST: Duration = Duration::from_secs(10);

/// Names for which the stub has answered with an address, until the TTL of the answer ends. An
/// address may have several.
#[derive(Debug, Default)]
pub struct KnownNames {
    known: Mutex<Vec<Known>>,
}

#[derive(Debug)]
struct Known {
    address: IpAddr,
    name: Arc<str>,
    until: Instant,
    /// Last answer with it, or connection to it.
    used: Instant,
}

impl KnownNames {
    /// Notes the addresses in a response. Where there is no room, the name that was used least
    /// recently gives way.
    pub fn note(&self, now: Instant, query: &Query, response: &[u8]) {
        let (addresses, ttl) = addresses(query, response);
        if addresses.is_empty() {
            return;
        }
        let name = Arc::<str>::from(query.name());
        let until = now + ttl.max(KEPT_AT_LEAST);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for address in addresses.into_iter().take(MAX_NAMES_EACH) {
            let name = Arc::clone(&name);
            let used = now;
            add(
                &mut known,
                Known {
                    address,
                    name,
                    until,
                    used,
                },
            );
        }
    }

    /// Names of an address.
    pub fn of(&self, now: Instant, address: IpAddr) -> Vec<Arc<str>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let of_address = |known: &&mut Known| known.address == address && now < known.until;
        let found = known.iter_mut().filter(of_address).map(|known| {
            known.used = now;
            Arc::clone(&known.name)
        });
        found.collect()
    }
}

fn add(all: &mut Vec<Known>, mut new: Known) {
    let address = new.address;
    let is_same = |known: &&mut Known| known.address == address && known.name == new.name;
    if let Some(known) = all.iter_mut().find(is_same) {
        // Others may have kept the earlier answer.
        new.until = new.until.max(known.until);
        *known = new;
        return;
    }
    let of_address = all.iter().filter(|known| known.address == address).count();
    let is_crowded = of_address >= MAX_NAMES_EACH;
    if !is_crowded && all.len() < MAX_NAMES {
        all.push(new);
        return;
    }
    let gives_way = |known: &&mut Known| !is_crowded || known.address == address;
    let oldest = all.iter_mut().filter(gives_way).min_by_key(|k| k.used);
    if let Some(oldest) = oldest {
        *oldest = new;
    }
}

#[cfg(test)]
mod tests {
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

    /// Notes that a name of eleven octets has this address.
    fn note(known: &KnownNames, now: Instant, name: &str, address: [u8; 4], ttl: u32) {
        known.note(now, &query(name), &response(&[record(1, ttl, &address)]));
    }

    fn names(known: &KnownNames, now: Instant, address: [u8; 4]) -> Vec<String> {
        let found = known.of(now, address.into());
        found.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn a_name_is_known_until_the_ttl_ends_and_ten_seconds_at_least() {
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
    }

    #[test]
    fn names_are_bounded_and_those_that_are_used_stay() {
        let (known, start) = (KnownNames::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        for n in 0..100_u64 {
            note(
                &known,
                at(n),
                &format!("a{n:02}.example"),
                [192, 0, 2, 1],
                900,
            );
        }
        let found = names(&known, at(100), [192, 0, 2, 1]);
        assert_eq!(found.len(), MAX_NAMES_EACH);
        assert!(found.contains(&"a99.example".to_owned()));
        for n in 0..5_000_u64 {
            let [.., high, low] = n.to_be_bytes();
            note(&known, at(200 + n), "www.example", [10, 0, high, low], 900);
            // One connection after another goes to this address.
            assert_eq!(names(&known, at(200 + n), [10, 0, 0, 0]), ["www.example"]);
        }
        assert_eq!(known.known.lock().unwrap().len(), MAX_NAMES);
        assert!(names(&known, at(6_000), [192, 0, 2, 1]).is_empty());
        assert_eq!(names(&known, at(6_000), [10, 0, 0x13, 0x87]).len(), 1);
    }
}
