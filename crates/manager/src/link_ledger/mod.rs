//! Ledger of links that several users share: whose bytes go first (ADR 0069).
//!
//! The owner of a link goes before those to whom it is lent. Devices that lend to each other have
//! the links of both, and are better off in turns: the ledger notes, for each user, when an even
//! part of their links would have carried everything that was to be sent, the *due time*, and the
//! earlier one goes first. As long as links carry what they do alone, nothing comes later than in
//! even parts, as sessions have them that do not know of each other.

use std::collections::BTreeMap;
use std::time::Duration;

use mpbond_session::{Session, SubflowId};
use mpbond_units::{BitRate, Timestamp};

/// Most by which a due time is ahead: a few chunks of a video. A user who had more than an even
/// part, or has much to be sent, is behind others for no longer; then they share the links.
const MOST_AHEAD: Duration = Duration::from_secs(3);

/// Most users of a link who own it, and most of those who borrow it: more than a household lends
/// to at once. Further ones are independent there until their links change.
const MOST_USERS: usize = 8;

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
    /// Bytes wait that the subflow may carry.
    waits: bool,
}

/// A subflow in the ledger.
#[derive(Debug, Clone, Copy)]
struct Part<L> {
    of: LinkOf<L>,
    uses: Use,
    /// Octets on the link of those who went first at the last exchange.
    first_octets: u64,
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

