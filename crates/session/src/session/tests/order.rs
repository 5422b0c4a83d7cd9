//! Which of several streams goes first.

use std::time::Duration;

use super::pair::{HopModel, Pair, hop, joined, pattern};
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

/// Shares of two long transfers, of which the first has this class, while both wait.
fn share_behind(front: StreamClass, behind: StreamClass, paths: &[&[HopModel]]) -> f64 {
    let mut p = Pair::new(SessionConfig::default());
    for hops in paths {
        p.join(hops);
    }
    pause(&mut p, 1_000);
    let long = [front, behind].map(|class| {
        let id = p.open();
        p.client.set_class(id, class);
        id
    });
    pause(&mut p, 200);
    for id in &long {
        p.server().write(*id, pattern(LONG));
    }
    pause(&mut p, 800);
    let start = long.map(|id| given(&mut p, id));
    // Before the window of the first is used up.
    pause(&mut p, 1_200);
    let [ahead, other] = [0, 1].map(|n| given(&mut p, long[n]) - start[n]);
    other as f64 / (ahead + other) as f64
}

/// A download and an answer that begins later: in turn, the download is given as much meanwhile.
#[test]
fn in_turn_a_download_is_given_as_much_as_an_answer_beside_it() {
    let of = |stream_order| {
        let config = SessionConfig {
            stream_order,
            ..SessionConfig::default()
        };
        let mut p = Pair::new(config);
        p.join(&[hop(8.0, 25)]);
        let [long, answer] = [(); 2].map(|()| p.open());
        p.client.write(long, pattern(1));
        p.client.write(answer, pattern(1));
        pause(&mut p, 200);
        p.server().write(long, pattern(8 << 20));
        pause(&mut p, 2_000);
        let before = given(&mut p, long);
        p.server().write(answer, pattern(200_000));
        p.run(p.now + Duration::from_secs(4), |p| {
            given(p, answer) >= 200_000
        });
        given(&mut p, long) - before
    };
    let (young, in_turn) = (
        of(StreamOrder::AttainedService),
        of(StreamOrder::RoundRobin),
    );
    assert!(in_turn > 180_000, "{in_turn}");
    assert!(young < in_turn / 3, "{young}, {in_turn}");
}

#[test]
fn a_class_behind_another_keeps_an_eighth() {
    use StreamClass::{Background, Bulk, Interactive, Realtime};
    let direct: &[_] = &[hop(8.0, 25)];
    let helper: &[_] = &[hop(5.0, 2), hop(10.0, 25)];
    for (front, behind) in [
        (Bulk, Background),
        (Interactive, Bulk),
        (Realtime, Bulk),
        (Realtime, Interactive),
    ] {
        for paths in [&[direct][..], &[helper], &[direct, helper]] {
            let share = share_behind(front, behind, paths);
            let row = format!("{front:?} before {behind:?}, {} paths", paths.len());
            assert!((0.1..0.15).contains(&share), "{row}: {share}");
        }
    }
}

/// Whether queues at the proxy are kept short, after an interactive stream sent so many bytes every
/// 20 ms for two seconds beside a bulk transfer.
fn queues_are_short_beside(bytes: usize) -> bool {
    let (mut p, long, others) = with_long(1, 1);
    p.client.set_class(others[0], StreamClass::Interactive);
    pause(&mut p, 200);
    for _ in 0..100 {
        p.server().write(others[0], pattern(bytes));
        pause(&mut p, 20);
    }
    let now = p.now;
    assert!(given(&mut p, others[0]) > 300_000);
    assert!(given(&mut p, long[0]) > 0);
    p.server().short_exchanges.is_recent(now)
}

/// At 1.6 Mbit/s it fills no queue, and remains a short exchange, however much it has sent. At
/// 16 Mbit/s it exceeds the rate of the paths.
#[test]
fn an_interactive_stream_is_a_transfer_where_it_exceeds_the_rate_of_the_paths() {
    assert!(queues_are_short_beside(4 << 10));
    assert!(!queues_are_short_beside(40 << 10));
}

/// Writes to a stream, and waits until subflows have been given everything.
fn send(p: &mut Pair, id: StreamId, bytes: usize) {
    let own = given(p, id);
    p.server().write(id, pattern(bytes));
    let until = p.now + Duration::from_secs(9);
    p.run(until, |p| given(p, id) >= own + bytes as u64);
    assert_eq!(given(p, id), own + bytes as u64);
}

/// Somebody types, has a long file shown, and types again.
#[test]
fn an_interactive_transfer_does_not_undo_the_short_exchanges_before_it() {
    let (mut p, long, others) = with_long(1, 1);
    p.client.set_class(others[0], StreamClass::Interactive);
    pause(&mut p, 200);
    let is_recent = |p: &mut Pair| {
        let now = p.now;
        p.server().short_exchanges.is_recent(now)
    };
    send(&mut p, others[0], 200 << 10);
    assert!(!is_recent(&mut p), "a transfer alone");
    send(&mut p, others[0], 48);
    assert!(is_recent(&mut p), "drained, and typed");
    send(&mut p, others[0], 200 << 10);
    assert!(is_recent(&mut p), "typed before");
    assert!(given(&mut p, long[0]) < LONG as u64);
}

/// Streams fall through the ranks one after the other. No short exchange remains when the last one
/// has got to the end.
#[test]
fn two_transfers_that_begin_together_do_not_keep_queues_short() {
    let (mut p, long, _) = with_long(2, 0);
    for id in long {
        let given = given(&mut p, id);
        assert!((300_000..LONG as u64).contains(&given), "{given}");
    }
    let now = p.now;
    assert!(!p.server().short_exchanges.is_recent(now));
}

#[test]
fn a_stream_that_becomes_interactive_begins_anew_with_its_next_bytes() {
    let (mut p, long, others) = with_long(1, 1);
    send(&mut p, others[0], 1 << 20);
    p.client.set_class(others[0], StreamClass::Interactive);
    pause(&mut p, 200);
    send(&mut p, others[0], 48);
    let now = p.now;
    assert!(p.server().short_exchanges.is_recent(now));
    assert!(given(&mut p, long[0]) < LONG as u64);
}

#[test]
fn published_rules_and_duplicates_do_not_depend_on_short_exchanges() {
    use SchedulerKind::{Mpbond, Pams, Redundant};
    for (scheduler, short) in [(Mpbond, true), (Pams, false), (Redundant, false)] {
        let config = SessionConfig {
            scheduler,
            ..SessionConfig::default()
        };
        let (mut p, ..) = joined(config);
        let (long, message) = (p.open(), p.open());
        pause(&mut p, 200);
        p.server().write(long, pattern(LONG));
        pause(&mut p, 1_000);
        before_answer(&mut p, message);
        let now = p.now;
        let is_recent = p.server().short_exchanges.is_recent(now);
        assert_eq!(is_recent, short, "{scheduler}");
    }
}
