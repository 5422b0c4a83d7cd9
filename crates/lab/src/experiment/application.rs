//! Workloads that are applications: video, page, stream, files over one stream, chunks, messages
//! beside a download, and downloads of a given duration.

use std::path::PathBuf;
use std::time::Duration;

use mpbond_sim::application::page::{Begins, PageObject};
use mpbond_sim::application::video::{Abr, VideoPlan};
use mpbond_sim::link::RateSpec;
use mpbond_sim::world::StreamClass;
use mpbond_units::BitRate;
use mpbond_units::duration_text;
use serde::Deserialize;
use toml::Spanned;

use super::page::MAX_OBJECTS;
use super::terms::Connection;
use mpbond_units::Size;

/// The application of a workload, from one of its keys `video`, `page`, `stream`, `files`,
/// `chunks`, `messages` and `for`.
#[derive(Debug, Clone, Copy)]
pub enum Application<'a> {
    /// A DASH video.
    Video(&'a Video),
    /// A page of many objects.
    Page(&'a Page),
    /// A stream of constant rate.
    Stream(&'a Stream),
    /// Files one after the other over one stream.
    Files(&'a [Size]),
    /// Chunks with pauses between them.
    Chunks(&'a Chunks),
    /// Messages beside a download.
    Messages(&'a Messages),
    /// A download of a given duration.
    Timed(Duration),
}

/// A video, played at one of several bit rates.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Video {
    /// Length of a segment.
    #[serde(with = "duration_text")]
    pub segment: Duration,
    /// Length of the part that is played.
    #[serde(with = "duration_text")]
    pub length: Duration,
    /// Bit rates, rising; a single one is a video of fixed quality.
    pub ladder: Vec<RateSpec>,
    /// Rule by which the player selects a bit rate.
    #[serde(default)]
    pub abr: Abr,
    /// Maximum length fetched ahead of playback (ExoPlayer: 50 s).
    #[serde(default = "fifty_seconds", with = "duration_text")]
    pub buffer: Duration,
    /// Buffered length at which playback starts (ExoPlayer: 2.5 s).
    #[serde(default = "start_with", with = "duration_text")]
    pub start_with: Duration,
    /// Buffered length at which playback resumes after a stall (ExoPlayer: 5 s).
    #[serde(default = "resume_with", with = "duration_text")]
    pub resume_with: Duration,
}

/// A page, as browsers fetch it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Sizes of its objects. The first is the page itself, fetched alone; the others follow.
    #[serde(default)]
    pub objects: Vec<Size>,
    /// Instead of `objects`: a list of them in a file beside the experiment's
    /// (docs/experiments.md), or an HTTP archive (`*.har`).
    pub list: Option<Spanned<PathBuf>>,
    /// Simultaneous connections to each host (browsers with HTTP/1.1: six).
    #[serde(default = "six")]
    pub connections: usize,
    /// Whether a download runs beside the page, over a connection of its own, from two seconds
    /// before its start.
    #[serde(default)]
    pub bulk: bool,
    /// Contents of `list`, after loading.
    #[serde(skip)]
    pub(crate) listed: Vec<PageObject>,
}

/// Messages of constant size at a constant rate, each with its time of sending.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Rate of the messages, headers not counted.
    pub rate: RateSpec,
    /// Duration of the stream.
    #[serde(with = "duration_text")]
    pub length: Duration,
    /// Bytes of a message.
    #[serde(default = "packet")]
    pub message: Size,
    /// Time from which the delay of a message runs.
    #[serde(default)]
    pub stamp: Stamp,
}

/// Time from which the delay of a message runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stamp {
    /// The instant at which it is due: waiting at the origin counts.
    #[default]
    Due,
    /// The instant at which the origin writes it.
    Written,
}

/// Chunks with pauses between them, over one kept connection.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunks {
    /// Size of a chunk.
    pub bytes: Size,
    /// Number of chunks.
    pub count: u32,
    /// Shortest pause. Pauses are drawn by the seed of each repetition.
    #[serde(with = "duration_text")]
    pub least_gap: Duration,
    /// Longest pause.
    #[serde(with = "duration_text")]
    pub most_gap: Duration,
}

/// Small messages, requested at a constant rate one by one, beside a download that takes all it can
/// get.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// Size of each response.
    pub bytes: Size,
    /// Interval between requests. A request that falls due while another is in flight is skipped.
    #[serde(with = "duration_text")]
    pub every: Duration,
    /// Duration of the exchange, from the start of the download.
    #[serde(with = "duration_text")]
    pub length: Duration,
    /// Time for which the download is alone before the messages begin, one interval later.
    #[serde(default, with = "duration_text")]
    pub after: Duration,
    /// `kept`: all messages over one connection that is open already; `new`: each over a connection
    /// of its own, whose handshake counts.
    #[serde(default)]
    pub connection: Connection,
    /// Traffic class of the messages, if it is not that of the workload.
    pub class: Option<StreamClass>,
    /// Whether a download runs beside the messages, over a connection of its own.
    #[serde(default = "yes")]
    pub bulk: bool,
}

impl Messages {
    /// When the first message is due, after the start: the download has begun.
    pub(crate) fn first_due(&self) -> Duration {
        self.after + self.every
    }

