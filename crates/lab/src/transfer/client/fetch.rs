//! The lab's own client, for all schemes: HTTP/1.1 over one connection.
//!
//! curl has no MPTCP sockets and, as one process for each transfer, keeps no connection. Schemes
//! that are compared need the same client. Time is taken as by curl: from before the connection is
//! opened (on a kept one, from the request) to the last byte.

use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::dial::Dial;
use super::http::{Carried, Connection};
use super::outcome::{Outcome, Progress, Receipt};
use super::subflow::used;
use crate::error::{Error, Result};
use crate::experiment::Direction;
use crate::sys::mptcp;
use crate::transfer::content::{Content, hex};
use crate::transfer::origin::Received;
use crate::transfer::watch::Watch;

/// Bytes of a warm-up: enough for every subflow to join and be used, few beside any file.
pub(crate) const WARM_UP_BYTES: u64 = 64 << 10;
/// Interval of polling the origin's counter.
const POLL: Duration = Duration::from_millis(2);

/// Client of one transfer.
pub(crate) struct Client {
    dial: Dial,
    kept: Option<Kept>,
}

/// A connection that has been warmed up.
struct Kept {
    connection: Connection,
    since: Instant,
}

/// A finished transfer, before the receiver's account of its bytes.
struct Timed {
    start: Instant,
    seconds: f64,
    connection: Connection,
    /// Subflows of an MPTCP connection at the start, by the kernel.
    before: Vec<mptcp::Subflow>,
    /// Bytes of the connection at the start.
    carried_before: Carried,
    /// Age of the connection at the start.
    opened_before_s: f64,
}

impl Client {
    /// A client without a connection.
    pub fn new(dial: Dial) -> Self {
        Self { dial, kept: None }
    }

    /// Connects, and carries [`WARM_UP_BYTES`] in `direction`.
    ///
    /// # Errors
    /// When the connection or the transfer fails.
    pub fn warm_up(
        &mut self,
        direction: Direction,
        content: &Content,
        limit: Duration,
    ) -> Result<()> {
        let (mut connection, since) = self.dial.connect(limit)?;
        carry_warm_up(&mut connection, direction, content, since + limit)?;
        self.kept = Some(Kept { connection, since });
        Ok(())
    }

    /// GETs the first `bytes` of the origin's content.
    ///
    /// # Errors
    /// When the connection breaks or `limit` passes.
    pub fn download(self, bytes: u64, limit: Duration, progress: Progress) -> Result<Outcome> {
        let mut digest = Sha256::new();
        let mut watch = None;
        let timed = self.timed(limit, |connection, start, deadline| {
            let watch = watch.insert(Watch::since(start));
            connection.get(&path_of(bytes), None, deadline, &mut |piece| {
                digest.update(piece);
                watch.saw(watch.bytes() + piece.len() as u64, Instant::now());
                progress(watch.bytes());
                Ok(())
            })?;
            Ok(())
        })?;
        let watch = watch.unwrap_or_else(|| Watch::since(timed.start));
        timed.outcome(watch.bytes(), hex(&digest.finalize()), watch)
    }

    /// PUTs the first `bytes` of `content`. Progress is that of the origin.
    ///
    /// # Errors
    /// As [`Client::download`].
    pub fn upload(
        self,
        bytes: u64,
        content: &Content,
        limit: Duration,
        received: &Received,
        progress: Progress,
    ) -> Result<Outcome> {
        let before = received.bytes();
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let mut answer = String::new();
                let timed = self.timed(limit, |connection, _, deadline| {
                    let pieces = content.pieces(bytes);
                    answer = connection.put("/upload", bytes, pieces, deadline)?;
                    Ok(())
                })?;
                Ok::<_, Error>((timed, answer))
            });
            let mut arrivals = Vec::new();
            let mut so_far = 0;
            loop {
                // Read before the counter, so that the last reading has all bytes.
                let last = sending.is_finished();
                let now = received.bytes() - before;
                if now > so_far {
                    so_far = now;
                    arrivals.push((Instant::now(), now));
                }
                progress(now);
                if last {
                    break;
                }
                std::thread::sleep(POLL);
            }
            let sent = sending.join();
            let (timed, answer) = sent.map_err(|_| Error::run("the client panicked"))??;
            let mut watch = Watch::since(timed.start);
            for (at, bytes) in arrivals {
                watch.saw(bytes, at);
            }
            let receipt = Receipt::read(&answer)?;
            timed.outcome(receipt.bytes, receipt.sha256, watch)
        })
    }

    /// Times `work` on the kept connection; on a new one, from before it is opened.
    fn timed(
        self,
        limit: Duration,
        work: impl FnOnce(&mut Connection, Instant, Instant) -> Result<()>,
    ) -> Result<Timed> {
        let (mut connection, since, start, before) = match self.kept {
            Some(Kept { connection, since }) => {
                let before = mptcp::subflows(connection.stream()).unwrap_or_default();
                (connection, since, Instant::now(), before)
            }
            None => {
                let (connection, start) = self.dial.connect(limit)?;
                (connection, start, start, Vec::new())
            }
        };
        let carried_before = connection.carried();
        work(&mut connection, start, start + limit)?;
        Ok(Timed {
            start,
            seconds: start.elapsed().as_secs_f64(),
            connection,
            before,
            carried_before,
            opened_before_s: (start - since).as_secs_f64(),
        })
    }
}

impl Timed {
    fn outcome(self, bytes: u64, sha256: String, watch: Watch) -> Result<Outcome> {
        let first_byte = self.connection.first_byte().unwrap_or(self.start);
        let after = mptcp::subflows(self.connection.stream()).unwrap_or_default();
        let now_s = self.start.elapsed().as_secs_f64();
        let used = used(&self.before, &after, now_s);
        // Bytes of the subflows beyond those of the connection.
        let by_subflows: u64 = used.iter().map(|u| u.bytes_in + u.bytes_out).sum();
        let both_ways = |c: Carried| c.bytes_in + c.bytes_out;
        let all = both_ways(self.connection.carried()) - both_ways(self.carried_before);
        let redundant = (!used.is_empty()).then(|| by_subflows.saturating_sub(all));
        Ok(Outcome {
            bytes,
            sha256,
            seconds: self.seconds,
            first_byte_s: (first_byte - self.start).as_secs_f64(),
            longest_stall: watch.longest(),
            series: watch.into_series(),
            redundant_bytes: redundant,
            used,
            opened_before_s: self.opened_before_s,
            ..Outcome::default()
        })
    }
}

/// Carries a warm-up.
pub(crate) fn carry_warm_up(
    connection: &mut Connection,
    direction: Direction,
    content: &Content,
    deadline: Instant,
) -> Result<()> {
    match direction {
        Direction::Down => {
            connection.get(&path_of(WARM_UP_BYTES), None, deadline, &mut |_| Ok(()))?;
        }
        Direction::Up => {
            let pieces = content.pieces(WARM_UP_BYTES);
            connection.put("/upload", WARM_UP_BYTES, pieces, deadline)?;
        }
    }
    Ok(())
}

/// Path of `bytes` of content at the origin.
pub(crate) fn path_of(bytes: u64) -> String {
    format!("/bytes/{bytes}")
}
