//! Ledger of links that several users share: whose bytes go first (ADR 0069).
//!
//! The owner of a link goes before those to whom it is lent. Devices that lend to each other have
//! the links of both, and are better off in turns: the ledger notes, for each user, when an even
//! part of their links would have carried everything that was to be sent, the *due time*, and the
//! earlier one goes first. As long as links carry what they do alone, nothing comes later than in
//! even parts, as sessions have them that do not know of each other.

use std::collections::BTreeMap;
use std::time::Duration;

use mpbond_session::{OthersFirst, Session, SubflowId};
use mpbond_units::{BitRate, Timestamp};

/// Most by which a due time is ahead: a few chunks of a video. A user who had more than an even
/// part, or has much to be sent, is behind others for no longer; then they share the links.
const MOST_AHEAD: Duration = Duration::from_secs(3);

/// Most users of a link who own it, and most of those who borrow it: more than a household lends
/// to at once. Further ones are independent there until their links change.
const MOST_USERS: usize = 8;

/// Most users whom one has to do with on all links. Whatever hostile users make of their links, an
/// exchange takes microseconds, for which all others wait.
const MOST_OTHERS: usize = 16;

/// Part of a link that those to whom its owner lends it have together while the owner keeps it
/// busy, in percent. The owner has 96 % of what it has alone.
const LENT_PERCENT: u64 = 3;

/// A link that leaves a sender, by the subflow over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkOf<L> {
    /// The subflow.
    pub subflow: SubflowId,
    /// The link.
    pub link: L,
    /// Whether it is the user's own.
    pub is_own: bool,
}

/// Demand of a user at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Demand {
    /// Bytes that have been sent once or are to be.
    bytes: u64,
    /// Bytes that no link has been given yet, and those to be sent again.
    waiting_bytes: u64,
}

/// A subflow's use of its link.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    /// Octets that wait for the link or are on their way over it.
    octets: u64,
    /// Stream bytes that the subflow was given so far.
    given_bytes: u64,
    /// Bytes wait that the subflow may carry.
    waits: bool,
    /// Rate of the link, as the user estimates it.
    rate: BitRate,
}

/// A subflow in the ledger.
#[derive(Debug, Clone, Copy)]
struct Part<L> {
    of: LinkOf<L>,
    uses: Use,
    /// What those who went first at the last exchange had on the link.
    first: OthersFirst,
    /// Stream bytes that the subflow had been given at the last exchange.
    given_bytes: Option<u64>,
    /// Time of the last demand of bytes before the subflow was last given some.
    used: Option<Timestamp>,
}

/// Another user who has a link of this one.
#[derive(Debug, Clone, Copy)]
struct Other<U> {
    user: U,
    /// Both lend to each other, or neither does.
    are_even: bool,
}

/// A user on a link.
#[derive(Debug, Clone, Copy)]
struct Seat<U> {
    user: U,
    is_owner: bool,
}

/// Time for which a borrower keeps the queue of a link short after bytes of its owner: somebody who
/// types, talks or reads goes on within it, as with short exchanges of one's own (ADR 0027).
const SHORT_FOR: Duration = Duration::from_secs(10);

/// Order of users `U` on links `L` that they share, by what each has there.
#[derive(Debug)]
pub struct LinkLedger<U, L> {
    users: BTreeMap<U, User<U, L>>,
    links: BTreeMap<L, Vec<Seat<U>>>,
}

#[derive(Debug)]
struct User<U, L> {
    /// There has been no exchange since others came: what was sent before counts for nothing.
    is_new: bool,
    bytes: u64,
    /// Rate of the own links.
    own_rate: BitRate,
    due: Timestamp,
    /// Time of the last demand of bytes.
    demanded: Option<Timestamp>,
    links: Vec<LinkOf<L>>,
    /// Those of them on which the user has a seat.
    parts: Vec<Part<L>>,
    others: Vec<Other<U>>,
}

impl<U, L> Default for User<U, L> {
    fn default() -> Self {
        Self {
            is_new: true,
            bytes: 0,
            own_rate: BitRate::ZERO,
            due: Timestamp::ZERO,
            demanded: None,
            links: Vec::new(),
            parts: Vec::new(),
            others: Vec::new(),
        }
    }
}

