use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use mpbond_units::BitRate;
use serde::{Deserialize, Deserializer, Serialize};

use super::BurstLoss;
use crate::duration_text;
use crate::trace::{MahimahiTrace, RateProfile};

/// How fast a link sends, over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rate {
    /// The same at all times.
    Constant(BitRate),
    /// Packets leave the moment they come.
    Unlimited,
    /// From each instant on a rate, until the next one; the last one stays.
    /// Instants count from the start of the link (or from the change that
    /// brought the schedule) and must not fall. Before the first instant the
    /// first rate holds. A schedule without entries never sends.
    Schedule(Vec<(Duration, BitRate)>),
    /// Packet opportunities of a recorded link, repeated for ever.
    Mahimahi {
        /// The recording.
        trace: Arc<MahimahiTrace>,
        /// How far into it the link starts.
        offset: Duration,
    },
    /// The rates of a recorded link, repeated for ever.
    Profile {
        /// The recording.
        profile: Arc<RateProfile>,
        /// How far into it the link starts.
        offset: Duration,
    },
}

/// How much may wait in a drop-tail queue. What is being sent counts as
/// waiting until its last bit has left. An empty queue takes any packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "QueueText", into = "QueueText")]
pub enum Queue {
    /// Up to this many IP bytes. As text: `"150000 bytes"`.
    Bytes(u64),
    /// As many bytes as the link sends in this time at its current rate (a
    /// recording: at its mean rate, as a device's buffer doesn't shrink
    /// with the signal), but at least two full packets. As text: `"100ms"`.
    Time(Duration),
}

impl Queue {
    /// The floor of [`Queue::Time`]: two packets of 1500 bytes, so that even a
    /// very slow link can have one waiting behind the one being sent.
    pub const MIN_BYTES: u64 = 3000;
}

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct QueueText(String);

impl TryFrom<QueueText> for Queue {
    type Error = String;
    fn try_from(text: QueueText) -> Result<Self, String> {
        text.0.parse()
    }
}

impl From<Queue> for QueueText {
    fn from(queue: Queue) -> Self {
        Self(match queue {
            Queue::Bytes(bytes) => format!("{bytes} bytes"),
            Queue::Time(span) => duration_text::format(span),
        })
    }
}

impl FromStr for Queue {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(number) = text.trim().strip_suffix("bytes") {
            if let Ok(bytes) = number.trim().parse() {
                return Ok(Self::Bytes(bytes));
            }
        } else if let Ok(span) = duration_text::parse(text) {
            return Ok(Self::Time(span));
        }
        let short: String = text.chars().take(40).collect();
        Err(format!(
            "\"{short}\" is not a queue length: write a time such as \"100ms\", or \"150000 bytes\""
        ))
    }
}

/// One direction of a link. `R` is [`Rate`] when it is ready to run, and
/// [`super::RateSpec`] while it stands in an experiment file and still names
/// trace files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig<R = Rate> {
    /// How fast it sends.
    pub rate: R,
    /// Propagation: from the last bit's departure to the packet's arrival.
    #[serde(default, with = "duration_text")]
    pub delay: Duration,
    /// Each packet takes up to this much longer, evenly distributed. Packets
    /// don't overtake each other.
    #[serde(default, with = "duration_text")]
    pub jitter: Duration,
    /// How much may wait.
    #[serde(default = "default_queue")]
    pub queue: Queue,
    /// Probability that a packet is lost before it enters the queue, each on
    /// its own.
    #[serde(default, deserialize_with = "probability")]
    pub loss: f64,
    /// Losses in bursts, beside the others.
    #[serde(default, skip_serializing_if = "BurstLoss::is_none")]
    pub burst_loss: BurstLoss,
}

/// The 100 ms of drop-tail queue that our experiments use where the paper does
/// not say.
fn default_queue() -> Queue {
    Queue::Time(Duration::from_millis(100))
}

impl<R> LinkConfig<R> {
    /// A link without delay, jitter or loss, and with a queue of 100 ms.
    pub fn new(rate: R) -> Self {
        Self {
            rate,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            queue: default_queue(),
            loss: 0.0,
            burst_loss: BurstLoss::NONE,
        }
    }

    /// The same link with this propagation delay.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The same link with this queue.
    #[must_use]
    pub fn with_queue(mut self, queue: Queue) -> Self {
        self.queue = queue;
        self
    }
}

/// What changes on a running link; what is `None` stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkChange<R = Rate> {
    /// New rate. A schedule begins at its own start now, a recording at its
    /// offset.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub rate: Option<R>,
    /// New propagation delay, for packets that depart from now on.
    #[serde(
        default,
        with = "duration_text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub delay: Option<Duration>,
    /// New jitter.
    #[serde(
        default,
        with = "duration_text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub jitter: Option<Duration>,
    /// New queue bound; what already waits stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// New loss probability.
    #[serde(
        default,
        deserialize_with = "optional_probability",
        skip_serializing_if = "Option::is_none"
    )]
    pub loss: Option<f64>,
    /// New losses in bursts, from the good state on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_loss: Option<BurstLoss>,
    /// `false`: the link goes silently down. What waits is lost, what has left
    /// still arrives, and nothing tells the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
}

fn none<R>() -> Option<R> {
    None
}

impl<R> Default for LinkChange<R> {
    fn default() -> Self {
        Self {
            rate: None,
            delay: None,
            jitter: None,
            queue: None,
            loss: None,
            burst_loss: None,
            up: None,
        }
    }
}

impl<R> LinkChange<R> {
    /// Only the rate changes.
    pub fn rate(rate: R) -> Self {
        Self {
            rate: Some(rate),
            ..Self::default()
        }
    }

    /// The link goes silently down.
    pub fn down() -> Self {
        Self {
            up: Some(false),
            ..Self::default()
        }
    }

    /// The link comes back.
    pub fn up() -> Self {
        Self {
            up: Some(true),
            ..Self::default()
        }
    }
}

pub(super) fn probability<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    let p = f64::deserialize(d)?;
    if (0.0..=1.0).contains(&p) {
        Ok(p)
    } else {
        Err(serde::de::Error::custom(format!(
            "a probability goes from 0 to 1, not {p}"
        )))
    }
}

fn optional_probability<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
    probability(d).map(Some)
}
