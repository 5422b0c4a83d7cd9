//! A page of many objects, over as many connections to each of its hosts as a
//! browser opens.

pub(crate) mod har;
pub(crate) mod list;
mod order;

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::{Noticed, Ran, Setting, fetch_object};
use crate::client::Progress;
use crate::error::{Error, Result};
use crate::experiment::Page;
use crate::quantity::Quantity;
use crate::watch::Watch;
use order::{Next, Order};

/// One object of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageObject {
    /// Its size.
    pub bytes: u64,
    /// Which host has it, counting from 0. All are the lab's one origin; each
    /// has connections of its own.
    pub host: usize,
    /// When it is asked for.
    pub begins: Begins,
}

/// When an object of a page is asked for, at the earliest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begins {
    /// So long after the page's start.
    At(Duration),
    /// So long after this object (counting from 0) is there.
    After {
        /// Which one.
        object: usize,
        /// How long: what a browser does with it first.
        delay: Duration,
    },
}

/// Where the connections stand.
struct Work {
    order: Order,
    watch: Watch,
    intact: bool,
    /// A connection failed: the others need not go on.
    failed: bool,
}

/// What the connections' threads share.
struct Shared<'a> {
    setting: &'a Setting<'a>,
    start: Instant,
    work: Mutex<Work>,
    changed: Condvar,
}

/// Loads the page to its last byte.
pub(super) fn load(page: &Page, setting: &Setting, progress: Progress) -> Result<Ran> {
    let start = Instant::now();
    let order = Order::new(page.plan());
    let hosts = order.objects_by_host();
    let shared = Shared {
        setting,
        start,
        work: Mutex::new(Work {
            order,
            watch: Watch::since(start),
            intact: true,
            failed: false,
        }),
        changed: Condvar::new(),
    };
    let ran: Result<()> = std::thread::scope(|scope| {
        let shared = &shared;
        let connections = hosts.iter().enumerate().flat_map(|(host, objects)| {
            let count = page.connections.min(*objects);
            (0..count).map(move |_| scope.spawn(move || shared.connection_to(host)))
        });
        let connections: Vec<_> = connections.collect();
        connections.into_iter().try_for_each(|connection| {
            let ended = connection.join();
            ended.map_err(|_| panicked())?
        })
    });
    ran?;
    let work = shared.work.into_inner().map_err(|_| panicked())?;
    progress(work.watch.bytes());
    let noticed = Noticed::from([(Quantity::PageS, start.elapsed().as_secs_f64())]);
    Ok(Ran {
        watch: work.watch,
        intact: work.intact,
        noticed,
        used: Vec::new(),
    })
}

impl Shared<'_> {
    /// A connection to `host`, made when it is first needed: objects one after
    /// the other, until none is left.
    fn connection_to(&self, host: usize) -> Result<()> {
        let fetched = self.fetch_all(host);
        if fetched.is_err() {
            if let Ok(mut work) = self.work.lock() {
                work.failed = true;
            }
            self.changed.notify_all();
        }
        fetched
    }

    fn fetch_all(&self, host: usize) -> Result<()> {
        let limit = self.setting.limit;
        let deadline = self.start + limit;
        let mut connection = None;
        while let Some((object, bytes)) = self.next(host)? {
            let connection = match &mut connection {
                Some(connection) => connection,
                none => none.insert(self.setting.dial.connect(limit)?.0),
            };
            let mut arrived = |more| {
                if let Ok(mut work) = self.work.lock() {
                    let so_far = work.watch.bytes();
                    work.watch.saw(so_far + more, Instant::now());
                }
            };
            let content = self.setting.content;
            let intact = fetch_object(connection, content, bytes, deadline, &mut arrived)?;
            let mut work = self.locked()?;
            work.intact &= intact;
            work.order.finished(object, self.start.elapsed());
            drop(work);
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Waits for an object of `host` to be fetched; which one, and its bytes.
    /// None when all are, or are on their way.
    fn next(&self, host: usize) -> Result<Option<(usize, u64)>> {
        let mut work = self.locked()?;
        loop {
            if work.failed {
                return Ok(None);
            }
            let now = self.start.elapsed();
            let at = match work.order.next(host, now) {
                Next::Fetch { object, bytes } => return Ok(Some((object, bytes))),
                Next::Done => return Ok(None),
                Next::Wait(at) => at,
            };
            // Without an instant to wait for, something else has to come first.
            let pause = at.map_or(self.setting.limit, |at| at.saturating_sub(now));
            let waited = self.changed.wait_timeout(work, pause);
            work = waited.map_err(|_| panicked())?.0;
            if self.start.elapsed() > self.setting.limit {
                return Err(Error::run("the page was not loaded in time"));
            }
        }
    }

    fn locked(&self) -> Result<MutexGuard<'_, Work>> {
        self.work.lock().map_err(|_| panicked())
    }
}

fn panicked() -> Error {
    Error::run("a connection's thread panicked")
}