impl<U, L: Copy + PartialEq> User<U, L> {
    fn on(&self, link: L) -> impl Iterator<Item = &Part<L>> {
        self.parts.iter().filter(move |part| part.of.link == link)
    }

    fn owns(&self, link: L) -> bool {
        self.on(link).any(|part| part.of.is_own)
    }

    /// Whether both are sessions of one device: they own the same link. One that has come back over
    /// another link is not known again.
    fn is_of_one_device(&self, other: &Self) -> bool {
        let mut own = self.parts.iter().filter(|part| part.of.is_own);
        own.any(|part| other.owns(part.of.link))
    }

    fn meets(&self, other: &Self) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| other.on(part.of.link).next().is_some())
    }

    /// Whether both lend to each other, or neither does.
    fn is_even_with(&self, other: &Self) -> bool {
        self.borrows_from(other) == other.borrows_from(self)
    }

    /// Whether another one lends it a link.
    fn borrows_from(&self, other: &Self) -> bool {
        self.parts.iter().any(|part| other.owns(part.of.link))
    }

    /// Whether bytes wait that the link may carry.
    fn waits_for(&self, link: L) -> bool {
        self.on(link).any(|part| part.uses.waits)
    }

    /// Whether bytes wait that the link carries, or would if they did not give way.
    fn competes_for(&self, link: L) -> bool {
        let is_here = |part: &Part<L>| part.uses.octets > 0 || part.first.octets > 0;
        self.waits_for(link) && self.on(link).any(is_here)
    }

    /// Whether the link was given bytes, which were demanded within [`SHORT_FOR`].
    fn has_used(&self, now: Timestamp, link: L) -> bool {
        let lately = |at| now.since(at) < SHORT_FOR;
        self.on(link).any(|part| part.used.is_some_and(lately))
    }

    fn octets_on(&self, link: L) -> u64 {
        self.on(link).map(|part| part.uses.octets).sum()
    }
}

impl<U, L> Default for LinkLedger<U, L> {
    fn default() -> Self {
        Self {
            users: BTreeMap::new(),
            links: BTreeMap::new(),
        }
    }
}

impl<U: Copy + Ord, L: Copy + Ord> LinkLedger<U, L> {
    /// Sets the links of a user. Returns the users for whom [`Self::has_others`] may be another
    /// one than before.
    pub fn set_links(&mut self, user: U, links: &[LinkOf<L>]) -> Vec<U> {
        let known = self.users.entry(user).or_default();
        if known.links == links {
            return Vec::new();
        }
        known.links = links.to_vec();
        let mut met = self.stand_up(user);
        let mut parts = Vec::new();
        for of in links {
            let seats = self.links.entry(of.link).or_default();
            let has_seat = seats.iter().any(|seat| seat.user == user);
            let of_kind = |seat: &&Seat<U>| seat.is_owner == of.is_own;
            if !has_seat && seats.iter().filter(of_kind).count() >= MOST_USERS {
                continue;
            }
            if !has_seat {
                met.extend(seats.iter().map(|seat| seat.user));
                let is_owner = of.is_own;
                seats.push(Seat { user, is_owner });
            }
            parts.push(Part {
                of: *of,
                uses: Use::default(),
                first: OthersFirst::default(),
                given_bytes: None,
                used: None,
            });
        }
        if let Some(known) = self.users.get_mut(&user) {
            known.parts = parts;
        }
        self.relate(user, met)
    }

    /// A user is gone. Returns the users for whom [`Self::has_others`] may be another one than
    /// before.
    pub fn leave(&mut self, user: U) -> Vec<U> {
        let met = self.stand_up(user);
        self.users.remove(&user);
        self.relate(user, met)
    }

    /// Whether others have links of a user. One who has none need not exchange.
    pub fn has_others(&self, user: U) -> bool {
        let known = self.users.get(&user);
        known.is_some_and(|known| !known.others.is_empty())
    }

