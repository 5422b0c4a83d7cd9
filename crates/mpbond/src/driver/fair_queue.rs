//! Fair queueing of the sessions on a thread, by work (deficit round robin; Shreedhar and Varghese,
//! SIGCOMM '95).
//!
//! The event loop runs every task in turn, so that a session with a hundred streams would run a
//! hundred times as often as one with a single stream. Here, sessions are counted instead: in each
//! round a session may do a quantum of work, however many tasks it has, and then waits for the next
//! round. A round ends when all tasks that were ready have run: the task that begins the next one
//! is woken by the first session that has used its quantum, and so stands behind them in the event
//! loop's queue. Work beyond the quantum is deducted from the next ones. A session's tasks wait
//! until it may work again: a thousand streams that are opened at once owe rounds by the hundred.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

/// Work of a session in a round, in bytes moved. A few records: a round of a thousand busy
/// sessions, for which a small request may wait, moves 64 MB in about a fifth of a second. The cost
/// of a round (two wake-ups) is negligible beside it.
pub const QUANTUM: u64 = 64 << 10;

/// Cost of a piece of work besides its bytes, a system call and a wake-up, in the bytes that could
/// be moved in that time.
pub const CALL: u64 = 2 << 10;

/// Cost of a new stream: look-up of its destination and connecting.
pub const OPENING: u64 = 32 << 10;

/// Tasks of a session that wait: more than a session has. Beyond that, all run, and each one waits
/// once.
const MOST_WAITING: usize = 32_768;

/// The sessions of one thread. Cheap to clone; for use on that thread.
#[derive(Clone, Debug)]
pub struct FairQueue {
    round: Rc<RefCell<Round>>,
}

#[derive(Debug, Default)]
struct Round {
    number: u64,
    /// Sessions whose tasks wait.
    waiting: Vec<Rc<RefCell<Waiting>>>,
    caller: Option<Waker>,
}

/// A session's use of its quantum, and the tasks that wait for the next one.
#[derive(Debug, Default)]
struct Waiting {
    /// Round up to which quanta were taken off.
    seen: u64,
    used: u64,
    /// Tasks that found the quantum used, and those that used it.
    idle: Vec<Waker>,
    worked: Vec<Waker>,
}

impl Waiting {
    fn refresh(&mut self, number: u64) {
        let past = QUANTUM.saturating_mul(number - self.seen);
        self.used = self.used.saturating_sub(past);
        self.seen = number;
    }
}

impl Round {
    /// Begins the next round. Returns tasks whose sessions may work.
    fn next(&mut self) -> Vec<Waker> {
        let rounds = |of: &Rc<RefCell<Waiting>>| {
            let mut of = of.borrow_mut();
            of.refresh(self.number);
            of.used / QUANTUM
        };
        // Where none of those that wait may work in the next ones, these are over at once.
        let Some(least) = self.waiting.iter().map(rounds).min() else {
            return Vec::new();
        };
        self.number += least.max(1);
        let (mut idle, mut worked) = (Vec::new(), Vec::new());
        self.waiting.retain(|of| {
            let mut of = of.borrow_mut();
            of.refresh(self.number);
            let may_work = of.used < QUANTUM;
            if may_work {
                idle.append(&mut of.idle);
                worked.append(&mut of.worked);
            }
            !may_work
        });
        // Tasks that did no work in this round come first in the next.
        idle.append(&mut worked);
        idle
    }
}

impl FairQueue {
    /// A queue without sessions. Must be called within a `tokio::task::LocalSet`.
    pub fn start() -> Self {
        let round = Rc::default();
        tokio::task::spawn_local(call(Rc::downgrade(&round)));
        Self { round }
    }

    pub(super) fn join(&self) -> Turn {
        let waiting = Waiting {
            seen: self.round.borrow().number,
            ..Waiting::default()
        };
        Turn {
            round: Rc::clone(&self.round),
            own: Rc::new(RefCell::new(waiting)),
        }
    }
}

