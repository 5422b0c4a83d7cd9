//! Whose bytes go first on links that several users share.

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
            given_bytes: self.bytes[i].saturating_sub(waiting_bytes),
            waits: waiting_bytes > 0 && self.may_go[i],
            rate: self.rates[i],
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
        [0, 1].map(|user| self.ledger.others_first(self.now, user, link).octets)
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

#[test]
fn beside_the_owner_borrowers_have_3_percent_of_the_link_together() {
    let mut two = Two::new();
    set(&mut two.ledger, 0, &[(0, true)]);
    let least = |two: &Two, user| two.ledger.others_first(two.now, user, 0).least;
    two.note(0, 1, MB, MB);
    assert_eq!(least(&two, 1), BitRate::ZERO, "nobody goes first");
    two.note(10, 0, MB, MB);
    assert_eq!(least(&two, 1), BitRate::from_bytes_per_sec(30e3));
    assert_eq!(least(&two, 0), BitRate::ZERO);
    // One more who borrows, over two subflows, once bytes wait for it.
    set(&mut two.ledger, 2, &[(0, false), (0, false)]);
    assert_eq!(least(&two, 1), BitRate::from_bytes_per_sec(30e3));
    let uses = Use {
        waits: true,
        ..Use::default()
    };
    two.ledger.set_uses(2, BitRate::ZERO, |_| uses);
    let rates = [1, 2].map(|user| least(&two, user));
    assert_eq!(rates, [15e3, 7_500.0].map(BitRate::from_bytes_per_sec));
    // Even users go in turn.
    let mut two = Two::new();
    two.note(0, 1, MB, MB);
    two.note(10, 0, 2 * MB, 2 * MB);
    assert_eq!(two.first(), [400, 0]);
    assert_eq!(least(&two, 0), BitRate::ZERO);
}

#[test]
fn two_sessions_of_one_device_count_once() {
    let mut two = Two::new();
    two.rates[1] = BitRate::from_bytes_per_sec(3e6);
    two.note(0, 1, 0, 0);
    let due = |two: &mut Two, at| {
        two.note(at, 0, 2 * MB, 2 * MB);
        two.due(0)
    };
    assert_eq!(due(&mut two, 10_000), ms(11_000));
    // The second device was gone without a close, and is back over another pipe.
    set(&mut two.ledger, 2, &[(1, true), (0, false), (7, false)]);
    for (rate, took) in [(0.0, 1_000), (3e6, 1_000), (7e6, 500)] {
        let rate = BitRate::from_bytes_per_sec(rate);
        two.ledger.set_uses(2, rate, |_| Use::default());
        let at = 20_000 + took * 10;
        assert_eq!(due(&mut two, at), ms(at + took), "{rate:?}");
    }
}

#[test]
fn a_user_has_to_do_with_16_others_at_most() {
    let mut ledger = LinkLedger::default();
    // Each of four links is lent to seven, and all of them to one.
    let mut user = 0;
    for link in 0..4 {
        for is_own in [true, false, false, false, false, false, false] {
            set(&mut ledger, user, &[(link, is_own)]);
            user += 1;
        }
    }
    let all: Vec<_> = (0..4).map(|link| (link, false)).collect();
    assert_eq!(set(&mut ledger, user, &all).len(), 29);
    assert_eq!(ledger.users[&user].others.len(), 16);
    let knows = |one: u8, other: u8| {
        let mut others = ledger.users[&one].others.iter();
        others.any(|known| known.user == other)
    };
    for other in 0..user {
        assert_eq!(knows(user, other), knows(other, user));
    }
}

#[test]
fn those_whom_a_user_no_longer_meets_take_the_place_of_nobody() {
    let mut ledger = LinkLedger::default();
    let others = |ledger: &LinkLedger<u8, u8>, user: u8| {
        let others = ledger.users[&user].others.iter();
        let mut others: Vec<_> = others.map(|other| other.user).collect();
        others.sort_unstable();
        others
    };
    // The link to which the user moves is that of the older ones.
    for user in 0..7 {
        set(&mut ledger, user, &[(1, user == 6)]);
    }
    for user in 7..22 {
        set(&mut ledger, user, &[(0, user < 15)]);
    }
    set(&mut ledger, 22, &[(0, false)]);
    assert_eq!(others(&ledger, 22), Vec::from_iter(7..22));
    set(&mut ledger, 22, &[(1, false)]);
    assert_eq!(others(&ledger, 22), Vec::from_iter(0..7));
    assert!((0..7).all(|user| others(&ledger, user).contains(&22)));
    assert!(!(7..22).any(|user| others(&ledger, user).contains(&22)));
}

