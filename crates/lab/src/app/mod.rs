//! What applications do over the links beside plain transfers, and what their
//! users notice of it.

pub(crate) mod chunks;
mod messages;
mod meter;
pub(crate) mod page;
mod stream;
mod timed;
mod video;
pub mod video_player;

pub(crate) use stream::{STAMP_BYTES, stamp};

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use crate::client::{Outcome, Progress};
use crate::content::Content;
use crate::error::Result;
use crate::experiment::Application;
use crate::fetch::{Connection, Dial, path_of};
use crate::kibbutz::{self, Used};
use crate::quantity::Quantity;
use crate::sys::mptcp;
use crate::watch::Watch;

/// What an application runs with.
pub(crate) struct Setting<'a> {
    pub dial: &'a Dial,
    pub content: &'a Content,
    /// The experiment's.
    pub seed: u64,
    /// It has to be through by then.
    pub limit: Duration,
}

/// What the user noticed.
type Noticed = BTreeMap<Quantity, f64>;

/// What was fetched, and what the user noticed.
struct Ran {
    watch: Watch,
    /// Every byte was the right one.
    intact: bool,
    noticed: Noticed,
    /// What each subflow of Multipath TCP carried; of a page, with its many
    /// connections, nobody asks.
    used: Vec<Used>,
}

/// What the subflows of a connection, made at `start`, carried until now.
fn used(connection: &Connection, start: Instant) -> Vec<Used> {
    let subflows = mptcp::subflows(connection.stream()).unwrap_or_default();
    kibbutz::used(&[], &subflows, start.elapsed().as_secs_f64())
}

/// Runs the application to its end.
///
/// # Errors
/// When a connection fails or the limit passes.
pub(crate) fn run(app: Application, setting: &Setting, progress: Progress) -> Result<Outcome> {
    let start = Instant::now();
    let ran = match app {
        Application::Video(video) => video::watch(video, setting, progress)?,
        Application::Page(page) => page::load(page, setting, progress)?,
        Application::Stream(stream) => stream::listen(stream, setting, progress)?,
        Application::Chunks(chunks) => chunks::fetch(chunks, setting, progress)?,
        Application::Messages(messages) => messages::exchange(messages, setting, progress)?,
        Application::Timed(length) => timed::fetch(length, setting, progress)?,
    };
    let seconds = start.elapsed().as_secs_f64();
    Ok(Outcome {
        bytes: ran.watch.bytes(),
        seconds,
        first_byte_s: ran.watch.first_s().unwrap_or(seconds),
        longest_stall: ran.watch.longest(),
        intact: Some(ran.intact),
        noticed: ran.noticed,
        used: ran.used,
        series: ran.watch.into_series(),
        ..Outcome::default()
    })
}

/// One object of the origin's content, compared with it as it comes; says
/// whether every byte was right.
fn fetch_object(
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

/// Mean and 95th percentile (nearest rank) of some figures; none of none.
pub(crate) fn mean_and_p95(mut figures: Vec<f64>) -> Option<(f64, f64)> {
    figures.sort_by(f64::total_cmp);
    let mean = figures.iter().sum::<f64>() / figures.len().max(1) as f64;
    Some((mean, nearest_rank(&figures, 0.95)?))
}

/// The figure, of some in rising order, that `share` of them do not exceed;
/// none of none.
fn nearest_rank(rising: &[f64], share: f64) -> Option<f64> {
    let rank = (share * rising.len() as f64).ceil() as usize;
    rising.get(rank.checked_sub(1)?).copied()
}