impl Drop for FairQueue {
    fn drop(&mut self) {
        // The last one ends the caller.
        if Rc::strong_count(&self.round) == 1
            && let Some(w) = self.round.borrow_mut().caller.take()
        {
            w.wake();
        }
    }
}

/// Begins a new round whenever a session waits for one.
async fn call(round: Weak<RefCell<Round>>) {
    poll_fn(|cx| {
        let Some(round) = round.upgrade() else {
            return Poll::Ready(());
        };
        let (woken, is_all) = {
            let mut round = round.borrow_mut();
            round.caller = Some(cx.waker().clone());
            (round.next(), round.waiting.is_empty())
        };
        woken.into_iter().for_each(Waker::wake);
        if !is_all {
            // The next round begins when these have run, whether or not they use their quantum.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
}

/// A session's place in the rounds.
#[derive(Debug)]
pub(super) struct Turn {
    round: Rc<RefCell<Round>>,
    own: Rc<RefCell<Waiting>>,
}

impl Turn {
    /// Adds work done.
    pub(super) fn spend(&mut self, work: u64) {
        let mut own = self.own.borrow_mut();
        own.refresh(self.round.borrow().number);
        own.used = own.used.saturating_add(work);
    }

    /// Whether the session has used its quantum; then `waker` is woken when it may work again.
    /// `worked` says whether the calling task has done some of the work.
    pub(super) fn is_over(&mut self, waker: &Waker, worked: bool) -> bool {
        let mut round = self.round.borrow_mut();
        let mut own = self.own.borrow_mut();
        own.refresh(round.number);
        if own.used < QUANTUM {
            return false;
        }
        let is_first = own.idle.is_empty() && own.worked.is_empty();
        if own.idle.len() >= MOST_WAITING {
            own.idle.drain(..).for_each(Waker::wake);
        }
        match worked {
            true => own.worked.push(waker.clone()),
            false => own.idle.push(waker.clone()),
        }
        if is_first {
            round.waiting.push(Rc::clone(&self.own));
        }
        if let Some(w) = round.caller.take() {
            w.wake();
        }
        true
    }
}

impl Drop for Turn {
    /// A session that ends in debt takes its place and its tasks out: they learn of its end.
    fn drop(&mut self) {
        if let Ok(mut round) = self.round.try_borrow_mut() {
            round.waiting.retain(|of| !Rc::ptr_eq(of, &self.own));
        }
        let woken = {
            let mut own = self.own.borrow_mut();
            [
                std::mem::take(&mut own.idle),
                std::mem::take(&mut own.worked),
            ]
        };
        woken.into_iter().flatten().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Woken(std::sync::atomic::AtomicUsize);

    impl std::task::Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Runs sessions with so many tasks, each of which always has work of this size, until all
    /// together have done `total`; what each session and each task did.
    fn run(sessions: &[(usize, u64)], total: u64) -> (Vec<u64>, Vec<u64>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, async {
            let queue = FairQueue::start();
            let done = Rc::new(Cell::new(0));
            let mut tasks = Vec::new();
            for (n, (number, piece)) in sessions.iter().copied().enumerate() {
                let turn = Rc::new(RefCell::new(queue.join()));
                for _ in 0..number {
                    let (turn, done) = (Rc::clone(&turn), Rc::clone(&done));
                    let own = Rc::new(Cell::new(0));
                    tasks.push((n, Rc::clone(&own)));
                    tokio::task::spawn_local(poll_fn(move |cx| {
                        let mut worked = false;
                        // tokio lets nobody do more than this in one go.
                        for _ in 0..128 {
                            if done.get() >= total {
                                return Poll::Ready(());
                            }
                            let mut turn = turn.borrow_mut();
                            if turn.is_over(cx.waker(), worked) {
                                return Poll::Pending;
                            }
                            turn.spend(piece);
                            worked = true;
                            own.set(own.get() + piece);
                            done.set(done.get() + piece);
                        }
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }));
                }
            }
            while done.get() < total {
                tokio::task::yield_now().await;
            }
            let mut sums = vec![0; sessions.len()];
            for (n, own) in &tasks {
                sums[*n] += own.get();
            }
            (sums, tasks.iter().map(|(_, own)| own.get()).collect())
        })
    }

    #[test]
    fn many_streams_get_no_more_than_one() {
        let (sums, tasks) = run(&[(1, 64 << 10), (100, 64 << 10)], 400 << 20);
        let (one, hundred) = (sums[0] as f64, sums[1] as f64);
        assert!((0.95..1.05).contains(&(one / hundred)), "{sums:?}");
        // Nor does one of the hundred starve another.
        let (least, most) = (tasks[1..].iter().min(), tasks[1..].iter().max());
        let (least, most) = (*least.unwrap(), *most.unwrap());
        assert!(least * 2 > most, "{least} {most}");
    }

    #[test]
    fn large_pieces_get_no_more_than_small_ones() {
        let (sums, _) = run(&[(3, 256 << 10), (3, 1000)], 400 << 20);
        let (large, small) = (sums[0] as f64, sums[1] as f64);
        assert!((0.95..1.05).contains(&(large / small)), "{sums:?}");
    }

    #[test]
    fn a_session_alone_gets_everything() {
        let (sums, _) = run(&[(5, 64 << 10)], 100 << 20);
        assert!(sums[0] >= 100 << 20);
    }

    /// Calls of the tasks of a session that owes a thousand rounds, until they may work; with
    /// another session that always has work, or alone.
    fn calls_in_debt(tasks: usize, has_other: bool) -> Vec<usize> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, async {
            let queue = FairQueue::start();
            let turn = Rc::new(RefCell::new(queue.join()));
            turn.borrow_mut().spend(1_000 * QUANTUM);
            let waits = (0..tasks).map(|_| {
                let (turn, mut calls) = (Rc::clone(&turn), 0);
                tokio::task::spawn_local(poll_fn(move |cx| {
                    calls += 1;
                    match turn.borrow_mut().is_over(cx.waker(), false) {
                        true => Poll::Pending,
                        false => Poll::Ready(calls),
                    }
                }))
            });
            let waits: Vec<_> = waits.collect();
            if has_other {
                let mut other = queue.join();
                tokio::task::spawn_local(poll_fn(move |cx| {
                    while !other.is_over(cx.waker(), true) {
                        other.spend(QUANTUM);
                    }
                    Poll::<()>::Pending
                }));
            }
            let mut calls = Vec::new();
            for wait in waits {
                calls.push(wait.await.unwrap());
            }
            calls
        })
    }

    #[test]
    fn tasks_of_a_session_that_owes_rounds_wait_until_it_may_work() {
        for has_other in [false, true] {
            assert_eq!(calls_in_debt(1_000, has_other), [2; 1_000]);
        }
    }

    #[test]
    fn a_session_that_ends_in_debt_wakes_its_tasks_and_waits_no_longer() {
        let queue = FairQueue {
            round: Rc::default(),
        };
        let woken = std::sync::Arc::new(Woken::default());
        let waker = Waker::from(std::sync::Arc::clone(&woken));
        let mut turn = queue.join();
        turn.spend(1_000 * QUANTUM);
        assert!(turn.is_over(&waker, false) && turn.is_over(&waker, true));
        assert_eq!(queue.round.borrow().waiting.len(), 1);
        drop(turn);
        assert!(queue.round.borrow().waiting.is_empty());
        assert_eq!(woken.0.load(std::sync::atomic::Ordering::Relaxed), 2);
    }

    #[test]
    fn an_idle_session_saves_no_credit() {
        let (number, waker) = (RefCell::default(), Waker::noop());
        let queue = FairQueue {
            round: Rc::new(number),
        };
        let mut turn = queue.join();
        turn.spend(3 * QUANTUM);
        for _ in 0..2 {
            queue.round.borrow_mut().number += 1;
            assert!(turn.is_over(waker, false), "the debt is paid back first");
        }
        queue.round.borrow_mut().number += 1000;
        turn.spend(QUANTUM);
        assert!(turn.is_over(waker, false), "no more than one quantum");
    }
}
