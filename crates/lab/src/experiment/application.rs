//! What an application does instead of one transfer: watching a video, loading
//! a page, listening to a stream, fetching chunks now and then, exchanging
//! messages beside a download, downloading for a given time.

use std::path::PathBuf;
use std::time::Duration;

use mpbond_sim::duration_text;
use mpbond_sim::link::RateSpec;
use mpbond_units::BitRate;
use serde::Deserialize;
use toml::Spanned;

use super::{Connection, Size};
use crate::app::page::list::MAX_OBJECTS;
use crate::app::page::{Begins, PageObject};
use crate::app::video_player::{Abr, VideoPlan};

/// One of a workload's keys `video`, `page`, `stream`, `chunks`,
/// `messages` and `for`.
#[derive(Debug, Clone, Copy)]
pub enum Application<'a> {
    /// A DASH video.
    Video(&'a Video),
    /// A page of many objects.
    Page(&'a Page),
    /// A stream of constant rate.
    Stream(&'a Stream),
    /// Chunks with pauses between them.
    Chunks(&'a Chunks),
    /// Messages beside a download.
    Messages(&'a Messages),
    /// As much as comes in so long.
    Timed(Duration),
}

/// A video that a player with a choice of rates plays.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Video {
    /// Length of a segment.
    #[serde(with = "duration_text")]
    pub segment: Duration,
    /// How much of the video is played.
    #[serde(with = "duration_text")]
    pub length: Duration,
    /// Its rates, rising. One rate is a video without a choice.
    pub ladder: Vec<RateSpec>,
    /// How the player chooses.
    #[serde(default)]
    pub abr: Abr,
    /// The player fetches no further ahead than this (ExoPlayer's 50 s).
    #[serde(default = "fifty_seconds", with = "duration_text")]
    pub buffer: Duration,
    /// Playing starts with this much buffered (ExoPlayer's 2.5 s).
    #[serde(default = "start_with", with = "duration_text")]
    pub start_with: Duration,
    /// After a stall it goes on with this much (ExoPlayer's 5 s).
    #[serde(default = "resume_with", with = "duration_text")]
    pub resume_with: Duration,
}

/// A page, as browsers fetch it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Sizes of its objects: the page itself first, and alone, then the others.
    #[serde(default)]
    pub objects: Vec<Size>,
    /// Instead: a file beside the experiment's that lists them
    /// (docs/experiments.md), or an HTTP archive (`*.har`).
    pub list: Option<Spanned<PathBuf>>,
    /// Connections at once to each of its hosts (six in browsers, by HTTP/1.1).
    #[serde(default = "six")]
    pub connections: usize,
    /// What the list says, once it is read.
    #[serde(skip)]
    pub(crate) listed: Vec<PageObject>,
}

/// Messages of constant size at a constant rate, each stamped when it is sent.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Bytes of messages over time.
    pub rate: RateSpec,
    /// For so long.
    #[serde(with = "duration_text")]
    pub length: Duration,
    /// Bytes of a message.
    #[serde(default = "packet")]
    pub message: Size,
}

/// Chunks with pauses between them, over one kept connection.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunks {
    /// Bytes of each.
    pub bytes: Size,
    /// How many.
    pub count: u32,
    /// The shortest pause; the experiment's seed draws each one.
    #[serde(with = "duration_text")]
    pub least_gap: Duration,
    /// The longest pause.
    #[serde(with = "duration_text")]
    pub most_gap: Duration,
}

/// Small messages at a steady pace, each asked for on its own, beside a
/// download of as much as comes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// Bytes of the answer to each.
    pub bytes: Size,
    /// One is due so often; what falls due while one is under way is left out.
    #[serde(with = "duration_text")]
    pub every: Duration,
    /// For so long.
    #[serde(with = "duration_text")]
    pub length: Duration,
    /// `kept`: all over one connection, made before; `new`: each over its own,
    /// whose making counts.
    #[serde(default)]
    pub connection: Connection,
    /// Whether there is a download beside them, over a connection of its own.
    #[serde(default = "yes")]
    pub bulk: bool,
}

fn yes() -> bool {
    true
}
fn fifty_seconds() -> Duration {
    Duration::from_secs(50)
}
fn start_with() -> Duration {
    Duration::from_millis(2500)
}
fn resume_with() -> Duration {
    Duration::from_secs(5)
}
fn six() -> usize {
    6
}
fn packet() -> Size {
    Size(1200)
}

const MAX_LENGTH: Duration = Duration::from_secs(3600);
const MAX_CONNECTIONS: usize = 64;
const LEAST_PAUSE: Duration = Duration::from_millis(1);
/// A stamp takes eight.
const MIN_MESSAGE_BYTES: u64 = 16;