    /// When messages are due, after the start.
    pub(crate) fn due(&self) -> impl Iterator<Item = Duration> {
        let due = (0..).map(|number| self.first_due() + self.every * number);
        due.take_while(|due| *due < self.length)
    }
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

/// Time that most pages take at least, for their round trips.
pub(crate) const LEAST_OF_PAGE: Duration = Duration::from_secs(2);

/// Time from the start of a download to that of the page beside it, so that it has its rate.
pub(crate) const BULK_AHEAD: Duration = Duration::from_secs(2);
const MAX_LENGTH: Duration = Duration::from_secs(3600);
const MAX_CONNECTIONS: usize = 64;
const MAX_FILES: usize = 16;
const LEAST_PAUSE: Duration = Duration::from_millis(1);
/// Smallest message; its time stamp takes eight bytes.
const MIN_MESSAGE_BYTES: u64 = 16;

impl Application<'_> {
    /// The first rule that its values break.
    pub(super) fn error_text(&self) -> Option<&'static str> {
        let wrong = |wrong: bool, error_text| wrong.then_some(error_text);
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
                "page: objects: 1 to 10000, or a list",
            )
            .or(wrong(
                p.list.is_some() && !p.objects.is_empty(),
                "page: either objects or list, not both",
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
            Self::Files(files) => wrong(
                !(2..=MAX_FILES).contains(&files.len())
                    || files.iter().any(|file| !(1..=1 << 30).contains(&file.0)),
                "files: 2 to 16 of them, of 1 B to 1 GiB",
            ),
            Self::Chunks(c) => wrong(
                !(1..=10_000).contains(&c.count) || !(1..=1 << 30).contains(&c.bytes.0),
                "chunks: 1 to 10000 of them, of 1 B to 1 GiB",
            )
            .or(wrong(
                c.least_gap > c.most_gap || c.most_gap > MAX_LENGTH,
                "chunks: least_gap must not exceed most_gap, nor most_gap an hour",
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
                m.every < LEAST_PAUSE || m.every * 2 > m.length.saturating_sub(m.after),
                "messages: every: from 1 ms to half of the length behind `after`",
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
            Self::Stream(_) | Self::Files(_) | Self::Chunks(_) => false,
            Self::Page(p) => p.bulk,
            Self::Messages(m) => m.bulk,
            Self::Timed(_) => true,
        }
    }

    /// Shortest duration, whatever the network.
    pub(crate) fn least_time(&self) -> Duration {
        match self {
            Self::Video(v) => v.length.saturating_sub(v.buffer),
            Self::Stream(s) => s.length,
            Self::Files(_) => Duration::ZERO,
            Self::Chunks(c) => c.least_gap * c.count.saturating_sub(1),
            Self::Page(p) => p.ahead(),
            Self::Messages(m) => m.length,
            Self::Timed(length) => *length,
        }
    }

    /// Approximate duration on a network that keeps up.
    pub(crate) fn usual_time(&self) -> Duration {
        match self {
            // Over when everything is fetched, a buffer before the end of playback.
            Self::Video(_) => self.least_time() + Duration::from_secs(5),
            Self::Stream(s) => s.length,
            // Only the links limit it.
            Self::Files(_) => Duration::ZERO,
            Self::Chunks(c) => {
                let pause = (c.least_gap + c.most_gap) / 2;
                (pause + Duration::from_secs(1)) * c.count
            }
            Self::Page(p) => p.ahead() + LEAST_OF_PAGE,
            Self::Messages(m) => m.length,
            Self::Timed(length) => *length,
        }
    }

    /// Most bytes that it fetches; 0 where only the links limit them.
    pub(crate) fn most_bytes(&self) -> u64 {
        match self {
            Self::Video(v) => {
                let highest = v.rates().last().unwrap_or(BitRate::ZERO);
                highest.bytes_in(v.length + v.segment)
            }
            Self::Page(p) if p.bulk => 0,
            Self::Page(p) => p.bytes(),
            Self::Stream(s) => s.messages().saturating_mul(s.message.0),
            Self::Files(files) => files.iter().map(|file| file.0).sum(),
            Self::Chunks(c) => c.bytes.0 * u64::from(c.count),
            Self::Messages(m) if m.bulk => 0,
            Self::Messages(m) => {
                let time = m.length.saturating_sub(m.after).as_nanos();
                m.bytes.0 * (time / m.every.as_nanos()) as u64
            }
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
    /// Bit rates, rising; loading has checked that they are constant.
    pub(crate) fn rates(&self) -> impl Iterator<Item = BitRate> {
        self.ladder.iter().filter_map(constant)
    }

    /// The video with the parameters of its playback.
    pub(crate) fn plan(&self) -> VideoPlan {
        VideoPlan {
            segment: self.segment,
            length: self.length,
            ladder: self.rates().collect(),
            abr: self.abr,
            buffer: self.buffer,
            start_with: self.start_with,
            resume_with: self.resume_with,
        }
    }
}

impl Page {
    /// Time from the start of the transfer to that of the page.
    pub(crate) fn ahead(&self) -> Duration {
        match self.bulk {
            true => BULK_AHEAD,
            false => Duration::ZERO,
        }
    }

    /// Bytes of its objects, those of the download beside it excepted.
    pub(crate) fn bytes(&self) -> u64 {
        let sizes = self.plan().into_iter().map(|o| o.bytes);
        sizes.fold(0, u64::saturating_add)
    }

    /// Its objects, each with the time or event of its request.
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

    /// Interval of its messages.
    pub(crate) fn every(&self) -> Duration {
        self.bit_rate().time_for(self.message.0)
    }

    /// Number of its messages.
    pub(crate) fn messages(&self) -> u64 {
        let whole = self.length.as_nanos() / self.every().as_nanos().max(1);
        u64::try_from(whole).unwrap_or(u64::MAX).max(1)
    }
}