    fn meets(&self, other: &Self) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| other.on(part.of.link).next().is_some())
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
        let is_here = |part: &Part<L>| part.uses.octets > 0 || part.first_octets > 0;
        self.waits_for(link) && self.on(link).any(is_here)
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
                first_octets: 0,
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
            waits: session.waits_for(subflow),
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
            session.set_others_first(of.subflow, part.map_or(0, |part| part.first_octets));
        }
    }

    fn set_uses(&mut self, user: U, own_rate: BitRate, uses: impl Fn(SubflowId) -> Use) {
        if let Some(known) = self.users.get_mut(&user) {
            known.own_rate = own_rate;
            for part in &mut known.parts {
                part.uses = uses(part.of.subflow);
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
            let first_octets = self.first_octets(now, user, link);
            let known = self.users.get_mut(&user);
            if let Some(part) = known.and_then(|known| known.parts.get_mut(i)) {
                part.first_octets = first_octets;
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

    /// Even part of the own links of a user and of all who are even with the user.
    fn even_part(&self, own: &User<U, L>) -> BitRate {
        let others = own.others.iter().filter(|other| other.are_even);
        let others = others.filter_map(|other| self.users.get(&other.user));
        let add = |(bps, users): (u64, u64), user: &User<U, L>| {
            (bps.saturating_add(user.own_rate.bps()), users + 1)
        };
        let (bps, users) = others.fold(add((0, 0), own), add);
        BitRate::from_bps(bps / users)
    }

    /// Octets on a link of the users who go before this one there.
    fn first_octets(&self, now: Timestamp, user: U, link: L) -> u64 {
        let Some(own) = self.users.get(&user) else {
            return 0;
        };
        let octets = |other: &Other<U>| {
            let its = self.users.get(&other.user)?;
            let goes_first = match (own.owns(link), its.owns(link)) {
                (true, _) if !other.are_even => false,
                (_, true) if !other.are_even => true,
                // One who is late gives way no longer, whatever others have. One who is late by
                // more than a due time can be ahead is held up elsewhere, and goes before nobody.
                _ => {
                    let is_held_up = its.due + MOST_AHEAD <= now;
                    now < own.due && !is_held_up && (its.due, other.user) < (own.due, user)
                }
            };
            (goes_first && its.waits_for(link)).then(|| its.octets_on(link))
        };
        own.others.iter().filter_map(octets).sum()
    }

    /// Takes a user from all links. Returns those who were there as well.
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
        known.others.iter().map(|other| other.user).collect()
    }

    /// Notes how a user and those whom the user meets, or met before, stand to each other. Returns
    /// all of them.
    fn relate(&mut self, user: U, mut met: Vec<U>) -> Vec<U> {
        met.sort_unstable();
        met.dedup();
        for other in &met {
            let both = self.users.get(&user).zip(self.users.get(other));
            let are_even = both.and_then(|(own, its)| {
                let are_even = own.borrows_from(its) == its.borrows_from(own);
                own.meets(its).then_some(are_even)
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
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    fn ms(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    /// Link, by the same number its subflow, and whether it is the user's own.
    type On = (u8, bool);

    fn set(ledger: &mut LinkLedger<u8, u8>, user: u8, on: &[On]) -> Vec<u8> {
        let links = on.iter().map(|(link, is_own)| LinkOf {
            subflow: SubflowId((*link).into()),
            link: *link,
            is_own: *is_own,
        });
        ledger.set_links(user, &links.collect::<Vec<_>>())
    }

    /// Two users with a link of 1 MB/s each, who lend to each other.
    struct Two {
        ledger: LinkLedger<u8, u8>,
        bytes: [u64; 2],
        /// Octets of each user on the links.
        octets: [u64; 2],
        /// Rates of the own links.
        rates: [BitRate; 2],
        /// Whether bytes of each user may go over the links.
        may_go: [bool; 2],
        now: Timestamp,
    }

    impl Two {
        fn new() -> Self {
            let mut ledger = LinkLedger::default();
            set(&mut ledger, 0, &[(0, true), (1, false)]);
            set(&mut ledger, 1, &[(1, true), (0, false)]);
            let rate = BitRate::from_bytes_per_sec(1e6);
            for user in [0, 1] {
                ledger.set_uses(user, rate, |_| Use::default());
            }
            Self {
                ledger,
                bytes: [0; 2],
                octets: [10, 400],
                rates: [rate; 2],
                may_go: [true; 2],
                now: Timestamp::ZERO,
            }
        }

        /// More bytes of a user are to be sent, and so many wait then.
        fn note(&mut self, at: u64, user: u8, more: u64, waiting_bytes: u64) {
            let i = usize::from(user);
            self.bytes[i] += more;
            self.now = ms(at);
            let uses = Use {
                octets: self.octets[i],
                waits: waiting_bytes > 0 && self.may_go[i],
            };
            self.ledger.set_uses(user, self.rates[i], |_| uses);
            let demand = Demand {
                bytes: self.bytes[i],
                waiting_bytes,
            };
            self.ledger.set_demand(self.now, user, demand);
        }

        /// Octets that go before those of each user on a link.
        fn first_on(&self, link: u8) -> [u64; 2] {
            [0, 1].map(|user| self.ledger.first_octets(self.now, user, link))
        }

        fn first(&self) -> [u64; 2] {
            self.first_on(0)
        }

        fn due(&self, user: u8) -> Timestamp {
            self.ledger.users[&user].due
        }
    }

    #[test]
    fn the_user_whose_bytes_an_even_part_would_have_carried_earlier_goes_first() {
        let mut two = Two::new();
        two.note(0, 0, 2 * MB, 2 * MB);
        // Due at 2 s, and 1.9 s.
        two.note(900, 1, MB, MB);
        assert_eq!([two.first(), two.first_on(1)], [[400, 0]; 2]);
        // All of that one's bytes are sent.
        two.note(1_500, 1, 0, 0);
        assert_eq!(two.first(), [0, 0]);
        // Due at 2.9 s, since an even part would carry the first chunk until 1.9 s.
        two.note(1_500, 1, MB, MB);
        assert_eq!(two.first(), [0, 10]);
    }

    #[test]
    fn what_was_carried_while_nobody_waited_counts_for_nothing() {
        let mut two = Two::new();
        two.note(0, 1, 100 * MB, 100 * MB);
        two.note(1_000, 1, 0, 0);
        two.note(1_000, 0, MB, MB);
        two.note(1_100, 1, MB / 2, MB / 2);
        // Due at 2 s, and 1.6 s.
        assert_eq!(two.first(), [400, 0]);
    }

    #[test]
    fn what_was_carried_while_nobody_else_was_there_counts_for_nothing() {
        let mut two = Two::new();
        two.note(0, 1, MB, MB);
        for at in [50_000, 100_000] {
            assert!(two.ledger.leave(0).contains(&1) && !two.ledger.has_others(1));
            // Without an exchange.
            two.bytes[1] += 100 * MB;
            let met = set(&mut two.ledger, 0, &[(0, true), (1, false)]);
            assert!(met.contains(&1) && two.ledger.has_others(1));
            two.note(at, 0, MB, MB);
            two.note(at + 100, 1, MB / 2, MB / 2);
            // Due 1 s and 0.6 s later.
            assert_eq!(two.first(), [400, 0]);
        }
    }

    #[test]
    fn many_chunks_keep_nobody_from_what_an_even_part_carries() {
        let mut two = Two::new();
        // Due at 2 s.
        two.note(0, 0, 2 * MB, 2 * MB);
        let mut goes_first = |at| {
            two.note(at, 1, MB / 4, MB / 4);
            let goes_first = two.first() == [400, 0];
            two.note(at + 10, 1, 0, 0);
            goes_first
        };
        let at = (0..100).map(|chunk| chunk * 20);
        assert_eq!(at.take_while(|at| goes_first(*at)).count(), 7);
    }

    #[test]
    fn bytes_that_a_reset_stream_has_taken_back_are_no_credit() {
        let mut two = Two::new();
        // Due at 2 s, and 1 s.
        two.note(0, 0, 2 * MB, 2 * MB);
        two.note(0, 1, MB, MB);
        two.bytes[1] = 0;
        two.note(10, 1, 0, 0);
        two.note(20, 1, MB, MB);
        assert_eq!((two.due(1), two.first()), (ms(2_000), [0, 10]));
    }

    #[test]
    fn no_due_time_is_more_than_3_s_ahead() {
        let mut two = Two::new();
        two.note(0, 0, 100 * MB, 100 * MB);
        for _ in 0..50 {
            two.note(0, 1, MB, MB);
        }
        assert_eq!([0, 1].map(|user| two.due(user)), [ms(3_000); 2]);
        two.note(500, 1, 0, 0);
        assert_eq!(two.due(1), ms(3_000));
        two.note(1_000, 1, 2 * MB, 2 * MB);
        assert_eq!(two.due(1), ms(4_000));
    }

    #[test]
    fn bytes_that_the_links_do_not_carry_compete_with_nobody() {
        for (may_go, octets, is_late) in [
            (true, 10, true),
            // Parked, or behind the peer's window.
            (false, 10, false),
            // Over other links.
            (true, 0, false),
        ] {
            let mut two = Two::new();
            two.may_go[0] = may_go;
            two.octets[0] = octets;
            // Due at 1 s: before the other one.
            two.note(0, 0, MB, MB);
            two.note(0, 1, 2 * MB, 2 * MB);
            two.note(2_000, 1, MB, MB);
            assert_eq!(two.first(), [0, if is_late { 10 } else { 0 }]);
            // The first chunk of these two is a debt only if the other one competes.
            two.note(2_000, 1, MB, MB);
            let due = if is_late { 4_000 } else { 3_000 };
            assert_eq!(two.due(1), ms(due), "{may_go} {octets}");
        }
        // One who gives way has nothing there, and competes all the same.
        let mut two = Two::new();
        two.octets[0] = 0;
        two.note(0, 1, MB, MB);
        two.note(1, 0, 2 * MB, 2 * MB);
        assert_eq!(two.first(), [400, 0]);
        two.note(2, 1, MB, MB);
        assert_eq!(two.due(1), ms(2_000));
    }

    #[test]
    fn the_owner_goes_first_where_the_other_one_lends_nothing_back() {
        let mut two = Two::new();
        // The first user has the own link only, which is lent to the second.
        set(&mut two.ledger, 0, &[(0, true)]);
        for left in [MB, 100 * MB] {
            two.note(0, 1, MB, MB);
            two.note(10, 0, left, left);
            assert_eq!(two.first(), [0, 10]);
            two.note(20, 0, 0, 0);
            assert_eq!(two.first(), [0, 0]);
            two.note(20, 1, 0, 0);
        }
        // On a link of neither, the due time counts.
        set(&mut two.ledger, 0, &[(7, false)]);
        set(&mut two.ledger, 1, &[(7, false), (1, true)]);
        two.note(30, 0, 2 * MB, 2 * MB);
        two.note(30, 1, MB, MB);
        assert_eq!(two.first_on(7), [400, 0]);
    }

    #[test]
    fn a_user_gives_way_until_the_own_due_time_at_most() {
        let mut two = Two::new();
        // Due at 1 s. Nothing of it is taken, and more is written.
        two.note(0, 0, MB, MB);
        // Due at 2.01 s.
        two.note(10, 1, 2 * MB, 2 * MB);
        assert_eq!(two.first(), [0, 10]);
        two.note(2_000, 0, 1, MB);
        two.note(2_000, 1, 0, 2 * MB);
        assert_eq!(two.first(), [0, 10]);
        two.note(2_010, 1, 0, 2 * MB);
        assert_eq!(two.first(), [0, 0]);
        // Late, it goes before what is due later.
        two.note(2_020, 0, MB, 2 * MB);
        assert_eq!(two.first(), [400, 0]);
    }

    #[test]
    fn the_one_with_the_faster_own_link_has_an_even_part() {
        let mut two = Two::new();
        two.rates[1] = BitRate::from_bytes_per_sec(3e6);
        two.note(0, 1, 0, 0);
        two.note(0, 0, 2 * MB, 2 * MB);
        two.note(100, 1, 2 * MB, 2 * MB);
        // By the own links alone: at 2 s and 0.77 s.
        assert_eq!([0, 1].map(|user| two.due(user)), [1_000, 1_100].map(ms));
        assert_eq!(two.first(), [0, 10]);
        // Nor does it matter that one has no rate.
        two.rates[0] = BitRate::ZERO;
        two.note(5_000, 0, 0, 0);
        two.note(5_000, 1, 3 * MB, 3 * MB);
        assert_eq!(two.due(1), ms(7_000));
        // They are not even, since the second user lends only.
        set(&mut two.ledger, 1, &[(1, true)]);
        two.note(10_000, 1, 3 * MB, 3 * MB);
        assert_eq!(two.due(1), ms(11_000));
        // Nobody has one.
        two.rates = [BitRate::ZERO; 2];
        two.note(20_000, 1, 1, 1);
        assert_eq!(two.due(1), ms(20_000));
    }

    #[test]
    fn one_who_is_held_up_elsewhere_goes_before_nobody() {
        let mut two = Two::new();
        two.note(0, 1, MB, MB);
        two.note(0, 0, 8 * MB, 8 * MB);
        assert_eq!(two.due(0), ms(3_000));
        // The pipe behind the link is slow: all was written, and waits for long.
        for (at, first) in [(5_900, 10), (6_100, 0)] {
            two.note(at, 0, 0, 5 * MB);
            two.note(at, 1, 3 * MB, 3 * MB);
            assert!(two.due(0) == ms(3_000) && two.due(1) > two.now);
            assert_eq!(two.first(), [0, first]);
        }
    }

    #[test]
    fn a_user_who_is_gone_leaves_nothing() {
        let mut two = Two::new();
        two.note(0, 0, MB, MB);
        two.note(0, 1, 2 * MB, 2 * MB);
        assert_eq!(two.first(), [0, 10]);
        // The link is another one.
        assert_eq!(set(&mut two.ledger, 0, &[(7, true)]), [1, 0]);
        assert_eq!(two.first(), [0, 0]);
        assert!(!two.ledger.has_others(0) && !two.ledger.has_others(1));
        set(&mut two.ledger, 0, &[(0, true), (1, false)]);
        two.note(0, 0, 0, MB);
        assert_eq!(two.first(), [0, 10]);
        assert_eq!(two.ledger.leave(0), [1, 0]);
        assert_eq!(two.first(), [0, 0]);
        two.ledger.leave(1);
        assert!(two.ledger.users.is_empty() && two.ledger.links.is_empty());
    }

    #[test]
    fn a_link_has_8_users_who_own_it_and_8_who_borrow_it() {
        let mut ledger = LinkLedger::default();
        for user in 0..10 {
            set(&mut ledger, user, &[(0, false), (user + 1, true)]);
        }
        for user in 10..20 {
            set(&mut ledger, user, &[(0, true)]);
        }
        let others = |user: u8| ledger.users[&user].others.len();
        assert_eq!(
            [0, 7, 8, 9, 10, 17, 18, 19].map(others),
            [15, 15, 0, 0, 15, 15, 0, 0]
        );
        assert_eq!(ledger.links[&0].len(), 16);
        // A seat that is free again.
        ledger.leave(3);
        assert_eq!(set(&mut ledger, 9, &[(0, false)]).len(), 16);
        assert!(ledger.has_others(9) && !ledger.has_others(8));
    }
}
