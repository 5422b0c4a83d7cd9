//! Parts shared by all applications: setting, fetching one object, result.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use mpbond_statistics::Sample;

use crate::error::Result;
use crate::figures::quantity::Quantity;
use crate::record::MessageTimes;
use crate::sys::mptcp;
use crate::transfer::client::{self, Connection, Dial, Progress, Used, path_of};
use crate::transfer::content::Content;
use crate::transfer::watch::Watch;

/// Setting of an application.
pub(crate) struct Setting<'a> {
    pub dial: &'a Dial,
    pub content: &'a Content,
    /// Seed of the repetition.
    pub seed: u64,
    /// Number of the user, from 0.
    pub user: u32,
    /// Time limit.
    pub limit: Duration,
}

/// Quantities of an application.
pub(crate) type Noticed = BTreeMap<Quantity, f64>;

/// Result of an application.
pub(super) struct Ran {
    pub watch: Watch,
    /// Whether every byte was right.
    pub intact: bool,
    pub noticed: Noticed,
    /// Times of messages.
    pub messages: MessageTimes,
    /// Bytes of each subflow of Multipath TCP; empty for a page with its many connections.
    pub used: Vec<Used>,
}

/// Bytes of the subflows of a connection since it was opened at `start`.
pub(super) fn used(connection: &Connection, start: Instant) -> Vec<Used> {
    let subflows = mptcp::subflows(connection.stream()).unwrap_or_default();
    client::used(&[], &subflows, start.elapsed().as_secs_f64())
}

/// Fetches one object of the origin's content and compares it; returns whether every byte was
/// right.
pub(super) fn fetch_object(
    connection: &mut Connection,
    content: &Content,
    bytes: u64,
    deadline: Instant,
    arrived: &mut dyn FnMut(u64),
) -> Result<bool> {
    let mut at = 0;
    let mut intact = true;
    connection.get(&path_of(bytes), None, deadline, &mut |mut piece| {
        arrived(piece.len() as u64);
        while !piece.is_empty() {
            let right = content.piece(at, piece.len() as u64);
            let (now, later) = piece.split_at(right.len());
            intact &= now == right;
            at += right.len() as u64;
            piece = later;
        }
        io::Result::Ok(())
    })?;
    Ok(intact && at == bytes)
}

/// The same; counts the bytes in `watch`, and reports their number to `progress`.
pub(super) fn fetch_watched(
    connection: &mut Connection,
    (content, bytes): (&Content, u64),
    deadline: Instant,
    watch: &mut Watch,
    progress: Progress,
) -> Result<bool> {
    fetch_object(connection, content, bytes, deadline, &mut |more| {
        watch.saw(watch.bytes() + more, Instant::now());
        progress(watch.bytes());
    })
}

/// Mean and 95th percentile; `None` without values.
pub(crate) fn mean_and_p95(values: Vec<f64>) -> Option<(f64, f64)> {
    let sample = Sample::new(values);
    Some((sample.mean()?, sample.quantile(0.95)?))
}
