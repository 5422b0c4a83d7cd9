//! Requests of a day.
//!
//! Figures without a source are assumptions:
//! - A page has 2,652 kB on the median desktop, 18 kB of it HTML (HTTP Archive, Web Almanac 2024,
//!   chapter "Page Weight"). The HTML comes first, the rest over six connections. Weights vary by a
//!   factor of 3. Visits to pages are mostly short, with a long tail (Liu, White, Dumais, SIGIR
//!   2010): 4 s to 5 min.
//! - A call is a stream of frames every 20 ms in both directions at 32 kbit/s: RFC 6716, section
//!   2.1.1, gives 28 to 40 kbit/s for speech of full bandwidth.
//! - An origin answers a long-poll after 30 s (RFC 6202, section 5.5, calls that the safe value) to
//!   28 min, as long as push services are quiet.
//! - Downloads have 5 to 40 MB.

use std::time::Duration;

use mpbond_session::StreamClass;

use super::schedule::Schedule;
use crate::world::{Dice, Exchange, Manner, Pace, When};

/// Kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Page,
    Call,
    Download,
    LongPoll,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Page, Self::Call, Self::Download, Self::LongPoll];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Page => "page object",
            Self::Call => "call",
            Self::Download => "download",
            Self::LongPoll => "long-poll",
        }
    }
}

/// A request and its time.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) at: Duration,
    pub(super) kind: Kind,
    pub(super) exchange: Exchange,
}

const DAY_MS: u64 = 24 * 3_600_000;
const PAGES: usize = 60;
const CALLS: usize = 2;
const DOWNLOADS: usize = 3;
const HTML_BYTES: f64 = 18e3;
const PAGE_BYTES: f64 = 2_652e3;
const CONNECTIONS: u64 = 6;
const FRAME: Pace = Pace {
    bytes: 80,
    every: Duration::from_millis(20),
};

/// All requests of a day, in the order of their times.
pub(super) fn requests(dice: &mut Dice, schedule: &Schedule) -> Vec<Request> {
    let mut all = Vec::new();
    pages(dice, schedule, &mut all);
    for _ in 0..CALLS {
        let length = dice.ms(120_000, 420_000);
        if let Some(at) = moment(dice, schedule, length) {
            all.push(call(at, length));
        }
    }
    for _ in 0..DOWNLOADS {
        let bytes = dice.magnitude(5e6, 40e6) as u64;
        if let Some(at) = moment(dice, schedule, Duration::from_secs(60)) {
            all.push(download(at, Kind::Download, bytes));
        }
    }
    long_polls(dice, schedule, &mut all);
    all.sort_by_key(|r| r.at);
    for request in &mut all {
        request.exchange.start = When::At(request.at);
    }
    all
}

/// A time from which on the laptop is awake for `length`.
fn moment(dice: &mut Dice, schedule: &Schedule, length: Duration) -> Option<Duration> {
    let mut tries = (0..100).map(|_| dice.ms(0, DAY_MS - 1_800_000));
    tries.find(|at| schedule.is_awake(*at, length))
}

/// Pages, several after each other.
fn pages(dice: &mut Dice, schedule: &Schedule, all: &mut Vec<Request>) {
    let mut left = PAGES;
    while left > 0 {
        let visits = (dice.between(1, 10) as usize).min(left);
        left -= visits;
        let Some(mut at) = moment(dice, schedule, Duration::from_secs(5)) else {
            continue;
        };
        for _ in 0..visits {
            if schedule.is_awake(at, Duration::from_secs(2)) {
                page(dice, at, all);
            }
            at += Duration::from_secs_f64(dice.magnitude(4.0, 300.0));
        }
    }
}

fn page(dice: &mut Dice, at: Duration, all: &mut Vec<Request>) {
    let weight = dice.magnitude(1.0 / 3.0, 3.0);
    all.push(download(at, Kind::Page, (HTML_BYTES * weight) as u64));
    let part = (PAGE_BYTES - HTML_BYTES) * weight / CONNECTIONS as f64;
    for _ in 0..CONNECTIONS {
        let after = dice.ms(100, 800);
        all.push(download(at + after, Kind::Page, part as u64));
    }
}

fn download(at: Duration, kind: Kind, bytes: u64) -> Request {
    let class = match kind {
        Kind::Page | Kind::Call => StreamClass::Interactive,
        Kind::Download | Kind::LongPoll => StreamClass::Bulk,
    };
    let exchange = Exchange {
        up_bytes: 600,
        class,
        ..Exchange::download(When::At(at), bytes)
    };
    Request { at, kind, exchange }
}

fn call(at: Duration, length: Duration) -> Request {
    let frames = (length.as_millis() / FRAME.every.as_millis()) as u64;
    let mut request = download(at, Kind::Call, frames * FRAME.bytes);
    let manner = Manner {
        pace: Some(FRAME),
        ..Manner::default()
    };
    let exchange = &mut request.exchange;
    exchange.up_bytes = exchange.down_bytes;
    exchange.at_once = true;
    (exchange.client, exchange.origin) = (manner, manner);
    request
}

/// Long-polls, one after the other while the laptop is awake.
fn long_polls(dice: &mut Dice, schedule: &Schedule, all: &mut Vec<Request>) {
    let mut at = dice.ms(1_000, 60_000);
    while at < Duration::from_millis(DAY_MS - 1_800_000) {
        let thinks = Duration::from_secs_f64(dice.magnitude(30.0, 1_680.0));
        if schedule.is_awake(at, Duration::from_secs(1)) {
            let mut request = download(at, Kind::LongPoll, 300);
            request.exchange.origin.thinks = thinks;
            all.push(request);
        }
        at += thinks + Duration::from_secs(5);
    }
}
