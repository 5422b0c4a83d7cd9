//! Loading a page over a browser's number of connections to each host, alone or beside a download.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use mpbond_sim::application::page::{Next, Order};

use super::ran::{Noticed, Ran, Setting, fetch_object};
use super::timed::download_until;
use crate::error::{Error, Result};
use crate::experiment::Page;
use crate::figures::quantity::Quantity;
use crate::record::MessageTimes;
use crate::transfer::client::Progress;
use crate::transfer::watch::Watch;

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
    work: &'a Mutex<Work>,
    changed: Condvar,
}

/// Loads the page to its last byte. Ends the download beside it then.
pub(super) fn load(page: &Page, setting: &Setting, progress: Progress) -> Result<Ran> {
    let dial = || setting.dial.connect(setting.limit);
    let mut bulk = page.bulk.then(dial).transpose()?;
    let begun = bulk.as_ref().map_or_else(Instant::now, |(_, start)| *start);
    let work = Mutex::new(Work {
        order: Order::new(page.plan()),
        watch: Watch::since(begun),
        intact: true,
        failed: false,
    });
    let is_over = AtomicBool::new(false);
    let ran: Result<(Duration, Option<u64>)> = std::thread::scope(|scope| {
        let (work, is_over) = (&work, &is_over);
        let downloading = bulk.as_mut().map(|(connection, _)| {
            scope.spawn(move || {
                let mut bytes = 0;
                let mut arrived = |more| {
                    saw(work, more);
                    bytes += more;
                    !is_over.load(Ordering::Relaxed)
                };
                // The page has failed by then.
                let end = begun + page.ahead() + setting.limit;
                let intact = download_until(connection, setting.content, end, &mut arrived)?;
                if !is_over.load(Ordering::Relaxed) {
                    return Err(Error::run("the download ended before the page beside it"));
                }
                Ok((intact && bytes > 0, bytes))
            })
        });
        std::thread::sleep((begun + page.ahead()).saturating_duration_since(Instant::now()));
        let start = Instant::now();
        let loaded = load_alone(page, setting, start, work);
        let took = start.elapsed();
        is_over.store(true, Ordering::Relaxed);
        let mut bulk_bytes = None;
        if let Some(downloading) = downloading {
            let (intact, bytes) = downloading.join().map_err(|_| panicked())??;
            work.lock().map_err(|_| panicked())?.intact &= intact;
            bulk_bytes = Some(bytes);
        }
        loaded.map(|()| (took, bulk_bytes))
    });
    let (took, bulk_bytes) = ran?;
    let downloaded = bulk_bytes.map(|bytes| (bytes, begun.elapsed()));
    let work = work.into_inner().map_err(|_| panicked())?;
    progress(work.watch.bytes());
    Ok(Ran {
        watch: work.watch,
        intact: work.intact,
        noticed: quantities(took, downloaded),
        used: Vec::new(),
        messages: MessageTimes::default(),
    })
}

/// Loads the page to its last byte.
fn load_alone(page: &Page, setting: &Setting, start: Instant, work: &Mutex<Work>) -> Result<()> {
    let hosts = Order::new(page.plan()).objects_by_host();
    let shared = Shared {
        setting,
        start,
        work,
        changed: Condvar::new(),
    };
    std::thread::scope(|scope| {
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
    })
}

/// Adds bytes that have arrived.
fn saw(work: &Mutex<Work>, more: u64) {
    if let Ok(mut work) = work.lock() {
        let so_far = work.watch.bytes();
        work.watch.saw(so_far + more, Instant::now());
    }
}

/// Quantities of a page that took this long, and of the download beside it: its bytes, and the time
/// for which it ran.
pub(crate) fn quantities(took: Duration, bulk: Option<(u64, Duration)>) -> Noticed {
    let mut noticed = Noticed::from([(Quantity::PageS, took.as_secs_f64())]);
    if let Some((bytes, ran)) = bulk {
        let mbps = bytes as f64 * 8e-6 / ran.as_secs_f64();
        noticed.insert(Quantity::BulkMbps, mbps);
    }
    noticed
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
            let mut arrived = |more| saw(self.work, more);
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
