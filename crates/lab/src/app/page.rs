//! Loading a page over a browser's number of connections to each host.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use mpbond_sim::application::page::{Next, Order};

use super::ran::{Noticed, Ran, Setting, fetch_object};
use crate::client::Progress;
use crate::error::{Error, Result};
use crate::experiment::Page;
use crate::quantity::Quantity;
use crate::watch::Watch;

/// Common state of the connections.
struct Work {
    order: Order,
    watch: Watch,
    intact: bool,
    /// Whether a connection has failed, which ends the others.
    failed: bool,
}

/// Data shared by the threads of the connections.
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
    let noticed = quantities(start.elapsed());
    Ok(Ran {
        watch: work.watch,
        intact: work.intact,
        noticed,
        used: Vec::new(),
    })
}

/// Quantities of a page that took this long.
pub(crate) fn quantities(took: Duration) -> Noticed {
    Noticed::from([(Quantity::PageS, took.as_secs_f64())])
}

impl Shared<'_> {
    /// Runs a connection to `host`, opened when it is first needed, until no object is left.
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

    /// Waits until an object of `host` may be fetched, and returns its number and size. `None` when
    /// all are fetched or in flight.
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
            // Without a known instant, another object has to arrive first.
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
