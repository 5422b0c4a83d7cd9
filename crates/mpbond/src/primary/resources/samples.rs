//! `/v1/samples`: counters of links at intervals. Nothing is sampled without a reader.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Response;
use serde::Serialize;
use tokio::sync::mpsc;

use super::super::state::Primary;
use super::Resources;
use crate::api::{Failure, Query, lines, number_of};
use crate::driver::Driver;
use crate::http::Answer;

/// Interval in milliseconds, unless the request says otherwise; and its bounds.
const EVERY_MS: u64 = 1_000;
const LEAST_MS: u64 = 100;
const MOST_MS: u64 = 60_000;

/// Counters of all links at an instant.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Sample {
    /// Since the daemon started.
    at_s: f64,
    links: Vec<LinkSample>,
}

/// Those of a link.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LinkSample {
    name: String,
    state: String,
    /// Stream bytes since the daemon started.
    bytes_in: u64,
    bytes_out: u64,
    /// Round-trip time over all hops, once measured.
    rtt_ms: Option<f64>,
    /// Pipe-aware delay, once measured.
    pad_ms: Option<f64>,
    /// B_p: bytes that wait at the helper.
    waiting_bytes: u64,
}

impl Resources {
    pub(super) fn samples(&self, query: &Query<'_>) -> Result<Response<Answer>, Failure> {
        let [every_ms] = query.values(["every_ms"])?;
        let every_ms = number_of("every_ms", every_ms)?.unwrap_or(EVERY_MS);
        if !(LEAST_MS..=MOST_MS).contains(&every_ms) {
            let error = format!("every_ms in the query: from {LEAST_MS} to {MOST_MS}");
            return Err(Failure::bad(error));
        }
        let place = self.primary.events.place()?;
        let primary = Rc::clone(&self.primary);
        let (parts, body) = mpsc::channel(1);
        crate::task::spawn_local(async move {
            let _place = place;
            // A reader that is slow gets fewer.
            while parts.send(line(&primary)).await.is_ok() {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(every_ms)) => {}
                    () = parts.closed() => return,
                }
            }
        });
        Ok(lines(body))
    }
}

fn line(primary: &Primary) -> Bytes {
    // Its values serialise: they have no keys but text.
    let mut text = serde_json::to_vec(&sample(primary)).unwrap_or_default();
    text.push(b'\n');
    text.into()
}

fn sample(primary: &Primary) -> Sample {
    let sessions: Vec<_> = primary.drivers().iter().map(Driver::status).collect();
    let (_, paths) = primary.log.totals().with(&sessions);
    // Those of the session in use, not of one that retires.
    let driver = primary.driver.borrow();
    let subflows = driver.as_ref().map(|driver| driver.status().subflows);
    let links = primary.link_status().into_iter().map(|link| {
        let of_link = paths.iter().filter(|path| path.name == link.name);
        let (bytes_in, bytes_out) = of_link.fold((0, 0), |sum, path| {
            (sum.0 + path.bytes_in, sum.1 + path.bytes_out)
        });
        let mut subflows = subflows.iter().flatten();
        let subflow = subflows.find(|s| s.name == link.name && s.state != "express");
        // Without a measurement they are zero.
        let measured = |ms: f64| (ms > 0.0).then_some(ms);
        LinkSample {
            name: link.name,
            state: link.state,
            bytes_in,
            bytes_out,
            rtt_ms: subflow.and_then(|s| measured(s.rtt_ms)),
            pad_ms: subflow.and_then(|s| measured(s.pad_ms)),
            waiting_bytes: subflow.map_or(0, |s| s.b_p),
        }
    });
    Sample {
        at_s: primary.clock.now().as_secs_f64(),
        links: links.collect(),
    }
}
