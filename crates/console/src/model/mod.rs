//! Content of the console and `top`: rates from counters, ten minutes of history and events, all
//! found by comparing a daemon's answers. It has no clock: instants are parameters, in seconds
//! since an origin of the caller.

mod events;
mod frame;
mod gauge;
mod paths;
mod rates;
mod streams;

pub(crate) use events::{Event, Kind};
pub(crate) use frame::{Frame, PathRow};
pub(crate) use paths::short;
pub(crate) use rates::SlotRate;
pub(crate) use streams::StreamSum;

use std::collections::VecDeque;

use serde::Serialize;

use crate::status::Status;
use events::Events;
use rates::Rates;
use streams::StreamRates;

/// History that is kept, in seconds.
pub(crate) const HISTORY_S: f64 = 600.0;

/// The shares of paths are those of this last span, in seconds.
const SHARE_S: f64 = 300.0;

/// Shares are told when this much has been seen, in seconds: those of one second say little.
const LEAST_SHARE_S: f64 = 60.0;

/// Longest time between two answers of which rates are the difference: over more, an average would
/// be shown as if it had been measured.
const LONGEST_S: f64 = 5.0;

/// Maximum number of samples: more answers than one a second are not asked for.
const MAX_SAMPLES: usize = 1200;

/// Maximum number of events of the API between two answers.
const MAX_API_EVENTS: u64 = 32;

/// Rates of all paths in the time between two answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Sample {
    /// Its end.
    pub t: f64,
    /// Its length.
    pub span: f64,
    /// Rates by slot; slots without bytes are left out.
    pub rates: Vec<SlotRate>,
}

/// State of everything that is shown.
#[derive(Debug, Default)]
pub(crate) struct Model {
    before: Option<Before>,
    rates: Rates,
    streams: StreamRates,
    events: Events,
    samples: VecDeque<Sample>,
    frame: Option<Frame>,
    /// Number of the first event that was not given out yet.
    given: u64,
    /// Start and reason of the time without answers; none while the daemon answers.
    lost: Option<(f64, String)>,
}

/// The last answer, as far as the next one is compared with it.
#[derive(Debug)]
struct Before {
    t: f64,
    process: u32,
    uptime_s: f64,
    paths: Vec<paths::Path>,
}

/// Additions of an answer.
#[derive(Debug)]
pub(crate) struct Added<'a> {
    /// The new sample, if there is one.
    pub sample: Option<&'a Sample>,
    /// New events.
    pub events: Vec<Event>,
    /// Everything else.
    pub frame: &'a Frame,
}

impl Model {
    /// Takes the answer of the daemon at `t`.
    pub fn take(&mut self, t: f64, status: Status) -> Added<'_> {
        if self.lost.take().is_some() {
            self.events
                .add(t, Kind::DaemonBack, "", "the daemon answers again");
        }
        let now = paths::of(&status);
        let mut span = None;
        if let Some(before) = &self.before {
            let is_same = before.process == status.process && before.uptime_s <= status.uptime_s;
            if !is_same {
                let text = "the daemon was started again: its counters begin at zero";
                self.events.add(t, Kind::DaemonRestarted, "", text);
                self.rates.forget();
                self.streams.forget();
            } else {
                // By the daemon's clock: an answer may be older than its arrival.
                let passed = status.uptime_s - before.uptime_s;
                if passed > LONGEST_S || t - before.t > LONGEST_S {
                    self.rates.forget();
                    self.streams.forget();
                } else {
                    self.events.compare(t, &status.role, &before.paths, &now);
                }
                span = (passed > 0.0).then_some(passed);
            }
        }
        let is_new = span.is_some() || self.rates.is_empty();
        let in_history = |slot| {
            let mut rates = self.samples.iter().flat_map(|s| &s.rates);
            rates.any(|rate| rate.0 == slot)
        };
        self.rates.free_slots(&now, in_history);
        let mut added = false;
        if is_new {
            let rates = self.rates.take(&now, span);
            self.streams.take(&status, span);
            if let (Some(span), Some(rates)) = (span, rates) {
                self.samples.push_back(Sample { t, span, rates });
                added = true;
            }
        }
        let is_old = |s: &Sample| s.t < t - HISTORY_S;
        while self.samples.len() > MAX_SAMPLES || self.samples.front().is_some_and(is_old) {
            self.samples.pop_front();
        }
        let shares = self.shares(t);
        let streams = self.streams.view(&status);
        let frame = Frame::of(t, &status, &now, &self.rates, &shares, streams);
        self.before = Some(Before {
            t,
            process: status.process,
            uptime_s: status.uptime_s,
            paths: now,
        });
        let frame = &*self.frame.insert(frame);
        Added {
            sample: self.samples.back().filter(|_| added),
            events: given(&self.events, &mut self.given),
            frame,
        }
    }

    /// Adds an event of the API, which is given out with the next answer. More than a few between
    /// two answers are left out.
    pub fn add_api_event(&mut self, t: f64, kind: Kind, subject: &str, text: &str) {
        if self.events.next_id() - self.given < MAX_API_EVENTS {
            self.events.add(t, kind, subject, text);
        }
    }

    /// Notes that the daemon did not answer at `t`; returns new events.
    pub fn fail(&mut self, t: f64, why: &str) -> Vec<Event> {
        if let Some((_, last)) = &mut self.lost {
            why.clone_into(last);
        } else {
            self.lost = Some((t, why.to_owned()));
            self.events.add(t, Kind::DaemonLost, "", why);
        }
        given(&self.events, &mut self.given)
    }

    /// Reason of the time without answers, if it lasts.
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_ref().map(|(_, why)| why.as_str())
    }

    /// The last answer.
    pub fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    /// Samples of the last ten minutes, oldest first.
    pub fn samples(&self) -> impl DoubleEndedIterator<Item = &Sample> {
        self.samples.iter()
    }

    /// The last events that were given out, oldest first.
    pub fn events(&self) -> Vec<Event> {
        let mut events = self.events.since(0);
        events.retain(|event| event.id < self.given);
        events
    }

    /// Share of each slot in the bytes of the last five minutes; empty without any, and before
    /// enough has been seen.
    fn shares(&self, t: f64) -> Vec<f64> {
        let mut bytes: Vec<f64> = Vec::new();
        let mut seen = 0.0;
        for sample in self.samples.iter().filter(|s| s.t > t - SHARE_S) {
            seen += sample.span;
            for SlotRate(slot, down, up) in &sample.rates {
                if bytes.len() <= *slot {
                    bytes.resize(slot + 1, 0.0);
                }
                bytes[*slot] += (down + up) * sample.span;
            }
        }
        let total: f64 = bytes.iter().sum();
        if total > 0.0 && seen >= LEAST_SHARE_S {
            bytes.iter_mut().for_each(|b| *b /= total);
        } else {
            bytes.clear();
        }
        bytes
    }
}

/// The events that were not given out yet.
fn given(events: &Events, given: &mut u64) -> Vec<Event> {
    let since = std::mem::replace(given, events.next_id());
    events.since(since)
}

#[cfg(test)]
mod tests;
