//! Configuration of a link: rate, delay, jitter, queue, losses.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use mpbond_units::{BitRate, duration_text};
use serde::{Deserialize, Serialize};

use super::burst::BurstLoss;
use super::probability::{optional_probability, probability};
use crate::trace::{MahimahiTrace, RateProfile};

/// Rate of a link over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rate {
    /// A constant rate.
    Constant(BitRate),
    /// No limit: packets leave when they arrive.
    Unlimited,
    /// Steps: each rate holds from its instant to the next one, the last one for ever. Instants
    /// count from the start of the link (or from the change that brought the schedule) and must not
    /// decrease. Before the first instant the first rate holds. A schedule without entries never
    /// sends.
    Schedule(Vec<(Duration, BitRate)>),
    /// Packet opportunities of a recorded link, repeated for ever.
    Mahimahi {
        /// The recording.
        trace: Arc<MahimahiTrace>,
        /// Position in the recording at the start of the link.
        offset: Duration,
    },
    /// The rates of a recorded link, repeated for ever.
    Profile {
        /// The recording.
        profile: Arc<RateProfile>,
        /// Position in the recording at the start of the link.
        offset: Duration,
    },
}

/// Bound of a drop-tail queue. The packet that is being sent counts until its last bit has left. An
/// empty queue takes any packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "QueueText", into = "QueueText")]
pub enum Queue {
    /// Up to this many IP bytes. As text: `"150000 bytes"`.
    Bytes(u64),
    /// Bytes that the link sends in this time at its current rate, but at least two full packets. A
    /// recording counts with its mean rate, since a device's buffer does not shrink with the
    /// signal. As text: `"100ms"`.
    Time(Duration),
}

impl Queue {
    /// Minimum of [`Queue::Time`]: two packets of 1500 bytes, so that one can wait behind the one
    /// being sent on very slow links, too.
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

/// Configuration of one direction of a link. `R` is [`Rate`], or [`super::RateSpec`] in an
/// experiment file, where trace files are still names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig<R = Rate> {
    /// Rate.
    pub rate: R,
    /// Propagation delay, from the last bit's departure to the packet's arrival.
    #[serde(default, with = "duration_text")]
    pub delay: Duration,
    /// Additional delay of each packet, uniformly distributed from 0 to this. Packets are not
    /// reordered.
    #[serde(default, with = "duration_text")]
    pub jitter: Duration,
    /// Queue bound.
    #[serde(default = "default_queue")]
    pub queue: Queue,
    /// Probability that a packet is lost before it enters the queue, independently of others.
    #[serde(default, deserialize_with = "probability")]
    pub loss: f64,
    /// Losses in bursts, in addition.
    #[serde(default, skip_serializing_if = "BurstLoss::is_none")]
    pub burst_loss: BurstLoss,
    /// Frame aggregation: time for which packets wait in the queue for others, counted from the
    /// first that waits. Zero: they do not wait.
    #[serde(
        default,
        with = "duration_text",
        skip_serializing_if = "Duration::is_zero"
    )]
    pub hold: Duration,
    /// IP bytes that end the waiting earlier.
    #[serde(
        default = "default_hold_bytes",
        skip_serializing_if = "is_default_hold_bytes"
    )]
    pub hold_bytes: u64,
}

/// Maximum length of an A-MPDU of 802.11n.
fn default_hold_bytes() -> u64 {
    65_535
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's form
fn is_default_hold_bytes(bytes: &u64) -> bool {
    *bytes == default_hold_bytes()
}

/// Queue of links in our experiments for which the paper gives no size.
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
            hold: Duration::ZERO,
            hold_bytes: default_hold_bytes(),
        }
    }

    /// Sets the propagation delay.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Lets packets wait for others, for `hold` or until `bytes` wait.
    #[must_use]
    pub fn with_hold(mut self, hold: Duration, bytes: u64) -> Self {
        self.hold = hold;
        self.hold_bytes = bytes;
        self
    }

    /// Sets the queue bound.
    #[must_use]
    pub fn with_queue(mut self, queue: Queue) -> Self {
        self.queue = queue;
        self
    }
}

/// Change of a running link. Fields that are `None` stay.
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
    /// New queue bound. Packets that wait stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// New loss probability.
    #[serde(
        default,
        deserialize_with = "optional_probability",
        skip_serializing_if = "Option::is_none"
    )]
    pub loss: Option<f64>,
    /// New losses in bursts, beginning in the good state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_loss: Option<BurstLoss>,
    /// `false`: the link goes down silently. Packets that wait are lost, packets that have left
    /// arrive, and the sender gets no error.
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
    /// A change of the rate.
    pub fn rate(rate: R) -> Self {
        Self {
            rate: Some(rate),
            ..Self::default()
        }
    }

    /// The link goes down silently.
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
