//! What an experiment file says about links.
//!
//! ```toml
//! [[medium]]                      # what links share
//! name = "wifi"                   # airtime, both directions, one packet at a time
//!
//! [[medium]]
//! name = "cell"
//! rate = "15 Mbit/s"              # all links together; each has its own rate beside it
//! duplex = "full"                 # the other direction does not count
//!
//! [[link]]
//! name = "pipe"
//! from = "primary"
//! to = "phone"
//! down = { profile = "wifi.csv", unit = "byte/s", offset = "12s" }
//! up = "30 Mbit/s"
//! delay = "2ms"
//! burst_loss = { to_bad = 0.005, to_good = 0.25 }
//! medium = "wifi"
//! radio = "wifi-2012"             # the near host's, holds packets while it wakes
//! far_radio = "wifi-2012"
//!
//! [[link.change]]
//! at = "2s"
//! carrier = false                 # goes down so that hosts see it; `alive = false`: silently
//! ```

use std::time::Duration;

use mpbond_sim::duration_text;
use mpbond_sim::link::{BurstLoss, LinkChangeSpec, LinkSpec, Queue, RateSpec};
use mpbond_units::BitRate;
use serde::Deserialize;
use toml::Spanned;

use super::Direction;

/// A link between two hosts: shaped when it has rates, a plain wire otherwise.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Its name, and that of its network interface on both hosts.
    pub name: Spanned<String>,
    /// The near host.
    pub from: Spanned<String>,
    /// The far host.
    pub to: Spanned<String>,
    /// Rate from the far host to the near one. Recordings are named relative
    /// to the experiment file and begin at their offset with each transfer.
    pub down: Option<RateSpec>,
    /// Rate from the near host to the far one.
    pub up: Option<RateSpec>,
    /// One-way propagation delay, the same both ways.
    #[serde(default, with = "duration_text")]
    pub delay: Duration,
    /// Extra delay of up to this much, evenly distributed.
    #[serde(default, with = "duration_text")]
    pub jitter: Duration,
    /// Drop-tail queue per direction.
    #[serde(default = "default_queue")]
    pub queue: Queue,
    /// Probability that a packet is lost, both ways.
    #[serde(default)]
    pub loss: f64,
    /// Losses in bursts, beside those, in each direction on its own.
    #[serde(default)]
    pub burst_loss: BurstLoss,
    /// Name of the [`MediumSpec`] that it shares with others.
    pub medium: Option<Spanned<String>>,
    /// Profile of the near host's radio, which holds packets of both
    /// directions while it wakes up or does not listen. Links of one host on
    /// one medium share that host's radio.
    pub radio: Option<Spanned<String>>,
    /// Profile of the far host's radio.
    pub far_radio: Option<Spanned<String>>,
    /// Changes while a transfer runs.
    #[serde(rename = "change", default)]
    pub changes: Vec<Change>,
}

/// What the packets of several links, or of a link's two directions, share.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediumSpec {
    /// What links call it.
    pub name: Spanned<String>,
    /// What it carries, all links together, where that is not their own rates'
    /// business: see [`mpbond_sim::link::Medium::rate`].
    pub rate: Option<BitRate>,
    /// Whether a link's two directions share it.
    #[serde(default)]
    pub duplex: Duplex,
}

/// Whether two directions use a medium at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Duplex {
    /// They take turns, as on WiFi.
    #[default]
    Half,
    /// Each has a medium of its own, as in a cell with two frequencies.
    Full,
}

/// A change of a link, so long after each transfer's start.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Which link: given in a workload, not in a link, which is meant itself.
    pub link: Option<Spanned<String>>,
    /// When.
    #[serde(with = "duration_text")]
    pub at: Duration,
    /// New rate from the far host to the near one.
    pub down: Option<RateSpec>,
    /// New rate from the near host to the far one.
    pub up: Option<RateSpec>,
    /// New one-way delay.
    #[serde(default, with = "duration_text::option")]
    pub delay: Option<Duration>,
    /// New loss probability.
    pub loss: Option<f64>,
    /// New losses in bursts.
    pub burst_loss: Option<BurstLoss>,
    /// `false` drops everything silently, `true` ends that.
    pub alive: Option<bool>,
    /// `false`: the link goes down, and the near host's device loses its
    /// carrier; on a pipe both hosts' devices do. Its routes are gone, and
    /// programs are told that the network is unreachable. `true` ends that.
    pub carrier: Option<bool>,
}

fn default_queue() -> Queue {
    Queue::Time(Duration::from_millis(100))
}

impl Link {
    /// The model of one direction, still naming trace files; `None` for a
    /// plain wire.
    pub(crate) fn model(&self, direction: Direction) -> Option<LinkSpec> {
        let rate = self.rate(direction).cloned()?;
        let mut model = LinkSpec::new(rate)
            .with_delay(self.delay)
            .with_queue(self.queue);
        model.jitter = self.jitter;
        model.loss = self.loss;
        model.burst_loss = self.burst_loss;
        Some(model)
    }

    /// The rate of one direction.
    pub(crate) fn rate(&self, direction: Direction) -> Option<&RateSpec> {
        match direction {
            Direction::Down => self.down.as_ref(),
            Direction::Up => self.up.as_ref(),
        }
    }

    /// Every rate that it ever has.
    pub(super) fn rates(&self) -> impl Iterator<Item = &RateSpec> {
        let changed = self.changes.iter().flat_map(|c| [&c.down, &c.up]);
        [&self.down, &self.up].into_iter().chain(changed).flatten()
    }
}

impl Change {
    /// What changes in one direction.
    pub(crate) fn of(&self, direction: Direction) -> LinkChangeSpec {
        LinkChangeSpec {
            rate: match direction {
                Direction::Down => self.down.clone(),
                Direction::Up => self.up.clone(),
            },
            delay: self.delay,
            loss: self.loss,
            burst_loss: self.burst_loss,
            up: self.is_up(),
            ..LinkChangeSpec::default()
        }
    }

    /// Whether it takes the link away, or brings it back.
    pub(crate) fn is_up(&self) -> Option<bool> {
        match (self.alive, self.carrier) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (alive, carrier) => alive.or(carrier),
        }
    }
}
