//! Small messages, requested at a constant rate, beside a download that takes all it can get.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use mpbond_statistics::Sample;

use super::ran::{Noticed, Ran, Setting, fetch_object, used};
use super::timed::download_until;
use crate::error::{Error, Result};
use crate::experiment::{Connection as Connecting, Messages};
use crate::transfer::client::{Connection, Dial, Progress};

use crate::figures::quantity::Quantity;
use crate::record::MessageTimes;
use crate::transfer::watch::Watch;

/// Requests a message when it is due and the one before has arrived, and downloads meanwhile. The
/// time of a message runs from its request to its last byte, with the handshake of a connection of
/// its own.
pub(super) fn exchange(messages: &Messages, setting: &Setting, progress: Progress) -> Result<Ran> {
    let own = setting.dial.of_class(messages.class);
    // A kept connection is opened before the clock starts.
    let kept = match messages.connection {
        Connecting::Kept => Some(own.connect(setting.limit)?.0),
        Connecting::New => None,
    };
    let dial = || setting.dial.connect(setting.limit);
    let bulk = messages.bulk.then(dial).transpose()?;
    let start = bulk.as_ref().map_or_else(Instant::now, |(_, start)| *start);
    let end = start + messages.length;
    let watch = Mutex::new(Watch::since(start));
    let (mut bulk_bytes, mut intact) = (0, true);
    let mut bulk = bulk.map(|(connection, _)| connection);
    let ran: Result<Vec<Message>> = std::thread::scope(|scope| {
        let asking = scope.spawn(|| all(messages, setting, &own, kept, start, &watch));
        let downloaded = bulk.as_mut().map(|connection| {
            let mut arrived = |more| {
                bulk_bytes += more;
                progress(saw(&watch, more));
                true
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
    let seconds = ran.iter().map(|message| message.seconds).collect();
    let sent = ran
        .iter()
        .map(|m| (m.due, Duration::from_secs_f64(m.seconds)));
    let times = MessageTimes::of(messages.due(), sent);
    let noticed = quantities(messages, &seconds, bulk_bytes);
    let watch = watch.into_inner();
    Ok(Ran {
        watch: watch.map_err(|_| Error::run("a connection's thread panicked"))?,
        intact,
        noticed,
        messages: times,
        used: bulk.map_or_else(Vec::new, |connection| used(&connection, start)),
    })
}

/// Quantities of messages that took these times, beside a download of so many bytes.
pub(crate) fn quantities(messages: &Messages, seconds: &Sample, bulk_bytes: u64) -> Noticed {
    let mut noticed = Noticed::new();
    for (quantity, share) in [
        (Quantity::MessageS, 0.5),
        (Quantity::MessageP95S, 0.95),
        (Quantity::MessageMaxS, 1.0),
    ] {
        noticed.extend(seconds.quantile(share).map(|s| (quantity, s)));
    }
    if messages.bulk {
        let mbps = bulk_bytes as f64 * 8e-6 / messages.length.as_secs_f64();
        noticed.insert(Quantity::BulkMbps, mbps);
    }
    noticed
}

/// Result of one message.
struct Message {
    /// When it was due, since the start.
    due: Duration,
    seconds: f64,
    intact: bool,
}

/// Requests all messages, one after the other. The first is due when the download has begun; none
/// is due at the end or later.
fn all(
    messages: &Messages,
    setting: &Setting,
    dial: &Dial,
    mut kept: Option<Connection>,
    start: Instant,
    watch: &Mutex<Watch>,
) -> Result<Vec<Message>> {
    let deadline = start + setting.limit;
    let mut ran = Vec::new();
    let first = messages.first_due();
    let mut due = first;
    while due < messages.length {
        std::thread::sleep((start + due).saturating_duration_since(Instant::now()));
        let asked = Instant::now();
        let mut anew;
        let connection = match &mut kept {
            Some(connection) => connection,
            None => {
                anew = dial.connect(setting.limit)?.0;
                &mut anew
            }
        };
        let mut arrived = |more| {
            saw(watch, more);
        };
        let bytes = messages.bytes.0;
        let intact = fetch_object(connection, setting.content, bytes, deadline, &mut arrived)?;
        let seconds = asked.elapsed().as_secs_f64();
        ran.push(Message {
            due,
            seconds,
            intact,
        });
        due = next_due((first, messages.every), start.elapsed());
    }
    Ok(ran)
}

/// Due time of the next message: the first one that is not past, in steps of `every` from `first`.
fn next_due((first, every): (Duration, Duration), now: Duration) -> Duration {
    let past = now.saturating_sub(first).as_nanos();
    let steps = past.div_ceil(every.as_nanos().max(1));
    first + every * u32::try_from(steps).unwrap_or(u32::MAX)
}

/// Adds bytes, and returns their total.
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
    fn past_messages_are_left_out() {
        const MS: fn(u64) -> Duration = Duration::from_millis;
        for (now, next) in [(0, 200), (200, 200), (201, 400), (930, 1000)] {
            let due = next_due((MS(200), MS(200)), MS(now));
            assert_eq!(due, MS(next), "at {now} ms");
        }
        for (now, next) in [(340, 350), (351, 550), (930, 950)] {
            let due = next_due((MS(350), MS(200)), MS(now));
            assert_eq!(due, MS(next), "at {now} ms, from 350 ms on");
        }
    }
}
