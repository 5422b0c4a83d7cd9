//! Small messages, asked for at a steady pace, beside a download that takes
//! what it can get.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::timed::download_until;
use super::{Noticed, Ran, Setting, fetch_object, nearest_rank, used};
use crate::client::Progress;
use crate::error::{Error, Result};
use crate::experiment::{Connection as Connecting, Messages};
use crate::fetch::Connection;
use crate::quantity::Quantity;
use crate::watch::Watch;

/// Asks for a message when one is due and the one before is there, and
/// downloads meanwhile. A message's time is from asking to its last byte, with
/// the making of a connection of its own.
pub(super) fn exchange(messages: &Messages, setting: &Setting, progress: Progress) -> Result<Ran> {
    let dial = || setting.dial.connect(setting.limit);
    // A connection that is kept is there before anything is timed.
    let kept = match messages.connection {
        Connecting::Kept => Some(dial()?.0),
        Connecting::New => None,
    };
    let bulk = messages.bulk.then(dial).transpose()?;
    let start = bulk.as_ref().map_or_else(Instant::now, |(_, start)| *start);
    let end = start + messages.length;
    let watch = Mutex::new(Watch::since(start));
    let (mut bulk_bytes, mut intact) = (0, true);
    let mut bulk = bulk.map(|(connection, _)| connection);
    let ran: Result<Vec<Message>> = std::thread::scope(|scope| {
        let asking = scope.spawn(|| all(messages, setting, kept, start, &watch));
        let downloaded = bulk.as_mut().map(|connection| {
            let mut arrived = |more| {
                bulk_bytes += more;
                progress(saw(&watch, more));
            };
            download_until(connection, setting.content, end, &mut arrived)
        });
        let asked = asking.join();
        let asked = asked.map_err(|_| Error::run("the messages' thread panicked"))?;
        if let Some(right) = downloaded.transpose()? {
            intact = right && bulk_bytes > 0;
        }
        asked
    });
    let ran = ran?;
    intact &= ran.iter().all(|message| message.intact);
    let mut seconds: Vec<f64> = ran.iter().map(|message| message.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let mut noticed = Noticed::new();
    for (quantity, share) in [
        (Quantity::MessageS, 0.5),
        (Quantity::MessageP95S, 0.95),
        (Quantity::MessageMaxS, 1.0),
    ] {
        noticed.extend(nearest_rank(&seconds, share).map(|s| (quantity, s)));
    }
    if messages.bulk {
        let mbps = bulk_bytes as f64 * 8e-6 / messages.length.as_secs_f64();
        noticed.insert(Quantity::BulkMbps, mbps);
    }
    let watch = watch.into_inner();
    Ok(Ran {
        watch: watch.map_err(|_| Error::run("a connection's thread panicked"))?,
        intact,
        noticed,
        used: bulk.map_or_else(Vec::new, |connection| used(&connection, start)),
    })
}

/// How one message went.
struct Message {
    seconds: f64,
    intact: bool,
}

/// All messages, one after the other. The first is due after a pause, so that
/// the download has begun, and none at the end or later.
fn all(
    messages: &Messages,
    setting: &Setting,
    mut kept: Option<Connection>,
    start: Instant,
    watch: &Mutex<Watch>,
) -> Result<Vec<Message>> {
    let deadline = start + setting.limit;
    let mut ran = Vec::new();
    let mut due = messages.every;
    while due < messages.length {
        std::thread::sleep((start + due).saturating_duration_since(Instant::now()));
        let asked = Instant::now();
        let mut anew;
        let connection = match &mut kept {
            Some(connection) => connection,
            None => {
                anew = setting.dial.connect(setting.limit)?.0;
                &mut anew
            }
        };
        let mut arrived = |more| {
            saw(watch, more);
        };
        let bytes = messages.bytes.0;
        let intact = fetch_object(connection, setting.content, bytes, deadline, &mut arrived)?;
        let seconds = asked.elapsed().as_secs_f64();
        ran.push(Message { seconds, intact });
        due = next_due(messages.every, start.elapsed());
    }
    Ok(ran)
}

/// When the next one is due, so long after the start: at the first multiple of
/// `every` that is not yet past.
fn next_due(every: Duration, now: Duration) -> Duration {
    let steps = now.as_nanos().div_ceil(every.as_nanos().max(1));
    every * u32::try_from(steps).unwrap_or(u32::MAX)
}

/// Counts what has come, and says how much that is in all.
fn saw(watch: &Mutex<Watch>, more: u64) -> u64 {
    let Ok(mut watch) = watch.lock() else {
        return 0;
    };
    let so_far = watch.bytes() + more;
    watch.saw(so_far, Instant::now());
    so_far
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_past_is_left_out() {
        const MS: fn(u64) -> Duration = Duration::from_millis;
        for (now, next) in [(0, 0), (1, 200), (200, 200), (201, 400), (930, 1000)] {
            assert_eq!(next_due(MS(200), MS(now)), MS(next), "at {now} ms");
        }
    }
}
