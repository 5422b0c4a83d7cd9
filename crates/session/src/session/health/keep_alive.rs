//! Keeping one subflow of a waiting primary from being forgotten by a NAT (ADR 0014).
//!
//! The path manager learns for how long the network of a path remembers an idle connection. One
//! subflow that works is enough: the peer finds out that the others are silent, and sends over it.

use mpbond_units::Timestamp;

use crate::session::streams::Streams;
use crate::subflow::Subflow;
use crate::{PathSet, SubflowId};

/// The subflow that is to be sent a PING first, and when. None while no stream is open, or while a
/// subflow works whose network is not known to forget. Streams with a set of paths need one of that
/// set.
pub(in crate::session) fn due(
    streams: &Streams,
    subflows: &[Subflow],
) -> Option<(SubflowId, Timestamp)> {
    let sets = streams.ready.open().filter(|group| group.has_streams());
    let due = sets.filter_map(|group| due_in(group.paths(), subflows));
    due.min_by_key(|(_, at)| *at)
}

fn due_in(paths: PathSet, subflows: &[Subflow]) -> Option<(SubflowId, Timestamp)> {
    let mut longest = None;
    let may = |s: &&Subflow| s.works() && !s.is_express() && paths.contains(s.path);
    for s in subflows.iter().filter(may) {
        let remembers = s.keep_alive?;
        if longest.is_none_or(|(most, _)| remembers > most) {
            longest = Some((remembers, s));
        }
    }
    let (remembers, s) = longest?;
    // What is owed, or a PING that waits, keeps it as well.
    let quiet = s.sent.is_empty() && !s.pings.wanted;
    let moved = s.rx.at.max(s.health.progress_at);
    quiet.then_some((s.id, moved + remembers))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::stream::Stream;
    use crate::{Role, StreamClass};

    fn s(v: u64) -> Timestamp {
        Timestamp::from_millis(v * 1_000)
    }

    fn subflow(id: u32, role: Role, remembers_s: Option<u64>) -> Subflow {
        let mut subflow = Subflow::for_test(id, None, role);
        subflow.keep_alive = remembers_s.map(Duration::from_secs);
        subflow
    }

    fn waiting() -> Streams {
        let mut streams = Streams::new();
        streams.open(Stream::new(StreamClass::Bulk, None, s(0), 1_000));
        streams
    }

    #[test]
    fn the_subflow_that_is_remembered_longest_is_kept_while_a_stream_is_open() {
        let subflows = [
            subflow(1, Role::Regular, Some(20)),
            subflow(2, Role::Backup, Some(60)),
            subflow(3, Role::Express, Some(90)),
        ];
        assert_eq!(due(&Streams::new(), &subflows), None);
        let kept = due(&waiting(), &subflows);
        assert_eq!(kept, Some((SubflowId(2), s(60))));
    }

    #[test]
    fn nothing_is_sent_while_a_subflow_works_whose_network_forgets_nothing() {
        let mut subflows = [
            subflow(1, Role::Regular, Some(20)),
            subflow(2, Role::Regular, None),
        ];
        assert_eq!(due(&waiting(), &subflows), None);
        subflows[1].health.failed_since = Some(s(1));
        assert_eq!(due(&waiting(), &subflows), Some((SubflowId(1), s(20))));
    }

    #[test]
    fn traffic_puts_it_off_and_one_question_at_a_time_is_open() {
        let mut subflows = [subflow(1, Role::Regular, Some(20))];
        subflows[0].rx.at = s(30);
        assert_eq!(due(&waiting(), &subflows), Some((SubflowId(1), s(50))));
        subflows[0].pings.wanted = true;
        assert_eq!(due(&waiting(), &subflows), None);
        subflows[0].pings.wanted = false;
        subflows[0].give(s(50), 0, 0..10);
        assert_eq!(due(&waiting(), &subflows), None);
    }
    #[test]
    fn streams_with_a_set_of_paths_need_a_subflow_of_theirs() {
        let number = crate::PathNumber::new(3);
        let paths = PathSet::of(number).unwrap();
        let mut own = subflow(2, Role::Regular, Some(30));
        own.path = number;
        let mut subflows = [subflow(1, Role::Regular, None), own];
        let mut streams = waiting();
        assert_eq!(due(&streams, &subflows), None);
        let treatment = crate::Treatment {
            paths,
            ..StreamClass::Bulk.into()
        };
        let id = streams.open(Stream::new(treatment, None, s(0), 1_000));
        // Parked.
        assert_eq!(due(&streams, &subflows), None);
        streams.ready.set_carrying(Some(paths));
        assert_eq!(due(&streams, &subflows), Some((SubflowId(2), s(30))));
        subflows[0].keep_alive = Some(Duration::from_secs(60));
        assert_eq!(due(&streams, &subflows), Some((SubflowId(2), s(30))));
        streams.treat(id, StreamClass::Bulk.into());
        assert_eq!(due(&streams, &subflows), Some((SubflowId(1), s(60))));
    }
}
