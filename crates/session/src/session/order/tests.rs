//! Tests of the order of streams.

use proptest::prelude::*;

use super::group::{SHARE, SLICE};
use super::*;
use crate::StreamClass;

fn push(order: &mut Order, rank: usize, n: u64) -> Place {
    order.push(&StreamClass::Bulk.into(), rank, StreamId(n))
}

fn waits(order: &Order, rank: usize) -> bool {
    order.open().any(|group| group.waits_in(rank))
}

/// An interactive transfer is one, and its class is sensitive to delay nevertheless.
#[test]
fn ranks_of_short_exchanges_and_of_classes_that_are_sensitive_to_delay() {
    for of in 0..RANKS {
        let mut order = Order::default();
        push(&mut order, of, 0);
        for rank in 0..RANKS {
            assert_eq!(order.waits_before(rank), of < rank, "{of} {rank}");
            assert_eq!(order.waits_from(rank), of >= rank, "{of} {rank}");
        }
        assert_eq!(is_short_exchange(of), [0, 1, 2, 4, 5].contains(&of), "{of}");
        assert_eq!(behind(of), [3, 3, 3, 4, 5, 6, 7, 8][of]);
        assert_eq!(
            order.has_delay_sensitive(PathSet::ALL),
            [0, 1, 3].contains(&of),
            "{of}"
        );
        // Whatever waits before it.
        push(&mut order, 2, 1);
        assert_eq!(
            order.has_delay_sensitive(PathSet::ALL),
            [0, 1, 3].contains(&of),
            "{of}"
        );
    }
}

