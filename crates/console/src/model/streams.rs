//! Streams by destination: their bytes on each path, and their rates.

use std::collections::HashMap;

use serde::Serialize;

use super::paths::{Bytes, down_up};
use super::rates::{Rate, between};
use crate::status::{Status, Transfer, Waiting};

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
    /// New connections that wait, those that came first.
    pub waiting: Vec<Waiting>,
    /// The number of all of them.
    pub waiting_count: u64,
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
    counters: HashMap<Key, Bytes>,
    /// Of those that move.
    rates: HashMap<Key, Rate>,
}

/// Hash of a session's id, and number of a stream.
type Key = (u64, u64);

impl StreamRates {
    /// Takes the counters `span` seconds after the last ones.
    pub fn take(&mut self, status: &Status, span: Option<f64>) {
        self.rates.clear();
        let mut counters = HashMap::with_capacity(self.counters.len());
        for stream in &status.transfers {
            let (key, now) = (key(stream), bytes(status, stream));
            let before = self.counters.get(&key);
            // What has been closed before does not move.
            if !stream.is_open && before.is_none() {
                continue;
            }
            let rate = before
                .zip(span)
                .and_then(|(b, span)| between(*b, now, span));
            if let Some(rate) = rate.filter(|rate| rate.sum() > 0.0) {
                self.rates.insert(key, rate);
            }
            if stream.is_open {
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
        let mut sums: Vec<Sum<'_>> = Vec::new();
        let mut known = HashMap::new();
        for stream in status.transfers.iter().rev() {
            let name = (stream.destination.as_str(), stream.class.as_str());
            let at = *known.entry(name).or_insert_with(|| {
                sums.push(Sum {
                    name,
                    ..Sum::default()
                });
                sums.len() - 1
            });
            let Bytes { down, up } = bytes(status, stream);
            sums[at].is_open |= stream.is_open;
            sums[at].bytes = sums[at].bytes.saturating_add(down).saturating_add(up);
        }
        // Stable: among closed ones the newest stay first.
        sums.sort_by_key(|s| std::cmp::Reverse((s.is_open, if s.is_open { s.bytes } else { 0 })));
        let more = sums.len().saturating_sub(SHOWN);
        sums.truncate(SHOWN);
        Streams {
            open: status
                .sessions
                .iter()
                .map(|s| s.streams_open)
                .fold(0, u64::saturating_add),
            withheld: status.transfers_withheld,
            groups: self.groups(status, &sums),
            more,
            waiting: status.waiting.clone(),
            waiting_count: status.waiting_count,
        }
    }

    fn groups(&self, status: &Status, sums: &[Sum<'_>]) -> Vec<StreamGroup> {
        let group = |sum: &Sum<'_>| StreamGroup {
            destination: sum.name.0.to_owned(),
            class: sum.name.1.to_owned(),
            ..StreamGroup::default()
        };
        let mut groups: Vec<StreamGroup> = sums.iter().map(group).collect();
        let places = sums.iter().zip(0..).map(|(sum, at)| (sum.name, at));
        let places: HashMap<(&str, &str), usize> = places.collect();
        for stream in &status.transfers {
            let name = (stream.destination.as_str(), stream.class.as_str());
            if let Some(at) = places.get(&name) {
                self.add(&mut groups[*at], status, stream);
            }
        }
        for group in &mut groups {
            group
                .paths
                .sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        }
        groups
    }

    fn add(&self, group: &mut StreamGroup, status: &Status, stream: &Transfer) {
        if stream.is_open {
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

/// What decides whether a destination is shown: of 10,000, everything else is only found for those.
#[derive(Default)]
struct Sum<'a> {
    name: (&'a str, &'a str),
    is_open: bool,
    bytes: u64,
}

fn bytes(status: &Status, stream: &Transfer) -> Bytes {
    down_up(&status.role, stream.bytes_in, stream.bytes_out)
}

/// Identity of a stream.
fn key(stream: &Transfer) -> Key {
    (stream.session, stream.stream)
}