impl Application<'_> {
    /// What is wrong with it.
    pub(super) fn complaint(&self) -> Option<&'static str> {
        let wrong = |wrong: bool, complaint| wrong.then_some(complaint);
        match self {
            Self::Video(v) => {
                let rates: Option<Vec<BitRate>> = v.ladder.iter().map(constant).collect();
                let ladder = rates.is_some_and(|rates| {
                    let rising = rates.windows(2).all(|pair| pair[0] < pair[1]);
                    rising && rates.first().is_some_and(|rate| rate.bps() > 0)
                });
                wrong(!ladder, "video: ladder: rising rates, such as \"2 Mbit/s\"")
                    .or(wrong(
                        v.segment.is_zero() || v.length < v.segment || v.length > MAX_LENGTH,
                        "video: length: at least a segment, at most an hour",
                    ))
                    .or(wrong(
                        v.buffer < v.start_with.max(v.resume_with) + v.segment,
                        "video: buffer: more than start_with and resume_with and a segment",
                    ))
            }
            Self::Page(p) => wrong(
                p.list.is_none() && p.objects.is_empty() || p.objects.len() > MAX_OBJECTS,
                "page: objects: from 1 to 10000, or a list of them",
            )
            .or(wrong(
                p.list.is_some() && !p.objects.is_empty(),
                "page: either objects or a list",
            ))
            .or(wrong(
                !(1..=MAX_CONNECTIONS).contains(&p.connections),
                "page: connections: from 1 to 64",
            )),
            Self::Stream(s) => wrong(
                constant(&s.rate).is_none_or(|rate| rate.bps() == 0),
                "stream: rate: a constant one, such as \"1 Mbit/s\"",
            )
            .or(wrong(
                s.length.is_zero() || s.length > MAX_LENGTH,
                "stream: length: more than nothing, at most an hour",
            ))
            .or(wrong(
                !(MIN_MESSAGE_BYTES..=1 << 20).contains(&s.message.0),
                "stream: message: from 16 B to 1 MiB",
            )),
            Self::Chunks(c) => wrong(
                !(1..=10_000).contains(&c.count) || !(1..=1 << 30).contains(&c.bytes.0),
                "chunks: 1 to 10000 of them, of 1 B to 1 GiB",
            )
            .or(wrong(
                c.least_gap > c.most_gap || c.most_gap > MAX_LENGTH,
                "chunks: least_gap is not above most_gap, and that not above an hour",
            )),
            Self::Messages(m) => wrong(
                !(1..=1 << 20).contains(&m.bytes.0),
                "messages: bytes: from 1 B to 1 MiB",
            )
            .or(wrong(
                m.length.is_zero() || m.length > MAX_LENGTH,
                "messages: length: more than nothing, at most an hour",
            ))
            .or(wrong(
                m.every < LEAST_PAUSE || m.every * 2 > m.length,
                "messages: every: from 1 ms to half of the length",
            )),
            Self::Timed(length) => wrong(
                length.is_zero() || *length > MAX_LENGTH,
                "for: more than nothing, at most an hour",
            ),
        }
    }

    /// Whether it fetches less over slower links.
    pub(crate) fn adapts(&self) -> bool {
        match self {
            Self::Video(v) => v.ladder.len() > 1,
            Self::Page(_) | Self::Stream(_) | Self::Chunks(_) => false,
            Self::Messages(m) => m.bulk,
            Self::Timed(_) => true,
        }
    }

    /// The least time that it takes whatever the network does.
    pub(crate) fn least_time(&self) -> Duration {
        match self {
            Self::Video(v) => v.length.saturating_sub(v.buffer),
            Self::Stream(s) => s.length,
            Self::Chunks(c) => c.least_gap * c.count.saturating_sub(1),
            Self::Page(_) => Duration::ZERO,
            Self::Messages(m) => m.length,
            Self::Timed(length) => *length,
        }
    }

    /// About how long it takes where the network keeps up.
    pub(crate) fn usual_time(&self) -> Duration {
        match self {
            // It is over when all is fetched, a buffer before the end.
            Self::Video(_) => self.least_time() + Duration::from_secs(5),
            Self::Stream(s) => s.length,
            Self::Chunks(c) => {
                let pause = (c.least_gap + c.most_gap) / 2;
                (pause + Duration::from_secs(1)) * c.count
            }
            Self::Page(_) => Duration::from_secs(5),
            Self::Messages(m) => m.length,
            Self::Timed(length) => *length,
        }
    }

    /// Bytes that it fetches at the most; 0 where only the links limit them.
    pub(crate) fn most_bytes(&self) -> u64 {
        match self {
            Self::Video(v) => {
                let plan = v.plan();
                let highest = plan.ladder.last().copied().unwrap_or(BitRate::ZERO);
                highest.bytes_in(v.length + v.segment)
            }
            Self::Page(p) => {
                let sizes = p.plan().into_iter().map(|o| o.bytes);
                sizes.fold(0, u64::saturating_add)
            }
            Self::Stream(s) => s.bit_rate().bytes_in(s.length),
            Self::Chunks(c) => c.bytes.0 * u64::from(c.count),
            Self::Messages(m) if m.bulk => 0,
            Self::Messages(m) => m.bytes.0 * (m.length.as_nanos() / m.every.as_nanos()) as u64,
            Self::Timed(_) => 0,
        }
    }
}

fn constant(rate: &RateSpec) -> Option<BitRate> {
    match rate {
        RateSpec::Constant(rate) => Some(*rate),
        _ => None,
    }
}

impl Video {
    /// What the player is given.
    pub(crate) fn plan(&self) -> VideoPlan {
        VideoPlan {
            segment: self.segment,
            length: self.length,
            ladder: self.ladder.iter().filter_map(constant).collect(),
            abr: self.abr,
            buffer: self.buffer,
            start_with: self.start_with,
            resume_with: self.resume_with,
        }
    }
}

impl Page {
    /// Its objects, and when each is asked for.
    pub(crate) fn plan(&self) -> Vec<PageObject> {
        if self.list.is_some() {
            return self.listed.clone();
        }
        let others = Begins::After {
            object: 0,
            delay: Duration::ZERO,
        };
        let begins = std::iter::once(Begins::At(Duration::ZERO)).chain(std::iter::repeat(others));
        self.objects
            .iter()
            .zip(begins)
            .map(|(size, begins)| PageObject {
                bytes: size.0,
                host: 0,
                begins,
            })
            .collect()
    }
}

impl Stream {
    /// Its rate.
    pub(crate) fn bit_rate(&self) -> BitRate {
        constant(&self.rate).unwrap_or(BitRate::ZERO)
    }
}
