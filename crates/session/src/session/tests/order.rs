//! Which of several streams goes first.

use std::time::Duration;

use super::pair::{Pair, joined, pattern};
use crate::*;

const LONG: usize = 8 << 20;
const ANSWER: usize = 14_000;

/// Bytes of one or two records, which may be on their way into a socket.
const RECORDS: u64 = 2 * 16_384;

/// A session with open streams, of which the first `long` have sent for a second.
fn with_long(long: usize, others: usize) -> (Pair, Vec<StreamId>, Vec<StreamId>) {
    let (mut p, ..) = joined(SessionConfig::default());
    let long: Vec<_> = (0..long).map(|_| p.open()).collect();
    let others: Vec<_> = (0..others).map(|_| p.open()).collect();
    pause(&mut p, 200);
    for id in &long {
        p.server().write(*id, pattern(LONG));
    }
    pause(&mut p, 1_500);
    (p, long, others)
}

fn pause(p: &mut Pair, ms: u64) {
    let until = p.now + Duration::from_millis(ms);
    p.run(until, |_| false);
}

fn given(p: &mut Pair, id: StreamId) -> u64 {
    let streams = p.server().streams();
    streams
        .iter()
        .find(|s| s.id == id)
        .map_or(0, |s| s.bytes_out)
}

/// Bytes of other streams that subflows are given until they have been given an answer.
fn before_answer(p: &mut Pair, id: StreamId) -> u64 {
    let (others, own) = (p.server().stats().bytes_out, given(p, id));
    p.server().write(id, pattern(ANSWER));
    let until = p.now + Duration::from_secs(10);
    p.run(until, |p| given(p, id) >= own + ANSWER as u64);
    assert_eq!(given(p, id), own + ANSWER as u64);
    p.server().stats().bytes_out - others - ANSWER as u64
}

#[test]
fn a_short_answer_passes_eight_long_transfers() {
    let (mut p, _, others) = with_long(8, 1);
    let before = before_answer(&mut p, others[0]);
    assert!(before <= RECORDS, "{before}");
}

/// A kept connection that has brought much gets its next answer as fast as a new one; without a new
/// request it is a transfer that goes on.
#[test]
fn a_request_makes_a_quiet_stream_young_again() {
    let (mut p, _, others) = with_long(8, 2);
    for id in &others {
        p.server().write(*id, pattern(1 << 20));
    }
    let until = p.now + Duration::from_secs(30);
    p.run(until, |p| others.iter().all(|id| given(p, *id) == 1 << 20));
    pause(&mut p, 2_000);
    p.client.write(others[0], pattern(500));
    pause(&mut p, 500);
    let before = before_answer(&mut p, others[0]);
    assert!(before <= RECORDS, "{before}");
    let before = before_answer(&mut p, others[1]);
    assert!(before > RECORDS, "without a request: {before}");
}

#[test]
fn a_class_behind_another_keeps_an_eighth() {
    let (mut p, long, _) = with_long(2, 0);
    p.client.set_class(long[1], StreamClass::Background);
    pause(&mut p, 200);
    let start = (given(&mut p, long[0]), given(&mut p, long[1]));
    // Before the window of the first is used up.
    pause(&mut p, 1_200);
    let bulk = given(&mut p, long[0]) - start.0;
    let background = given(&mut p, long[1]) - start.1;
    let share = background as f64 / (bulk + background) as f64;
    assert!((0.1..0.15).contains(&share), "{bulk} {background}");
}
