//! Streams by application and destination: their bytes on each path, and their rates.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};

use serde::Serialize;

use super::paths::{Bytes, down_up};
use super::rates::{Rate, between};
use crate::status::{Application, Status, Transfer, Waiting};

/// Groups that are shown; the number of the others is told.
const SHOWN: usize = 200;

/// Streams by application.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Streams {
    /// Open streams of all sessions.
    pub open: u64,
    /// Whether the daemon withholds destinations from this user.
    pub withheld: bool,
    pub applications: Vec<ApplicationStreams>,
    /// Groups that are in no list of an application.
    pub more: usize,
    /// New connections that wait, those that came first.
    pub waiting: Vec<Waiting>,
    /// The number of all of them.
    pub waiting_count: u64,
}

/// Streams of one application.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct ApplicationStreams {
    /// Absent where the daemon knows none of any stream, as a proxy does.
    pub application: Option<Application>,
    /// Of all its streams.
    #[serde(flatten)]
    pub sum: StreamSum,
    /// Those of them that are shown.
    pub groups: Vec<StreamGroup>,
}

/// Streams of one application that lead to one destination in one class, by one rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct StreamGroup {
    pub destination: String,
    pub class: String,
    /// Absent where the default applies, and at a proxy.
    pub rule: Option<String>,
    #[serde(flatten)]
    pub sum: StreamSum,
}

/// Several streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct StreamSum {
    pub open: u64,
    pub closed: u64,
    pub down_bytes: u64,
    pub up_bytes: u64,
    pub rate: Rate,
    /// Bytes in both directions by path, most first.
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

    /// The streams by application, and those of each application in groups. In both lists those
    /// with open streams come first, by bytes, then the others, newest first.
    pub fn view(&self, status: &Status) -> Streams {
        let unknown = Application::default();
        // A proxy knows no applications.
        let has_any = status.transfers.iter().any(|s| s.application.is_some());
        let default = has_any.then_some(&unknown);
        let name = |stream| Name { stream, default };
        let names = in_order(status, name);
        let count = names.len();
        let shown = shown(names);
        let with_any: HashSet<_> = shown.iter().map(|name| name.application()).collect();
        let mut applications: Vec<ApplicationStreams> = Vec::new();
        let mut places = HashMap::new();
        for application in in_order(status, |stream| name(stream).application()) {
            if with_any.contains(&application) {
                places.insert(application, applications.len());
                applications.push(ApplicationStreams {
                    application: application.cloned(),
                    ..ApplicationStreams::default()
                });
            }
        }
        let mut group_places = HashMap::new();
        for name in &shown {
            let Some(of) = places
                .get(&name.application())
                .map(|at| &mut applications[*at])
            else {
                continue;
            };
            group_places.insert(*name, of.groups.len());
            of.groups.push(StreamGroup {
                destination: name.stream.destination.clone(),
                class: name.stream.class.clone(),
                rule: name.stream.rule.clone(),
                sum: StreamSum::default(),
            });
        }
        for stream in &status.transfers {
            let name = name(stream);
            let Some(of) = places
                .get(&name.application())
                .map(|at| &mut applications[*at])
            else {
                continue;
            };
            self.add(&mut of.sum, status, stream);
            if let Some(at) = group_places.get(&name) {
                self.add(&mut of.groups[*at].sum, status, stream);
            }
        }
        for of in &mut applications {
            let groups = of.groups.iter_mut().map(|group| &mut group.sum);
            groups.chain([&mut of.sum]).for_each(StreamSum::sort);
        }
        Streams {
            open: status
                .sessions
                .iter()
                .map(|s| s.streams_open)
                .fold(0, u64::saturating_add),
            withheld: status.transfers_withheld,
            applications,
            more: count - shown.len(),
            waiting: status.waiting.clone(),
            waiting_count: status.waiting_count,
        }
    }

    fn add(&self, sum: &mut StreamSum, status: &Status, stream: &Transfer) {
        if stream.is_open {
            sum.open += 1;
        } else {
            sum.closed += 1;
        }
        let Bytes { down, up } = bytes(status, stream);
        sum.down_bytes = sum.down_bytes.saturating_add(down);
        sum.up_bytes = sum.up_bytes.saturating_add(up);
        if let Some(rate) = self.rates.get(&key(stream)) {
            sum.rate += *rate;
        }
        for share in &stream.subflows {
            let bytes = share.bytes_in.saturating_add(share.bytes_out);
            match sum.paths.iter_mut().find(|(name, _)| *name == share.name) {
                Some((_, sum)) => *sum = sum.saturating_add(bytes),
                None => sum.paths.push((share.name.clone(), bytes)),
            }
        }
    }
}

impl StreamSum {
    fn sort(&mut self) {
        self.paths
            .sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    }
}

/// Name of a group, in one of its streams: there may be as many groups as streams.
#[derive(Clone, Copy)]
struct Name<'a> {
    stream: &'a Transfer,
    /// The application where the daemon has not looked for it.
    default: Option<&'a Application>,
}

impl<'a> Name<'a> {
    fn application(self) -> Option<&'a Application> {
        self.stream.application.as_ref().or(self.default)
    }

    fn parts(self) -> impl Eq + Hash + use<'a> {
        let Transfer {
            destination,
            class,
            rule,
            ..
        } = self.stream;
        (self.application(), destination, class, rule)
    }
}

impl PartialEq for Name<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Name<'_> {}

impl Hash for Name<'_> {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.parts().hash(to);
    }
}

/// The names of all streams: first those with open ones, by bytes, then the others, newest first.
fn in_order<'a, N>(status: &'a Status, name: impl Fn(&'a Transfer) -> N) -> Vec<N>
where
    N: Copy + Eq + Hash,
{
    // What decides about the order: of 10,000, everything else is only found for those that are
    // shown.
    let mut sums: Vec<(N, bool, u64)> = Vec::new();
    let mut known = HashMap::new();
    for stream in status.transfers.iter().rev() {
        let name = name(stream);
        let at = *known.entry(name).or_insert_with(|| {
            sums.push((name, false, 0));
            sums.len() - 1
        });
        let Bytes { down, up } = bytes(status, stream);
        let (_, is_open, sum) = &mut sums[at];
        *is_open |= stream.is_open;
        *sum = sum.saturating_add(down).saturating_add(up);
    }
    // Stable: among closed ones the newest stay first.
    sums.sort_by_key(|(_, is_open, sum)| Reverse((*is_open, if *is_open { *sum } else { 0 })));
    sums.into_iter().map(|(name, ..)| name).collect()
}

/// The first names of each application, as many of each as there is room for.
fn shown(names: Vec<Name<'_>>) -> Vec<Name<'_>> {
    let mut counts: HashMap<_, usize> = HashMap::new();
    let ranked = names.into_iter().map(|name| {
        let count = counts.entry(name.application()).or_default();
        *count += 1;
        (*count, name)
    });
    let mut ranked: Vec<_> = ranked.collect();
    // Stable: of each rank, those that come first.
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.truncate(SHOWN);
    ranked.into_iter().map(|(_, name)| name).collect()
}

fn bytes(status: &Status, stream: &Transfer) -> Bytes {
    down_up(&status.role, stream.bytes_in, stream.bytes_out)
}

/// Identity of a stream.
fn key(stream: &Transfer) -> Key {
    (stream.session, stream.stream)
}