    /// Notes what a session demands and has on its links, and sets in it what those who go first
    /// have there. Drivers call it before they fetch records.
    pub fn exchange(&mut self, now: Timestamp, user: U, session: &mut Session) {
        self.set_uses(user, session.own_rate(now), |subflow| Use {
            octets: session.octets_on_link(now, subflow),
            given_bytes: session.given_bytes(subflow),
            waits: session.waits_for(subflow),
            rate: session.link_rate(now, subflow),
        });
        let demand = Demand {
            bytes: session.demanded_bytes(),
            waiting_bytes: session.unparked_bytes(),
        };
        self.set_demand(now, user, demand);
        let Some(known) = self.users.get(&user) else {
            return;
        };
        for of in &known.links {
            let mut parts = known.parts.iter();
            let part = parts.find(|part| part.of.subflow == of.subflow);
            let first = part.map_or_else(OthersFirst::default, |part| part.first);
            session.set_others_first(of.subflow, first);
        }
    }

    fn set_uses(&mut self, user: U, own_rate: BitRate, uses: impl Fn(SubflowId) -> Use) {
        if let Some(known) = self.users.get_mut(&user) {
            known.own_rate = own_rate;
            for part in &mut known.parts {
                part.uses = uses(part.of.subflow);
                // Small answers are acknowledged before the next exchange: octets on their way
                // would not tell of them.
                let given_bytes = part.uses.given_bytes;
                let before = part.given_bytes.replace(given_bytes);
                if before.is_some_and(|before| given_bytes > before) {
                    part.used = known.demanded;
                }
            }
        }
    }

    fn set_demand(&mut self, now: Timestamp, user: U, demand: Demand) {
        let Some(own) = self.users.get(&user) else {
            return;
        };
        let (others_wait, rate) = (self.others_wait(own), self.even_part(own));
        let Some(known) = self.users.get_mut(&user) else {
            return;
        };
        // Less than before, where a stream was reset.
        let more = demand.bytes.saturating_sub(known.bytes);
        known.bytes = demand.bytes;
        let is_new = std::mem::replace(&mut known.is_new, known.others.is_empty());
        if more > 0 && !is_new {
            known.demanded = Some(now);
        }
        // Where nobody has a link, nobody gives way.
        let takes = |bytes| match rate {
            BitRate::ZERO => Duration::ZERO,
            rate => rate.time_for(bytes),
        };
        let due = match more {
            // What was carried early while nobody else waited took nothing from anybody.
            _ if is_new || !others_wait => now + takes(demand.waiting_bytes),
            0 => known.due,
            _ => known.due.max(now) + takes(more),
        };
        known.due = due.min(now + MOST_AHEAD);
        let links: Vec<L> = known.parts.iter().map(|part| part.of.link).collect();
        for (i, link) in links.into_iter().enumerate() {
            let first = self.others_first(now, user, link);
            let known = self.users.get_mut(&user);
            if let Some(part) = known.and_then(|known| known.parts.get_mut(i)) {
                part.first = first;
            }
        }
    }

    /// Whether another one competes for a link of a user.
    fn others_wait(&self, own: &User<U, L>) -> bool {
        let others = own.others.iter();
        let mut others = others.filter_map(|other| self.users.get(&other.user));
        others.any(|other| {
            let mut parts = own.parts.iter();
            parts.any(|part| other.competes_for(part.of.link))
        })
    }

    /// Even part of the own links of a user and of all who are even with the user. A device counts
    /// once, by the session with the higher rate: one that has gone without a close is there for a
    /// while beside the one that follows it.
    fn even_part(&self, own: &User<U, L>) -> BitRate {
        let others = own.others.iter().filter(|other| other.are_even);
        let others = others.filter_map(|other| self.users.get(&other.user));
        let mut devices = vec![own];
        for other in others {
            let mut known = devices.iter_mut();
            match known.find(|device| device.is_of_one_device(other)) {
                Some(device) if device.own_rate < other.own_rate => *device = other,
                Some(_) => {}
                None => devices.push(other),
            }
        }
        let bps = devices.iter().map(|device| device.own_rate.bps());
        let bps = bps.fold(0, u64::saturating_add);
        BitRate::from_bps(bps / devices.len() as u64)
    }