#[test]
fn streams_of_a_rank_are_served_in_turn() {
    let mut order = Order::default();
    for n in 0..3 {
        push(&mut order, 5, n);
    }
    let next = |order: &mut Order| {
        let rank = order
            .ranks(PathSet::ALL)
            .find(|rank| waits(order, *rank))
            .unwrap();
        let mut pass = order.pass(PathSet::ALL, rank);
        let id = order.pop(&mut pass).unwrap();
        push(order, rank, id.0);
        order.served((PathSet::ALL, 0), None, rank, SLICE);
        id.0
    };
    let turns: Vec<_> = (0..7).map(|_| next(&mut order)).collect();
    assert_eq!(turns, [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn bytes_given_while_no_other_rank_waits_are_not_counted() {
    let mut order = Order::default();
    push(&mut order, 2, 0);
    order.served((PathSet::ALL, 0), None, 2, 1 << 30);
    let place = push(&mut order, 5, 1);
    assert_eq!(order.ranks(PathSet::ALL).next(), Some(0));
    order.served((PathSet::ALL, 0), None, 2, 7 * SLICE);
    assert_eq!(order.ranks(PathSet::ALL).next(), Some(5));
    order.remove(place);
    assert_eq!(order.ranks(PathSet::ALL).next(), Some(0));
}

proptest! {
    /// However many ranks wait and whatever is served at a time: the first has seven eighths,
    /// the others have their turns one after another, and no rank waits longer than its share
    /// says.
    #[test]
    fn the_first_has_seven_eighths_and_no_other_starves(
        ranks in proptest::collection::btree_set(0..RANKS, 2..=RANKS),
        records in proptest::collection::vec(1..=SLICE, 4_000..5_000),
    ) {
        let mut order = Order::default();
        for rank in &ranks {
            push(&mut order, *rank, *rank as u64);
        }
        let (mut given, mut turns) = ([0; RANKS], [0_u64; RANKS]);
        // Bytes that others are given between two turns of a rank: the most, and where its last
        // turn ended.
        let (mut gap, mut ended) = ([0; RANKS], [0; RANKS]);
        let mut total = 0_u64;
        for bytes in records {
            let rank = order.ranks(PathSet::ALL).find(|rank| waits(&order, *rank)).unwrap();
            order.served((PathSet::ALL, 0), None, rank, bytes);
            gap[rank] = gap[rank].max(total - ended[rank]);
            given[rank] += bytes;
            turns[rank] += 1;
            total += bytes;
            ended[rank] = total;
        }
        let first = *ranks.first().unwrap();
        let behind = ranks.len() as u64 - 1;
        prop_assert!(given[first].abs_diff(total / SHARE * (SHARE - 1)) <= SLICE + SHARE);
        prop_assert!(gap[first] <= 2 * SLICE, "{gap:?}");
        let others = || ranks.iter().copied().filter(|rank| *rank != first);
        let most = others().map(|rank| turns[rank]).max().unwrap();
        for rank in others() {
            prop_assert!(turns[rank] + 1 >= most, "{rank}: {turns:?}");
            let gap = gap[rank].max(total - ended[rank]);
            prop_assert!(gap <= (SHARE + 1) * SLICE * behind, "{rank}: {gap}");
        }
    }
}
fn with(priority: u8, paths: PathSet) -> Treatment {
    Treatment {
        priority,
        paths,
        ..StreamClass::Bulk.into()
    }
}

#[test]
fn a_pass_takes_each_stream_once_by_priority() {
    let mut order = Order::default();
    for (n, priority) in [0, 7, 3, 7, 0].into_iter().enumerate() {
        order.push(&with(priority, PathSet::ALL), 5, StreamId(n as u64));
    }
    let mut pass = order.pass(PathSet::ALL, 5);
    let mut taken = Vec::new();
    while let Some(id) = order.pop(&mut pass) {
        taken.push(id.0);
        let priority = [0, 7, 3, 7, 0][id.0 as usize];
        // Given nothing, it waits again.
        order.push(&with(priority, PathSet::ALL), 5, id);
    }
    assert_eq!(taken, [1, 3, 2, 0, 4]);
}

#[test]
fn streams_ahead_are_those_that_share_a_path() {
    let numbers = |some: &[u64]| PathSet::of(some.iter().filter_map(|n| PathNumber::new(*n)));
    let [low, both, high] = [&[0][..], &[0, 1], &[1]].map(|some| numbers(some).unwrap());
    let mut order = Order::default();
    order.set_carrying(Some(both));
    for (n, (paths, rank)) in (0..).zip([(low, 2), (both, 2), (high, 5), (PathSet::ALL, 5)]) {
        order.enter(paths);
        order.push(&with(0, paths), rank, StreamId(n));
    }
    let ahead = |paths| [2, 5].map(|rank| order.len_beside(paths, rank));
    assert_eq!(ahead(low), [2, 3]);
    assert_eq!(ahead(high), [1, 3]);
    assert_eq!(ahead(PathSet::ALL), [2, 4]);
}

#[test]
fn streams_of_a_group_without_a_path_do_not_wait() {
    let number = |n| crate::PathNumber::new(n).unwrap();
    let one = PathSet::of([number(1)]).unwrap();
    let mut order = Order::default();
    order.enter(one);
    order.push(&with(0, one), 2, StreamId(0));
    assert!(order.is_empty() && order.ids().next().is_none() && !order.waits_before(RANKS));
    assert_eq!(order.sets(&|_| true), [PathSet::ALL]);
    assert!(!order.set_carrying(PathSet::of([number(2)])));
    assert!(order.set_carrying(PathSet::of([number(1), number(2)])));
    assert!(order.ids().eq([StreamId(0)]) && order.waits_before(3));
    assert_eq!(order.sets(&|_| true), [one, PathSet::ALL]);
    let on = |path| order.waits_before_on(3, path);
    assert!(on(Some(number(1))) && !on(Some(number(2))) && !on(None));
    assert!(order.set_carrying(None) && order.is_empty());
    order.leave(one);
    assert!(!order.has_sets());
}

/// Most bytes that paths of each stream were given until it was given some again. Streams are
/// priority, path of the set (3: all) and rank; records are bytes and the path that takes them.
/// Path 2 takes none.
fn longest_waits(
    streams: &[(u8, u64, usize)],
    records: impl IntoIterator<Item = (u64, u64)>,
) -> Vec<u64> {
    let number = |n| crate::PathNumber::new(n).unwrap();
    let mut order = Order::default();
    order.set_carrying(PathSet::of((0..3).map(number)));
    let set = |path| match path {
        3 => PathSet::ALL,
        n => PathSet::of([number(n)]).unwrap(),
    };
    let treatments: Vec<_> = streams
        .iter()
        .map(|(priority, path, _)| with(*priority, set(*path)))
        .collect();
    for (n, treatment) in treatments.iter().enumerate() {
        order.enter(treatment.paths);
        order.push(treatment, streams[n].2, StreamId(n as u64));
    }
    // Since a stream was given some: now, and the most.
    let (mut since, mut gap) = (vec![0; streams.len()], vec![0; streams.len()]);
    for (bytes, path) in records {
        let on = Some(number(path));
        let sets = order.sets(&|_| true);
        let waits = |set: &PathSet| set.contains(on) && order.waits(*set);
        let Some(paths) = sets.into_iter().find(waits) else {
            continue;
        };
        let mut ranks = order.ranks(paths);
        let rank = ranks
            .find(|rank| order.group(paths).unwrap().waits_in(*rank))
            .unwrap();
        let mut pass = order.pass(paths, rank);
        let id = order.pop(&mut pass).unwrap();
        let n = id.0 as usize;
        order.push(&treatments[n], rank, id);
        order.served((paths, treatments[n].priority), on, rank, bytes);
        for (m, treatment) in treatments.iter().enumerate() {
            if treatment.paths.contains(on) {
                since[m] += bytes;
                gap[m] = gap[m].max(since[m]);
            }
        }
        since[n] = 0;
    }
    gap
}

/// What the shares of a stream's rank and of its priority say: each is an eighth, divided by the
/// sets that share a path; that of the rank goes to the ranks of its set in turn, that of the
/// priority to the streams of the rank in turn.
fn most_wait(streams: &[(u8, u64, usize)], n: usize) -> u64 {
    let (_, path, rank) = streams[n];
    let of_set = || streams.iter().filter(|stream| stream.1 == path);
    let ranks = (0..RANKS).filter(|rank| of_set().any(|stream| stream.2 == *rank));
    let in_rank = of_set().filter(|stream| stream.2 == rank).count();
    // A path is in its own set and in that of all paths.
    let sets: u64 = match streams.iter().any(|stream| (stream.1 == 3) != (path == 3)) {
        true => 2,
        false => 1,
    };
    (SHARE + 1).pow(2) * SLICE * sets.pow(2) * (ranks.count() * in_rank) as u64
}

proptest! {
    /// Whatever the priorities, sets and ranks of streams, and whichever path takes a record next:
    /// none waits longer than the shares of its rank and its priority say.
    #[test]
    fn no_priority_starves(
        streams in proptest::collection::vec((0..=7u8, 0..4u64, 2..=7usize), 2..=12),
        records in proptest::collection::vec((1..=SLICE, 0..2u64), 8_000..9_000),
        in_turn in any::<bool>(),
    ) {
        let records = (0_u64..).zip(records);
        let records = records.map(|(i, record)| if in_turn { (SLICE, i % 2) } else { record });
        for (n, gap) in longest_waits(&streams, records).into_iter().enumerate() {
            let most = most_wait(&streams, n);
            prop_assert!(gap <= most, "{n}: {gap} of {most}, {streams:?}");
        }
    }
}

/// A case that the property found when its bound had an eighth for each set: streams of all paths
/// halve both eighths of a set, though they need no turn there, since another path serves them.
#[test]
fn two_sets_halve_both_shares_of_a_stream() {
    let alone = [(0, 0, 2), (0, 0, 3), (0, 0, 4), (0, 0, 5), (1, 0, 5)];
    let beside: Vec<_> = alone.into_iter().chain([(0, 3, 5)]).collect();
    let wait = |streams: &[_]| {
        let records = (0..8_000).map(|i| (SLICE, i % 2));
        longest_waits(streams, records)[3] / SLICE
    };
    assert_eq!([wait(&alone), wait(&beside)], [192, 675]);
}

/// Streams whose path takes nothing keep no others from their turns, whatever rank they wait in.
#[test]
fn streams_that_cannot_be_served_take_no_turns() {
    let number = |n| crate::PathNumber::new(n).unwrap();
    let blocked = PathSet::of([number(1)]).unwrap();
    for (of_blocked, ranks) in [(3, [4, 7]), (7, [2, 6]), (0, [4, 6]), (5, [2, 7])] {
        let mut order = Order::default();
        order.set_carrying(Some(blocked));
        order.enter(blocked);
        order.push(&with(0, blocked), of_blocked, StreamId(9));
        for rank in ranks {
            push(&mut order, rank, rank as u64);
        }
        let mut given = [0; RANKS];
        for _ in 0..800 {
            let mut all = order.ranks(PathSet::ALL);
            let rank = all.find(|rank| ranks.contains(rank)).unwrap();
            order.served((PathSet::ALL, 0), Some(number(0)), rank, SLICE);
            given[rank] += 1;
        }
        assert!(
            (90..=110).contains(&given[ranks[1]]),
            "{of_blocked}: {given:?}"
        );
    }
}