#[test]
fn owners_of_links_come_before_others_who_borrow_them() {
    let mut ledger = LinkLedger::default();
    // Three links, each lent by the last one to come.
    for user in 0..21 {
        set(&mut ledger, user, &[(user / 7, user % 7 == 6)]);
    }
    let all: Vec<_> = (0..3).map(|link| (link, false)).collect();
    set(&mut ledger, 21, &all);
    let others = &ledger.users[&21].others;
    assert_eq!(others.len(), 16);
    let owners = others.iter().filter(|other| !other.are_even);
    let owners: Vec<_> = owners.map(|other| other.user).collect();
    assert_eq!(owners, [6, 13, 20]);
}

#[test]
fn a_link_is_in_use_for_10_s_after_bytes_of_its_owner_while_none_wait_for_it() {
    let mut two = Two::new();
    set(&mut two.ledger, 0, &[(0, true)]);
    let is_in_use = |two: &Two| two.ledger.others_first(two.now, 1, 0).is_in_use;
    // What was sent before they met.
    two.note(0, 0, MB, 0);
    assert!(!is_in_use(&two));
    two.note(1_000, 0, 300, 300);
    assert!(!is_in_use(&two), "bytes wait");
    two.note(1_010, 0, 0, 0);
    assert!(is_in_use(&two));
    for (at, expected) in [(10_999, true), (11_000, false)] {
        // Nothing new.
        two.note(at, 0, 0, 0);
        assert_eq!(is_in_use(&two), expected, "{at}");
    }
    two.note(20_000, 0, 300, 300);
    two.note(20_010, 0, 0, 0);
    assert!(is_in_use(&two));
    let own = two.ledger.others_first(two.now, 0, 0);
    assert!(!own.is_in_use, "a borrower's bytes are none of the owner's");
    // Users who lend to each other.
    let mut two = Two::new();
    two.note(0, 0, 0, 0);
    two.note(10, 0, 300, 300);
    two.note(20, 0, 0, 0);
    assert!(!is_in_use(&two));
}

#[test]
fn bytes_that_the_owner_had_before_others_came_are_no_use_of_the_link() {
    let mut two = Two::new();
    two.note(0, 0, MB, 0);
    two.ledger.leave(1);
    // Without an exchange.
    two.bytes[0] += 100 * MB;
    set(&mut two.ledger, 0, &[(0, true)]);
    set(&mut two.ledger, 1, &[(1, true), (0, false)]);
    let is_in_use = |two: &Two| two.ledger.others_first(two.now, 1, 0).is_in_use;
    for at in [50_000, 50_010] {
        two.note(at, 0, 0, 0);
        assert!(!is_in_use(&two), "{at}");
    }
    two.note(50_020, 0, 1, 1);
    two.note(50_030, 0, 0, 0);
    assert!(is_in_use(&two));
}

#[test]
fn only_the_links_that_carry_the_owners_bytes_are_in_use() {
    let mut ledger = LinkLedger::default();
    set(&mut ledger, 0, &[(0, true), (7, true)]);
    set(&mut ledger, 1, &[(0, false), (7, false)]);
    let mut note = |at, bytes, given: [u64; 2]| {
        let uses = |subflow: SubflowId| Use {
            given_bytes: given[usize::from(subflow == SubflowId(7))],
            ..Use::default()
        };
        ledger.set_uses(0, BitRate::ZERO, uses);
        let demand = Demand {
            bytes,
            waiting_bytes: 0,
        };
        ledger.set_demand(ms(at), 0, demand);
        [0, 7].map(|link| ledger.others_first(ms(at), 1, link).is_in_use)
    };
    // What the links were given before the user had seats there is not known.
    assert_eq!(note(0, 5_000, [4_000, 1_000]), [false; 2]);
    assert_eq!(note(5, 5_000, [4_000, 1_100]), [false; 2], "a copy");
    // Before they are sent, and then.
    assert_eq!(note(10, 5_300, [4_000, 1_100]), [false; 2]);
    assert_eq!(note(11, 5_300, [4_000, 1_400]), [false, true]);
    assert_eq!(note(9_000, 5_600, [4_000, 1_400]), [false, true]);
    assert_eq!(note(9_001, 5_600, [4_300, 1_400]), [true, true]);
    assert_eq!(note(10_010, 5_600, [4_300, 1_400]), [true, false]);
}
