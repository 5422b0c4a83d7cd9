//! Streams by destination: their bytes on each path, and their rates.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Serialize;

use super::paths::{Bytes, down_up};
use super::rates::{Rate, between};
use crate::status::{Status, Transfer};

/// Destinations that are shown; the number of the others is told.
const SHOWN: usize = 200;

/// Streams by destination.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Streams {
    /// Open streams of all sessions.
    pub open: u64,
    /// Whether the daemon withholds destinations from this user.
    pub withheld: bool,
    pub groups: Vec<StreamGroup>,
    /// Destinations that are not in `groups`.
    pub more: usize,
}

/// Streams that lead to one destination in one class.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct StreamGroup {
    pub destination: String,
    pub class: String,
    pub open: u64,
    pub closed: u64,
    pub down_bytes: u64,
    pub up_bytes: u64,
    pub rate: Rate,
    /// Bytes in both directions by path.
    pub paths: Vec<(String, u64)>,
}

/// The last counters of open streams.
#[derive(Debug, Default)]
pub(super) struct StreamRates {
    counters: HashMap<u64, Bytes>,
    rates: HashMap<u64, Rate>,
}

impl StreamRates {
    /// Takes the counters `span` seconds after the last ones.
    pub fn take(&mut self, status: &Status, span: Option<f64>) {
        self.rates.clear();
        let mut counters = HashMap::with_capacity(self.counters.len());
        for stream in &status.transfers {
            let (key, now) = (key(stream), bytes(status, stream));
            let before = self.counters.get(&key);
            // What has been closed before does not move.
            if stream.state != "open" && before.is_none() {
                continue;
            }
            let rate = before
                .zip(span)
                .and_then(|(b, span)| between(*b, now, span));
            if let Some(rate) = rate.filter(|rate| rate.sum() > 0.0) {
                self.rates.insert(key, rate);
            }
            if stream.state == "open" {
                counters.insert(key, now);
            }
        }
        self.counters = counters;
    }

    /// Forgets counters: the next ones are not compared with them.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// The streams by destination and class: those with open ones first, by bytes, then the others,
    /// newest first.
    pub fn view(&self, status: &Status) -> Streams {
        let mut groups: Vec<StreamGroup> = Vec::new();
        let mut known: HashMap<(&str, &str), usize> = HashMap::new();
        for stream in status.transfers.iter().rev() {
            let name = (stream.destination.as_str(), stream.class.as_str());
            let at = *known.entry(name).or_insert_with(|| {
                groups.push(StreamGroup {
                    destination: stream.destination.clone(),
                    class: stream.class.clone(),
                    ..StreamGroup::default()
                });
                groups.len() - 1
            });
            self.add(&mut groups[at], status, stream);
        }
        // Stable: among closed ones the newest stay first.
        groups.sort_by_key(|g| {
            let bytes = g.down_bytes.saturating_add(g.up_bytes);
            std::cmp::Reverse(if g.open > 0 {
                (true, bytes)
            } else {
                (false, 0)
            })
        });
        let more = groups.len().saturating_sub(SHOWN);
        groups.truncate(SHOWN);
        for group in &mut groups {
            group
                .paths
                .sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        }
        Streams {
            open: status
                .sessions
                .iter()
                .map(|s| s.streams_open)
                .fold(0, u64::saturating_add),
            withheld: status.transfers_withheld,
            groups,
            more,
        }
    }

    fn add(&self, group: &mut StreamGroup, status: &Status, stream: &Transfer) {
        if stream.state == "open" {
            group.open += 1;
        } else {
            group.closed += 1;
        }
        let Bytes { down, up } = bytes(status, stream);
        group.down_bytes = group.down_bytes.saturating_add(down);
        group.up_bytes = group.up_bytes.saturating_add(up);
        if let Some(rate) = self.rates.get(&key(stream)) {
            group.rate += *rate;
        }
        for share in &stream.subflows {
            let bytes = share.bytes_in.saturating_add(share.bytes_out);
            match group.paths.iter_mut().find(|(name, _)| *name == share.name) {
                Some((_, sum)) => *sum = sum.saturating_add(bytes),
                None => group.paths.push((share.name.clone(), bytes)),
            }
        }
    }
}

fn bytes(status: &Status, stream: &Transfer) -> Bytes {
    down_up(&status.role, stream.bytes_in, stream.bytes_out)
}

/// Number of a stream, unlikely to be another's: sessions are told apart by a hash.
fn key(stream: &Transfer) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&stream.session, stream.stream).hash(&mut hasher);
    hasher.finish()
}