    /// What the users who go before this one on a link have there.
    fn others_first(&self, now: Timestamp, user: U, link: L) -> OthersFirst {
        let mut first = OthersFirst::default();
        let Some(own) = self.users.get(&user) else {
            return first;
        };
        // Rate of the link, where it is the owner's, whose bytes have it all.
        let mut owners = None;
        for other in &own.others {
            let Some(its) = self.users.get(&other.user) else {
                continue;
            };
            let is_owner = !other.are_even && its.owns(link);
            // Beside a transfer of the owner, the queue is the owner's, and borrowers give way.
            first.is_in_use |= is_owner && its.has_used(now, link) && !its.waits_for(link);
            let goes_first = match own.owns(link) {
                true if !other.are_even => false,
                _ if is_owner => true,
                // One who is late gives way no longer, whatever others have. One who is late by
                // more than a due time can be ahead is held up elsewhere, and goes before nobody.
                _ => {
                    let is_held_up = its.due + MOST_AHEAD <= now;
                    now < own.due && !is_held_up && (its.due, other.user) < (own.due, user)
                }
            };
            if goes_first && its.waits_for(link) {
                first.octets = first.octets.saturating_add(its.octets_on(link));
                if is_owner {
                    owners = owners.max(its.on(link).map(|part| part.uses.rate).max());
                }
            }
        }
        if let Some(rate) = owners {
            let sharers = self.borrowers_of(link) * own.on(link).count() as u64;
            first.least = BitRate::from_bps(rate.bps() / 100 * LENT_PERCENT / sharers.max(1));
        }
        first
    }

    /// Number of the users with bytes for a link that they do not own.
    fn borrowers_of(&self, link: L) -> u64 {
        let seats = self.links.get(&link).into_iter().flatten();
        let users = seats.filter(|seat| !seat.is_owner);
        let users = users.filter_map(|seat| self.users.get(&seat.user));
        users.filter(|user| user.waits_for(link)).count() as u64
    }

    /// Takes a user from all links. Returns those whom the user met there, who are no longer known
    /// to it.
    fn stand_up(&mut self, user: U) -> Vec<U> {
        let Some(known) = self.users.get_mut(&user) else {
            return Vec::new();
        };
        for part in known.parts.drain(..) {
            if let Some(seats) = self.links.get_mut(&part.of.link) {
                seats.retain(|seat| seat.user != user);
                if seats.is_empty() {
                    self.links.remove(&part.of.link);
                }
            }
        }
        let met = std::mem::take(&mut known.others);
        met.iter().map(|other| other.user).collect()
    }

    /// Notes how a user and those whom the user meets, or met before, stand to each other, first
    /// those of whom one goes before the other as the owner. Returns all of them.
    fn relate(&mut self, user: U, mut met: Vec<U>) -> Vec<U> {
        met.sort_unstable();
        met.dedup();
        met.sort_by_key(|other| {
            let both = self.users.get(&user).zip(self.users.get(other));
            both.is_none_or(|(own, its)| own.is_even_with(its))
        });
        for other in &met {
            let both = self.users.get(&user).zip(self.users.get(other));
            let are_even = both.and_then(|(own, its)| {
                let are_even = own.is_even_with(its);
                let other_than = |user: U| move |other: &&Other<U>| other.user != user;
                let has_room = |one: &User<U, L>, of: U| {
                    one.others.iter().filter(other_than(of)).count() < MOST_OTHERS
                };
                let relate = own.meets(its) && has_room(own, *other) && has_room(its, user);
                relate.then_some(are_even)
            });
            for (one, user) in [(user, *other), (*other, user)] {
                if let Some(one) = self.users.get_mut(&one) {
                    one.others.retain(|other| other.user != user);
                    let other = are_even.map(|are_even| Other { user, are_even });
                    one.others.extend(other);
                }
            }
        }
        met.push(user);
        for user in &met {
            if let Some(known) = self.users.get_mut(user) {
                known.is_new |= known.others.is_empty();
            }
        }
        met
    }
}

#[cfg(test)]
mod tests;
