//! Tests of admission.

use super::*;

/// Five for unknown sources, three of these from one; one more for known ones.
const LIMITS: Limits = Limits {
    all: 6,
    reserved: 1,
    each: 3,
    crowd: 4,
};

fn ms(n: u64) -> Timestamp {
    Timestamp::from_millis(n)
}

fn at(ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), 1)
}

fn v4(n: usize) -> SocketAddr {
    at(&format!("192.0.2.{n}"))
}

fn full(now: Timestamp) -> Admission {
    let mut admission = Admission::new(LIMITS);
    for n in 0..5 {
        let number = n as u64;
        let instead_of = None;
        let admitted = Admitted { number, instead_of };
        assert_eq!(admission.arrive(v4(n), now), Ok(admitted));
    }
    admission
}

fn instead_of(admission: &mut Admission, from: SocketAddr, now: Timestamp) -> Option<u64> {
    admission.arrive(from, now).unwrap().instead_of
}

#[test]
fn the_oldest_silent_one_makes_room_for_a_newcomer() {
    let mut admission = full(ms(0));
    admission.spoke(0);
    admission.spoke(2);
    assert_eq!(instead_of(&mut admission, v4(100), ms(1)), Some(1));
    assert_eq!(instead_of(&mut admission, v4(101), ms(1)), Some(3));
    for number in [4, 5, 6] {
        admission.spoke(number);
    }
    // None is silent: the oldest.
    assert_eq!(instead_of(&mut admission, v4(102), ms(1)), Some(0));
    assert_eq!(instead_of(&mut admission, v4(103), ms(1)), Some(7));
    admission.left(2);
    assert_eq!(instead_of(&mut admission, v4(104), ms(1)), None);
}

#[test]
fn a_source_gets_its_share_and_takes_no_others_place() {
    let mut admission = Admission::new(LIMITS);
    for _ in 0..3 {
        admission.arrive(v4(1), ms(0)).unwrap();
    }
    assert_eq!(admission.arrive(v4(1), ms(0)), Err(Refused::Source));
    admission.left(0);
    assert_eq!(instead_of(&mut admission, v4(1), ms(0)), None);
}

#[test]
fn the_networks_of_a_48_are_one_crowd() {
    let mut admission = Admission::new(LIMITS);
    for n in 0..4 {
        let from = at(&format!("2001:db8:1:{n}::1"));
        admission.arrive(from, ms(0)).unwrap();
    }
    let fifth = admission.arrive(at("2001:db8:1:ffff::1"), ms(0));
    assert_eq!(fifth, Err(Refused::Crowd));
    assert_eq!(instead_of(&mut admission, at("2001:db8:2::1"), ms(0)), None);
    // A /64 is one source, however many addresses it has.
    let mut admission = Admission::new(LIMITS);
    for n in 0..3 {
        admission
            .arrive(at(&format!("2001:db8::{n}")), ms(0))
            .unwrap();
    }
    assert_eq!(
        admission.arrive(at("2001:db8::9"), ms(0)),
        Err(Refused::Source)
    );
}

#[test]
fn under_pressure_the_first_octet_must_come_within_1000_ms() {
    let mut admission = Admission::new(LIMITS);
    for n in 0..3 {
        admission.arrive(v4(n), ms(10 * n as u64)).unwrap();
    }
    assert_eq!(admission.next_overdue(), None, "no pressure");
    assert!(admission.overdue(ms(60_000)).is_empty());
    // Four of five: at least three quarters.
    admission.arrive(v4(3), ms(500)).unwrap();
    admission.spoke(0);
    assert_eq!(admission.next_overdue(), Some(ms(1_010)));
    assert!(admission.overdue(ms(1_009)).is_empty());
    assert_eq!(admission.overdue(ms(1_010)), [1]);
    // The pressure is gone.
    assert_eq!(admission.next_overdue(), None);
    assert!(admission.overdue(ms(60_000)).is_empty());
}

#[test]
fn room_is_kept_for_sources_that_authenticated_within_the_hour() {
    let mut admission = Admission::new(LIMITS);
    let friend = v4(200);
    let number = admission.arrive(friend, ms(0)).unwrap().number;
    admission.authenticated(number, ms(7));
    for n in 0..5 {
        admission.arrive(v4(n), ms(8)).unwrap();
    }
    assert_eq!(instead_of(&mut admission, v4(6), ms(9)), Some(1));
    let first = admission.arrive(friend, ms(9)).unwrap();
    assert_eq!(first.instead_of, None, "it has room of its own");
    // Strangers replace strangers only, a friend any of them.
    for n in 10..20 {
        let gone = instead_of(&mut admission, v4(n), ms(10));
        assert_ne!(gone, Some(first.number));
    }
    let second = admission.arrive(friend, ms(11)).unwrap();
    assert!(second.instead_of.is_some_and(|n| n != first.number));
    admission.left(first.number);
    admission.left(second.number);

    let hour = 3_600_000;
    let known = |admission: &mut Admission, now| {
        admission.arrive(v4(99), now).unwrap();
        let arrived = admission.arrive(friend, now).unwrap();
        admission.left(arrived.number);
        arrived.instead_of.is_none()
    };
    let mut strangers = admission;
    while strangers.waiting.len() < 5 {
        strangers.arrive(v4(98), ms(12)).unwrap();
    }
    assert!(known(&mut strangers, ms(hour + 6)));
    assert!(!known(&mut strangers, ms(hour + 7)));
}

#[test]
fn known_sources_are_bounded_and_the_oldest_is_forgotten() {
    let mut admission = Admission::new(LIMITS);
    let from = |n: u64| at(&format!("10.0.{}.{}", n / 256, n % 256));
    for n in 0..=MAX_KNOWN as u64 {
        let number = admission.arrive(from(n), ms(n)).unwrap().number;
        admission.authenticated(number, ms(n));
    }
    assert_eq!(admission.known.len(), MAX_KNOWN);
    let is_known = |n| admission.is_known(from(n).ip(), ms(2_000));
    assert!(!is_known(0) && is_known(1) && is_known(MAX_KNOWN as u64));
}

#[test]
fn without_descriptors_a_silent_stranger_is_dropped_before_a_known_one_and_nobody_else() {
    let mut admission = Admission::new(LIMITS);
    let friend = v4(200);
    let number = admission.arrive(friend, ms(0)).unwrap().number;
    admission.authenticated(number, ms(0));
    let known = admission.arrive(friend, ms(1)).unwrap().number;
    let unknown = admission.arrive(v4(1), ms(2)).unwrap().number;
    let talks = admission.arrive(v4(2), ms(3)).unwrap().number;
    admission.spoke(talks);
    assert_eq!(admission.make_room(), Some(unknown));
    assert_eq!(admission.make_room(), Some(known));
    assert_eq!(admission.make_room(), None);
}
