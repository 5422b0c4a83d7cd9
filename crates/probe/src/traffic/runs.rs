//! Runs known to a server, so that a client can resume after a lost connection.

use std::collections::{HashMap, VecDeque};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::hello::Hello;
use super::sender::OPEN;
use crate::sys;

/// Maximum number of runs.
const MAX_RUNS: usize = 256;
/// Time for which a run without a connection is kept.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Maximum number of receipts kept of a run, for a client that lost them: 16 MB of bulk, more than
/// socket buffers hold.
const MAX_RECEIPTS: usize = 4096;

/// Arrival of a record, and its own time stamp; in ns since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub(crate) number: u64,
    pub(crate) at_ns: u64,
    pub(crate) sent_ns: u64,
}

/// State of a run.
pub(crate) struct Run {
    hello: Hello,
    /// Number of the first record not received.
    pub(crate) up_next: u64,
    /// Receipts of the last records, in order.
    receipts: VecDeque<Receipt>,
    pub(crate) down_total: Arc<AtomicU64>,
    /// Start by the server's clock.
    start_ns: Option<u64>,
    /// Number of its newest connection.
    epoch: u64,
    connection: Option<TcpStream>,
    left: Instant,
}

impl Run {
    /// A new run with the client's parameters.
    pub(super) fn new(hello: &Hello, now: Instant) -> Self {
        let total = hello.down.and_then(|f| f.total(hello.duration));
        Self {
            hello: *hello,
            // Records that the client knows to have arrived, at this server or an earlier one.
            up_next: hello.receipts_next,
            receipts: VecDeque::new(),
            down_total: Arc::new(AtomicU64::new(total.unwrap_or(OPEN))),
            start_ns: None,
            epoch: 0,
            connection: None,
            left: now,
        }
    }

    /// Records an arrival over connection `epoch`; `false` when it is out of sequence.
    pub(crate) fn record(&mut self, epoch: u64, receipt: Receipt) -> bool {
        if epoch != self.epoch || receipt.number != self.up_next {
            return false;
        }
        let Some(next) = self.up_next.checked_add(1) else {
            return false;
        };
        self.up_next = next;
        if self.receipts.len() >= MAX_RECEIPTS {
            self.receipts.pop_front();
        }
        self.receipts.push_back(receipt);
        true
    }

    pub(crate) fn receipts_from(&self, number: u64) -> Vec<Receipt> {
        let wanted = self.receipts.iter().filter(|r| r.number >= number);
        wanted.copied().collect()
    }

    /// Start time of the run, from its age as given by the client.
    pub(crate) fn start(&mut self, elapsed_ns: u64) -> u64 {
        let new = || sys::now_ns().saturating_sub(elapsed_ns);
        *self.start_ns.get_or_insert_with(new)
    }

    /// Records the end of a connection.
    pub(crate) fn left(&mut self, epoch: u64) {
        if epoch == self.epoch {
            self.connection = None;
            self.left = Instant::now();
        }
    }
}

/// Runs by identifier.
#[derive(Default)]
pub(crate) struct Runs(HashMap<[u8; 16], Arc<Mutex<Run>>>);

/// A run, and the number of this connection to it.
pub(crate) struct Taken {
    pub(crate) run: Arc<Mutex<Run>>,
    pub(crate) epoch: u64,
}

impl Runs {
    /// Returns the run that a client requests, new or known; closes its older connection.
    pub(crate) fn take(
        &mut self,
        hello: &Hello,
        connection: TcpStream,
    ) -> Result<Taken, &'static str> {
        let now = Instant::now();
        if !self.0.contains_key(&hello.run) {
            self.make_room(now)?;
        }
        let run = self
            .0
            .entry(hello.run)
            .or_insert_with(|| Arc::new(Mutex::new(Run::new(hello, now))));
        let mut known = run.lock().unwrap_or_else(PoisonError::into_inner);
        let same = (known.hello.down, known.hello.up, known.hello.duration)
            == (hello.down, hello.up, hello.duration);
        if !same {
            return Err("run identifier is in use with other parameters");
        }
        if hello.receipts_next > known.up_next {
            return Err("request for receipts that do not exist");
        }
        if let Some(old) = known.connection.replace(connection) {
            let _ = old.shutdown(Shutdown::Both);
        }
        known.epoch += 1;
        let epoch = known.epoch;
        drop(known);
        Ok(Taken {
            run: Arc::clone(run),
            epoch,
        })
    }

    fn make_room(&mut self, now: Instant) -> Result<(), &'static str> {
        let left = |run: &Arc<Mutex<Run>>| {
            let run = run.lock().unwrap_or_else(PoisonError::into_inner);
            run.connection.is_none().then_some(run.left)
        };
        self.0
            .retain(|_, run| left(run).is_none_or(|at| now - at < REMEMBERED));
        if self.0.len() < MAX_RUNS {
            return Ok(());
        }
        let oldest = self
            .0
            .iter()
            .filter_map(|(name, run)| Some((left(run)?, *name)));
        let Some((_, name)) = oldest.min() else {
            return Err("too many runs");
        };
        self.0.remove(&name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::flow::Flow;
    use super::*;

    fn hello(name: u64) -> Hello {
        let mut run = [0; 16];
        run[..8].copy_from_slice(&name.to_be_bytes());
        Hello {
            run,
            duration: Duration::from_secs(1),
            down: None,
            up: Some(Flow::bulk()),
            down_next: 0,
            receipts_next: 0,
        }
    }

    #[test]
    fn runs_and_receipts_are_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut runs = Runs::default();
        let mut take = |h: &Hello| runs.take(h, socket.try_clone().unwrap());
        let first = take(&hello(0)).unwrap();
        let receipt = |number| Receipt {
            number,
            at_ns: 2,
            sent_ns: 1,
        };
        for n in 0..10_000 {
            assert!(first.run.lock().unwrap().record(first.epoch, receipt(n)));
        }
        let kept = first.run.lock().unwrap().receipts_from(0);
        assert_eq!(
            (kept.len(), kept[0]),
            (MAX_RECEIPTS, receipt(10_000 - 4096))
        );
        // Out of turn; and what a connection says that another has taken the place of.
        assert!(!first.run.lock().unwrap().record(first.epoch, receipt(7)));
        let second = take(&hello(0)).unwrap();
        assert!(
            !first
                .run
                .lock()
                .unwrap()
                .record(first.epoch, receipt(10_000))
        );
        assert!(
            second
                .run
                .lock()
                .unwrap()
                .record(second.epoch, receipt(10_000))
        );
        let greedy = Hello {
            receipts_next: 20_000,
            ..hello(0)
        };
        assert!(take(&greedy).is_err());
        let other = Hello {
            up: None,
            down: Some(Flow::bulk()),
            ..hello(0)
        };
        assert!(take(&other).is_err());
        // All that are there have a connection: no more; one leaves, and makes room.
        let mut all: Vec<Taken> = (1..MAX_RUNS as u64)
            .map(|n| take(&hello(n)).unwrap())
            .collect();
        assert!(take(&hello(5000)).is_err());
        let leaves = all.pop().unwrap();
        leaves.run.lock().unwrap().left(leaves.epoch);
        take(&hello(5000)).map(|_| ()).unwrap();
    }
}
