//! New connections that wait, for the status.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use mpbond_intercept::Destination;
use tokio::time::Instant;

use crate::primary::rules::ruling::Ruling;
use crate::status::{Status, WaitingStatus};

/// Number of connections that a status lists, those that have waited for the longest; it has the
/// number of all.
const LISTED: usize = 100;

/// What a new connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// A session that has a path.
    Session,
    /// A path that the policy lets it use.
    Path,
    /// A radio that is awake.
    Radio,
    /// The proxy to take another stream.
    Room,
}

impl For {
    const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Path => "path",
            Self::Radio => "radio",
            Self::Room => "room",
        }
    }
}

/// The connections, by the instant at which they have come. For use on one thread.
#[derive(Default)]
pub(in crate::primary) struct WaitingList(RefCell<Table>);

#[derive(Default)]
struct Table {
    /// Number of the last one: several come at one instant.
    last: u64,
    connections: BTreeMap<(Instant, u64), Waiting>,
}

struct Waiting {
    client: SocketAddr,
    destination: String,
    ruling: Ruling,
    what: For,
    until: Option<Instant>,
}

/// A connection in the list, as long as this is there.
pub(super) struct Entry<'a> {
    list: &'a WaitingList,
    key: (Instant, u64),
}

impl WaitingList {
    /// Enters a connection of this client, which waits for a session.
    pub(super) fn enter(
        &self,
        since: Instant,
        client: SocketAddr,
        to: &Destination,
        ruling: &Ruling,
    ) -> Entry<'_> {
        let mut table = self.0.borrow_mut();
        table.last += 1;
        let key = (since, table.last);
        let waiting = Waiting {
            client,
            destination: to.to_string(),
            ruling: ruling.clone(),
            what: For::Session,
            until: None,
        };
        table.connections.insert(key, waiting);
        Entry { list: self, key }
    }

    /// Adds them to a status.
    pub(in crate::primary) fn describe(&self, status: &mut Status) {
        let table = self.0.borrow();
        let now = Instant::now();
        let listed = table.connections.iter().take(LISTED);
        let listed = listed.map(|((since, _), waiting)| WaitingStatus {
            client: waiting.client.to_string(),
            destination: waiting.destination.clone(),
            rule: waiting.ruling.rule_name().map(str::to_owned),
            waits_for: waiting.what.name().to_owned(),
            waited_s: now.duration_since(*since).as_secs_f64(),
            left_s: waiting
                .until
                .map(|until| until.saturating_duration_since(now).as_secs_f64()),
        });
        status.waiting = listed.collect();
        status.waiting_count = Some(table.connections.len());
    }
}

impl Entry<'_> {
    /// What it waits for from now on, and the instant until which it does, if that is known.
    pub(super) fn waits_for(&self, what: For, until: Option<Instant>) {
        let mut table = self.list.0.borrow_mut();
        if let Some(waiting) = table.connections.get_mut(&self.key) {
            (waiting.what, waiting.until) = (what, until);
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.list.0.borrow_mut().connections.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::primary::rules::ruling::{Handling, Kept};

    #[tokio::test(start_paused = true)]
    async fn those_that_have_waited_for_the_longest_are_listed_and_all_are_counted() {
        let list = WaitingList::default();
        let ruling = Ruling {
            policy: None,
            rule: None,
            handling: Handling::Carry,
            is_counted: false,
            kept: Kept::default(),
        };
        let start = Instant::now();
        let enter = |n: u16| {
            let to = Destination::Addr(SocketAddr::from(([192, 0, 2, 1], n)));
            let client = SocketAddr::from(([127, 0, 0, 1], 5));
            // Two of each instant, the latest first.
            let since = start + Duration::from_secs(u64::from(n / 2));
            list.enter(since, client, &to, &ruling)
        };
        let mut entries: Vec<_> = (0..150).rev().map(enter).collect();
        tokio::time::advance(Duration::from_secs(100)).await;
        let of = |list: &WaitingList| {
            let mut status = Status::default();
            list.describe(&mut status);
            status
        };
        let status = of(&list);
        assert_eq!(status.waiting.len(), LISTED);
        assert_eq!(status.waiting_count, Some(150));
        let first = &status.waiting[0];
        assert_eq!(first.destination, "192.0.2.1:1");
        assert_eq!(first.client, "127.0.0.1:5");
        assert_eq!((&*first.waits_for, first.left_s), ("session", None));
        assert!((first.waited_s - 100.0).abs() < 1e-9, "{first:?}");
        assert_eq!(status.waiting[99].destination, "192.0.2.1:98");

        let oldest = entries.pop().unwrap();
        let until = Instant::now() + Duration::from_secs(7);
        oldest.waits_for(For::Path, Some(until));
        let status = of(&list);
        assert_eq!(status.waiting[1].destination, "192.0.2.1:0");
        assert_eq!(status.waiting[1].waits_for, "path");
        assert_eq!(status.waiting[1].left_s, Some(7.0));
        let mut status = status;
        status.withhold_transfers();
        assert_eq!(
            (status.waiting, status.waiting_count),
            (Vec::new(), Some(150))
        );
        drop(entries);
        assert_eq!(of(&list).waiting_count, Some(1));
        drop(oldest);
        let status = of(&list);
        assert_eq!(
            (status.waiting, status.waiting_count),
            (Vec::new(), Some(0))
        );
    }
}
