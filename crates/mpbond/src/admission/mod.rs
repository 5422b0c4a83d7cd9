//! Admission of connections whose peers are not authenticated yet: how many may wait, which one
//! makes room for a newcomer, and the time that silent ones have.
//!
//! [`Admission`] decides, without a clock or a socket; [`Door`] applies it to the connections of a
//! listener.

mod door;

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use mpbond_units::Timestamp;

pub(crate) use door::{Door, Visitor};

use crate::quota::source;

/// Time for the first octet under pressure. A client sends it with the last packet of TCP's
/// handshake; one retransmission of it fits.
const FIRST_OCTET_WITHIN: Duration = Duration::from_secs(1);

/// Time for which a source counts as known after an authentication: a device that has lost its
/// paths returns sooner.
const KNOWN_FOR: Duration = Duration::from_secs(3600);

/// Maximum number of known sources.
const MAX_KNOWN: usize = 1024;

/// Numbers of unauthenticated connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// In all.
    pub(crate) all: usize,
    /// Part of these that only known sources use.
    pub(crate) reserved: usize,
    /// From one source: an IPv4 address or an IPv6 /64.
    pub(crate) each: usize,
    /// From one IPv6 /48, the network that many providers give to one customer.
    pub(crate) crowd: usize,
}

/// A decision about unauthenticated connections, and the facts that it needs.
#[derive(Debug)]
pub(crate) struct Admission {
    limits: Limits,
    next: u64,
    /// By number, so the oldest first.
    waiting: BTreeMap<u64, Waiting>,
    /// Sources of authenticated peers, with the time of the last authentication.
    known: HashMap<IpAddr, Timestamp>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    source: IpAddr,
    since: Timestamp,
    is_known: bool,
    has_spoken: bool,
}

/// An admitted connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admitted {
    pub(crate) number: u64,
    /// The connection that has to be dropped for it.
    pub(crate) instead_of: Option<u64>,
}

/// Reason why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("too many unauthenticated connections from one source")]
    Source,
    #[error("too many unauthenticated connections from one /48")]
    Crowd,
    #[error("too many unauthenticated connections")]
    All,
}

impl Admission {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            next: 0,
            waiting: BTreeMap::new(),
            known: HashMap::new(),
        }
    }

    /// Admits or refuses a new connection.
    pub(crate) fn arrive(&mut self, from: SocketAddr, now: Timestamp) -> Result<Admitted, Refused> {
        let source = source(from);
        let crowd = crowd(source);
        let (mut own, mut of_crowd, mut unknown) = (0, 0, 0);
        for w in self.waiting.values() {
            own += usize::from(w.source == source);
            of_crowd += usize::from(crowd.is_some() && self::crowd(w.source) == crowd);
            unknown += usize::from(!w.is_known);
        }
        if own >= self.limits.each {
            return Err(Refused::Source);
        }
        if of_crowd >= self.limits.crowd {
            return Err(Refused::Crowd);
        }
        let is_known = self.is_known(source, now);
        let full = self.waiting.len() >= self.limits.all
            || !is_known && unknown >= self.limits.all.saturating_sub(self.limits.reserved);
        let instead_of = match full {
            true => Some(self.dispensable(is_known).ok_or(Refused::All)?),
            false => None,
        };
        if let Some(number) = instead_of {
            self.waiting.remove(&number);
        }
        let number = self.next;
        self.next += 1;
        let has_spoken = false;
        let waiting = Waiting {
            source,
            since: now,
            is_known,
            has_spoken,
        };
        self.waiting.insert(number, waiting);
        Ok(Admitted { number, instead_of })
    }

    /// The first octet of a connection has arrived.
    pub(crate) fn spoke(&mut self, number: u64) {
        if let Some(waiting) = self.waiting.get_mut(&number) {
            waiting.has_spoken = true;
        }
    }

    /// The peer of a connection is authenticated: it no longer counts, and its source is known.
    pub(crate) fn authenticated(&mut self, number: u64, now: Timestamp) {
        let Some(Waiting { source, .. }) = self.waiting.remove(&number) else {
            return;
        };
        if self.known.len() >= MAX_KNOWN && !self.known.contains_key(&source) {
            let oldest = self.known.iter().min_by_key(|(_, at)| **at);
            if let Some(oldest) = oldest.map(|(source, _)| *source) {
                self.known.remove(&oldest);
            }
        }
        self.known.insert(source, now);
    }

    /// A connection has ended.
    pub(crate) fn left(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// The connection to drop when descriptors are used up.
    pub(crate) fn make_room(&mut self) -> Option<u64> {
        let silent = |(_, w): &(&u64, &Waiting)| !w.has_spoken;
        let oldest = self.waiting.iter().filter(silent);
        let number = oldest.min_by_key(|(_, w)| w.is_known).map(|(n, _)| *n)?;
        self.waiting.remove(&number);
        Some(number)
    }

    /// Removes the connections that have been silent for too long under pressure.
    pub(crate) fn overdue(&mut self, now: Timestamp) -> Vec<u64> {
        let mut overdue = Vec::new();
        while self.next_overdue().is_some_and(|at| at <= now)
            && let Some(number) = self.oldest_silent()
        {
            self.waiting.remove(&number);
            overdue.push(number);
        }
        overdue
    }

    /// The time of the next call of [`Admission::overdue`], if nothing changes until then.
    pub(crate) fn next_overdue(&self) -> Option<Timestamp> {
        // Three quarters of the room for unknown sources.
        let room = self.limits.all.saturating_sub(self.limits.reserved);
        let is_pressure = self.waiting.len() * 4 >= room * 3;
        let oldest = self.oldest_silent().filter(|_| is_pressure)?;
        Some(self.waiting.get(&oldest)?.since + FIRST_OCTET_WITHIN)
    }

    fn oldest_silent(&self) -> Option<u64> {
        let mut waiting = self.waiting.iter();
        waiting.find(|(_, w)| !w.has_spoken).map(|(n, _)| *n)
    }

    /// The connection that makes room for another: of unknown sources before known ones, silent
    /// before others, the oldest. Those of known sources give way to known ones only.
    fn dispensable(&self, for_known: bool) -> Option<u64> {
        let waiting = self.waiting.iter();
        waiting
            .filter(|(_, w)| for_known || !w.is_known)
            .min_by_key(|(_, w)| (w.is_known, w.has_spoken))
            .map(|(n, _)| *n)
    }

    fn is_known(&self, source: IpAddr, now: Timestamp) -> bool {
        let last = self.known.get(&source);
        last.is_some_and(|at| now.since(*at) < KNOWN_FOR)
    }
}

/// The /48 network of an IPv6 source. An IPv4 address is no part of a larger crowd.
fn crowd(source: IpAddr) -> Option<Ipv6Addr> {
    match source {
        IpAddr::V4(_) => None,
        IpAddr::V6(a) => Some(Ipv6Addr::from_bits(a.to_bits() >> 80 << 80)),
    }
}

#[cfg(test)]
mod tests;
