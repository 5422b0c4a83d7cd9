//! Look-ups under way, shared fairly between sessions.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::rc::Rc;

use tokio::sync::oneshot;

/// Permits, for use on one thread.
///
/// A session with fewer permits than are free, and fewer than its limit, gets one; others wait. So
/// a few sessions that use all that they get leave some for one that comes, and the more there are,
/// the less each gets (dynamic thresholds, Choudhury and Hahne 1998). Of those that wait, the
/// session with the fewest is next.
pub(super) struct Turns<K: Hash + Eq + Copy> {
    table: Rc<RefCell<Table<K>>>,
}

struct Table<K: Hash + Eq + Copy> {
    free: usize,
    most_each: usize,
    sessions: HashMap<K, Own<K>>,
}

struct Own<K: Hash + Eq + Copy> {
    used: usize,
    waiting: VecDeque<oneshot::Sender<Permit<K>>>,
}

/// A permit; dropping it gives it back.
pub(super) struct Permit<K: Hash + Eq + Copy> {
    table: Rc<RefCell<Table<K>>>,
    session: K,
}

impl<K: Hash + Eq + Copy> Turns<K> {
    /// With `most` in all and `most_each` for one session.
    pub(super) fn new(most: usize, most_each: usize) -> Self {
        let table = Table {
            free: most,
            most_each,
            sessions: HashMap::new(),
        };
        Self {
            table: Rc::new(RefCell::new(table)),
        }
    }

    /// Waits for a permit.
    pub(super) async fn take(&self, session: K) -> Permit<K> {
        let waits = {
            let mut table = self.table.borrow_mut();
            let own = table.sessions.entry(session).or_insert_with(|| Own {
                used: 0,
                waiting: VecDeque::new(),
            });
            let (permit, waits) = oneshot::channel();
            own.waiting.push_back(permit);
            waits
        };
        grant(&self.table);
        match waits.await {
            Ok(permit) => permit,
            // The sender is dropped with the table only, which `self` holds.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Gives free permits to those that wait.
fn grant<K: Hash + Eq + Copy>(shared: &Rc<RefCell<Table<K>>>) {
    loop {
        let next = shared.borrow_mut().next();
        let Some((session, waiting)) = next else {
            return;
        };
        let permit = Permit {
            table: Rc::clone(shared),
            session,
        };
        // One that no longer waits gives the permit back: its drop comes here again.
        let _ = waiting.send(permit);
    }
}

impl<K: Hash + Eq + Copy> Table<K> {
    fn next(&mut self) -> Option<(K, oneshot::Sender<Permit<K>>)> {
        let most = self.free.min(self.most_each);
        let waiting = self.sessions.iter_mut();
        let (session, own) = waiting
            .filter(|(_, own)| own.used < most && !own.waiting.is_empty())
            .min_by_key(|(_, own)| own.used)?;
        let waiting = own.waiting.pop_front()?;
        own.used += 1;
        self.free -= 1;
        Some((*session, waiting))
    }
}

impl<K: Hash + Eq + Copy> Drop for Permit<K> {
    fn drop(&mut self) {
        {
            let mut table = self.table.borrow_mut();
            table.free += 1;
            if let Some(own) = table.sessions.get_mut(&self.session) {
                own.used -= 1;
                own.waiting.retain(|w| !w.is_closed());
                if own.used == 0 && own.waiting.is_empty() {
                    table.sessions.remove(&self.session);
                }
            }
        }
        grant(&self.table);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn now<F: Future>(future: F) -> Option<F::Output> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(x) => Some(x),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_session_gets_its_limit_and_one_that_comes_finds_room_until_there_are_ten() {
        let turns = Turns::new(256, 64);
        let mut held = Vec::new();
        let mut take = |session: u32| match now(turns.take(session)) {
            Some(permit) => {
                held.push(permit);
                true
            }
            None => false,
        };
        assert_eq!((0..3_000).filter(|_| take(0)).count(), 64);
        // Six more take all that they get.
        let more = [64, 64, 32, 16, 8, 4];
        for (session, most) in (1..).zip(more) {
            assert_eq!((0..3_000).filter(|_| take(session)).count(), most);
        }
        let newcomer = 100;
        assert!(take(newcomer), "there are some left");
        assert!(take(newcomer));
        // Ten together have them all.
        assert!(take(101) && take(102));
        assert_eq!((0..200).filter(|session| take(*session)).count(), 0);
        drop(held);
        assert!(turns.table.borrow().sessions.is_empty(), "nothing is kept");
        assert_eq!(turns.table.borrow().free, 256);
    }

    #[test]
    fn the_session_with_the_fewest_is_next_and_those_that_left_are_skipped() {
        let turns = Turns::new(4, 4);
        let mut a: Vec<_> = (0..2).filter_map(|_| now(turns.take('a'))).collect();
        assert_eq!(a.len(), 2);
        let b = now(turns.take('b')).unwrap();
        // One is left: it is for another session.
        let mut second = Box::pin(turns.take('b'));
        let mut gone = Box::pin(turns.take('c'));
        let first = now(gone.as_mut());
        assert!(first.is_some(), "the last one");
        let mut left = Box::pin(turns.take('d'));
        assert!(now(left.as_mut()).is_none());
        assert!(now(second.as_mut()).is_none());
        drop(left);
        a.pop();
        assert!(now(second.as_mut()).is_none(), "as many as are free");
        drop(first);
        assert!(now(second.as_mut()).is_some());
        drop(b);
    }
}
