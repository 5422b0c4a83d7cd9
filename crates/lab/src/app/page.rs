//! A page of many objects, over as many connections as a browser opens.

use std::sync::Mutex;
use std::time::Instant;

use super::{Noticed, Ran, Setting, fetch_object};
use crate::client::Progress;
use crate::error::{Error, Result};
use crate::experiment::{Page, Size};
use crate::fetch::Connection;
use crate::quantity::Quantity;
use crate::watch::Watch;

/// Where the workers stand.
struct Work<'a> {
    waiting: std::slice::Iter<'a, Size>,
    watch: Watch,
    intact: bool,
}

/// Loads the page to its last byte.
pub(super) fn load(page: &Page, setting: &Setting, progress: Progress) -> Result<Ran> {
    let (mut first, start) = setting.dial.connect(setting.limit)?;
    let deadline = start + setting.limit;
    let work = Mutex::new(Work {
        waiting: page.objects.iter(),
        watch: Watch::since(start),
        intact: true,
    });
    // What else there is, the page itself tells.
    one_object(&mut first, setting, deadline, &work)?;
    let ran: Result<()> = std::thread::scope(|scope| {
        let others = page.connections.min(page.objects.len().saturating_sub(1));
        let work = &work;
        let mut workers = vec![scope.spawn(move || all(&mut first, setting, deadline, work))];
        for _ in 1..others {
            workers.push(scope.spawn(move || {
                let (mut connection, _) = setting.dial.connect(setting.limit)?;
                all(&mut connection, setting, deadline, work)
            }));
        }
        workers.into_iter().try_for_each(|worker| {
            let ended = worker.join();
            ended.map_err(|_| Error::run("a connection's thread panicked"))?
        })
    });
    ran?;
    let work = work
        .into_inner()
        .map_err(|_| Error::run("a connection's thread panicked"))?;
    progress(work.watch.bytes());
    let noticed = Noticed::from([(Quantity::PageS, start.elapsed().as_secs_f64())]);
    Ok(Ran {
        watch: work.watch,
        intact: work.intact,
        noticed,
        used: Vec::new(),
    })
}

/// Objects one after the other, until none waits.
fn all(
    connection: &mut Connection,
    setting: &Setting,
    deadline: Instant,
    work: &Mutex<Work>,
) -> Result<()> {
    while one_object(connection, setting, deadline, work)? {}
    Ok(())
}

fn one_object(
    connection: &mut Connection,
    setting: &Setting,
    deadline: Instant,
    work: &Mutex<Work>,
) -> Result<bool> {
    let locked = || {
        work.lock()
            .map_err(|_| Error::run("another connection failed"))
    };
    let Some(bytes) = locked()?.waiting.next().map(|size| size.0) else {
        return Ok(false);
    };
    let mut arrived = |more| {
        if let Ok(mut work) = work.lock() {
            let so_far = work.watch.bytes();
            work.watch.saw(so_far + more, Instant::now());
        }
    };
    let intact = fetch_object(connection, setting.content, bytes, deadline, &mut arrived)?;
    let mut work = locked()?;
    work.intact &= intact;
    Ok(true)
}
