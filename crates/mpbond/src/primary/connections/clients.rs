//! Clients of the fronts: how many there are, and how many of one source.
//!
//! A source is a program of this host, by the user and control group that the kernel names for its
//! socket, or else the address that a connection comes from. The kernel is asked only while more
//! than an eighth of the places of a session are taken, about each connection once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

use mpbond_intercept::Via;

use super::identity::{Ends, Identity, Owners};

use crate::quota::{Full, source};

/// Maximum number of clients at a time: those of a session, and as many that wait or go direct.
pub(in crate::primary) const MAX_CLIENTS: usize = 32_768;

/// Maximum number of clients of one source: three quarters of the streams of a session, so that a
/// program that opens too many leaves room for others.
const MAX_CLIENTS_EACH: usize = 12_288;

/// Maximum number of clients that are being refused since there are too many; others are closed
/// without an answer.
pub(in crate::primary) const MAX_REFUSALS: usize = 256;

/// Number of clients from which sources are looked at. The first look is at all of them, one after
/// the other on the thread of the data path, some 50 microseconds each: 0.1 s in all.
const LOOK_FROM: usize = 2_048;

/// Holder of a share of the places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// Programs of one user in one control group of this host.
    Program { uid: u32, cgroup: Option<u64> },
    /// What came from one address, or IPv6 /64, in the same way.
    Address(Via, IpAddr),
}

/// The clients of all fronts. For use on one thread.
pub(in crate::primary) struct Clients(Rc<RefCell<Table>>);

#[derive(Default)]
struct Table {
    next: u64,
    /// Clients whose source has not been looked at.
    unknown: HashMap<u64, Ends>,
    known: HashMap<u64, Source>,
    /// Number of known clients of each source.
    held: HashMap<Source, usize>,
    owners: Owners,
}

/// A client's place; dropping it gives it back.
pub(in crate::primary) struct ClientPlace {
    table: Rc<RefCell<Table>>,
    number: u64,
}

impl Clients {
    pub(in crate::primary) fn new(owners: Owners) -> Self {
        let table = Table {
            owners,
            ..Table::default()
        };
        Self(Rc::new(RefCell::new(table)))
    }

    /// Takes a place for a connection.
    pub(in crate::primary) fn take(&self, identity: &Identity) -> Result<ClientPlace, Full> {
        let own = identity.ends();
        let ask = |table: &mut Table, ends: Ends| {
            let owner = match ends == own {
                true => identity.owner(),
                false => table.owners.of(ends),
            };
            match owner {
                Some(owner) => Source::Program {
                    uid: owner.uid,
                    cgroup: owner.cgroup,
                },
                None => Source::Address(ends.via, source(ends.client)),
            }
        };
        let number = self.0.borrow_mut().take(own, ask)?;
        Ok(ClientPlace {
            table: Rc::clone(&self.0),
            number,
        })
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        self.table.borrow_mut().give_back(self.number);
    }
}

impl Table {
    fn take(&mut self, ends: Ends, ask: impl Fn(&mut Self, Ends) -> Source) -> Result<u64, Full> {
        let taken = self.unknown.len() + self.known.len();
        if taken >= MAX_CLIENTS {
            return Err(Full::All);
        }
        let number = self.next;
        if taken < LOOK_FROM {
            self.unknown.insert(number, ends);
        } else {
            for (number, ends) in std::mem::take(&mut self.unknown) {
                let source = ask(self, ends);
                self.enter(number, source);
            }
            let source = ask(self, ends);
            if self
                .held
                .get(&source)
                .is_some_and(|n| *n >= MAX_CLIENTS_EACH)
            {
                return Err(Full::Own);
            }
            self.enter(number, source);
        }
        self.next += 1;
        Ok(number)
    }

    fn enter(&mut self, number: u64, source: Source) {
        self.known.insert(number, source);
        *self.held.entry(source).or_default() += 1;
    }

    fn give_back(&mut self, number: u64) {
        if self.unknown.remove(&number).is_some() {
            return;
        }
        if let Some(source) = self.known.remove(&number)
            && let Some(held) = self.held.get_mut(&source)
        {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    /// A client whose port tells its user.
    fn of(uid: u16) -> Ends {
        Ends {
            client: SocketAddr::from(([127, 0, 0, 1], uid)),
            remote: None,
            via: Via::Socks,
        }
    }

    fn by_port(_: &mut Table, ends: Ends) -> Source {
        Source::Program {
            uid: ends.client.port().into(),
            cgroup: None,
        }
    }

    fn nobody_asks(_: &mut Table, ends: Ends) -> Source {
        panic!("{ends:?} is asked about");
    }

    #[test]
    fn a_program_gets_three_quarters_of_a_session_and_all_together_twice_a_session() {
        let mut table = Table::default();
        for _ in 0..LOOK_FROM {
            table.take(of(1), nobody_asks).unwrap();
        }
        let mut numbers = Vec::new();
        for _ in LOOK_FROM..MAX_CLIENTS_EACH {
            numbers.push(table.take(of(1), by_port).unwrap());
        }
        assert_eq!(table.take(of(1), by_port), Err(Full::Own));
        table.take(of(2), by_port).unwrap();
        table.give_back(numbers[0]);
        table.take(of(1), by_port).unwrap();
        assert_eq!(table.take(of(1), by_port), Err(Full::Own));
        for n in MAX_CLIENTS_EACH + 1..MAX_CLIENTS {
            table.take(of((n / 8_000) as u16 + 2), by_port).unwrap();
        }
        assert_eq!(table.take(of(9), by_port), Err(Full::All));
        for number in 0..table.next {
            table.give_back(number);
        }
        assert!(table.known.is_empty() && table.unknown.is_empty() && table.held.is_empty());
    }

    #[test]
    fn each_connection_is_asked_about_once() {
        let mut table = Table::default();
        let numbers: Vec<_> = (0..=LOOK_FROM)
            .map(|_| table.take(of(1), by_port).unwrap())
            .collect();
        assert_eq!(table.known.len(), LOOK_FROM + 1);
        numbers
            .into_iter()
            .take(10)
            .for_each(|n| table.give_back(n));
        // Fewer than half: nothing is asked.
        table.take(of(1), nobody_asks).unwrap();
        assert_eq!((table.known.len(), table.unknown.len()), (LOOK_FROM - 9, 1));
    }
}
