//! What an experiment file says about links.
//!
//! ```toml
//! [[medium]]                      # what links share
//! name = "wifi"                   # airtime, both directions, one packet at a time
//! frame_overhead = "159us"        # of each packet, beside the time of its octets
//! band = "2.4GHz"                 # that of Bluetooth, with the same antenna
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
//! hold = "5ms"                    # frame aggregation; or until `hold_bytes` wait
//! medium = "wifi"
//! signal_dbm = [["0s", -51], ["9s", -68]]    # as the primary sees it, in virtual time
//! radio = "wifi-2012"             # the near host's, holds packets while it wakes
//! far_radio = "wifi-2012"
//!
//! [[link.change]]
//! at = "2s"
//! carrier = false                 # goes down so that hosts see it; `alive = false`: silently
//!
//! [[link]]                        # a pipe over emulated Bluetooth
//! name = "bt"
//! from = "primary"
//! to = "phone"
//! bluetooth = { signal_dbm = [["0s", -50], ["10s", -80]] }
//! ```

use std::time::Duration;

use mpbond_price::{PipeRadios, radio};
use mpbond_radio::Profiles;
use mpbond_radio::machine::BluetoothParameters;
use mpbond_radio::profile::Radios;
use mpbond_sim::link::{BurstLoss, LinkChangeSpec, LinkSpec, Medium, Queue, RateSpec};
use mpbond_units::BitRate;
use mpbond_units::duration_text;
use serde::Deserialize;
use toml::Spanned;

use super::terms::Direction;

/// A link between two hosts: emulated when it has rates or is one of Bluetooth, a plain wire
/// otherwise.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Name, also of its network interface on both hosts.
    pub name: Spanned<String>,
    /// Name of the near host.
    pub from: Spanned<String>,
    /// Name of the far host.
    pub to: Spanned<String>,
    /// Rate from the far host to the near one. Recordings are named relative to the experiment file
    /// and begin at their offset with each transfer.
    pub down: Option<RateSpec>,
    /// Rate from the near host to the far one.
    pub up: Option<RateSpec>,
    /// One-way propagation delay, the same both ways.
    #[serde(default, with = "duration_text")]
    pub delay: Duration,
    /// Maximum additional delay, evenly distributed.
    #[serde(default, with = "duration_text")]
    pub jitter: Duration,
    /// Drop-tail queue per direction.
    #[serde(default = "default_queue")]
    pub queue: Queue,
    /// Probability that a packet is lost, both ways.
    #[serde(default)]
    pub loss: f64,
    /// Losses in bursts in addition, drawn for each direction separately.
    #[serde(default)]
    pub burst_loss: BurstLoss,
    /// Frame aggregation, in both directions: time for which packets wait for others, from the
    /// first that waits.
    #[serde(default, with = "duration_text::option")]
    pub hold: Option<Duration>,
    /// IP bytes that end the waiting; an A-MPDU of 802.11n (65535) if not given.
    pub hold_bytes: Option<u64>,
    /// Name of the shared [`MediumSpec`].
    pub medium: Option<Spanned<String>>,
    /// Profile of the near host's radio, which holds packets of both directions while it wakes up
    /// or does not listen. Links of one host on one medium share one radio.
    pub radio: Option<Spanned<String>>,
    /// Profile of the far host's radio.
    pub far_radio: Option<Spanned<String>>,
    /// The link is an emulated one of Bluetooth, between Unix sockets.
    pub bluetooth: Option<BluetoothSpec>,
    /// Whether its bytes are counted as metered, as those of a cellular contract.
    #[serde(default)]
    pub metered: bool,
    /// Strength of its signal in dBm, as the primary sees it, from each time after the start of a
    /// transfer on; schemes may have thresholds of it. What it carries is that of its rates. Only
    /// in files with `simulated = true`.
    #[serde(default)]
    pub signal_dbm: Vec<(duration_text::Text, f64)>,
    /// Changes during transfers.
    #[serde(rename = "change", default)]
    pub changes: Vec<Change>,
}

/// An emulated link of Bluetooth between a primary, as the wearable, and a helper, as the phone.
/// `radio` and `far_radio` of the link name their profiles.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BluetoothSpec {
    /// Strength of the signal in dBm from each time after the start of a transfer on. Losses by
    /// strength are assumed.
    #[serde(default)]
    pub signal_dbm: Vec<(duration_text::Text, f64)>,
}

/// A medium shared by several links, or by the two directions of a link.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediumSpec {
    /// Name that links refer to.
    pub name: Spanned<String>,
    /// Rate of all links together; airtime is shared where there is none (see
    /// [`mpbond_sim::link::Medium::rate`]).
    pub rate: Option<BitRate>,
    /// Time that each packet occupies the medium beside that of its octets (see
    /// [`mpbond_sim::link::Medium::frame_overhead`]).
    #[serde(default, with = "duration_text")]
    pub frame_overhead: Duration,
    /// How often a packet that is lost is sent again; airtime of each try counts (see
    /// [`mpbond_sim::link::Link::with_retries`]).
    #[serde(default)]
    pub retries: u32,
    /// Whether the two directions share the medium.
    #[serde(default)]
    pub duplex: Duplex,
    /// Band of WiFi. In that of 2.4 GHz, the file's Bluetooth link has the same antenna
    /// ([`mpbond_sim::link::Models::band`]).
    pub band: Option<WifiBand>,
}

/// Band of WiFi.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum WifiBand {
    /// That of Bluetooth.
    #[serde(rename = "2.4GHz")]
    OfBluetooth,
    /// Apart from Bluetooth.
    #[serde(rename = "5GHz")]
    Apart,
}

impl MediumSpec {
    /// The model of the medium.
    pub(crate) fn medium(&self) -> Medium {
        Medium {
            rate: self.rate,
            frame_overhead: self.frame_overhead,
            shares_antenna: self.shares_antenna(),
        }
    }

    /// Whether Bluetooth has the same antenna.
    pub(crate) fn shares_antenna(&self) -> bool {
        self.band == Some(WifiBand::OfBluetooth)
    }
}

/// Use of a medium by the two directions of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Duplex {
    /// They alternate, as on WiFi.
    #[default]
    Half,
    /// Each has a medium of its own, as in a cell with two frequencies.
    Full,
}

/// A change of a link during a transfer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Name of the link, in a workload's change; a link's own change has none.
    pub link: Option<Spanned<String>>,
    /// Time from the start of the transfer.
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
    /// `false`: all packets are dropped silently; `true` ends that.
    pub alive: Option<bool>,
    /// `false`: the link goes down, and the near host's device loses its carrier; on a pipe both
    /// hosts' devices do. Routes over it vanish, and programs get "network is unreachable". `true`
    /// ends that.
    pub carrier: Option<bool>,
}

pub(crate) fn default_queue() -> Queue {
    Queue::Time(Duration::from_millis(100))
}

/// The parameters of a radio for Bluetooth.
pub(crate) fn bluetooth_radio(
    profiles: &Profiles,
    name: &str,
) -> Result<BluetoothParameters, String> {
    let profile = profiles.radio(name).map_err(|e| e.to_string())?;
    match &profile.radio {
        Radios::Bluetooth(parameters) => Ok((**parameters).clone()),
        _ => Err(format!("\"{name}\" is no radio for Bluetooth")),
    }
}

impl Link {
    /// Strength of its signal in dBm, from each time after the start of a transfer on.
    pub(crate) fn signals(&self) -> &[(duration_text::Text, f64)] {
        let of_bluetooth = self.bluetooth.as_ref().map(|spec| &spec.signal_dbm);
        of_bluetooth.unwrap_or(&self.signal_dbm)
    }

    /// Whether the lab plays it. Otherwise it is a plain wire.
    pub(crate) fn is_played(&self) -> bool {
        self.down.is_some() || self.bluetooth.is_some()
    }

    /// Profiles of the radios of a Bluetooth link.
    pub(crate) fn bluetooth_radios(&self) -> [&str; 2] {
        fn or<'a>(given: Option<&'a Spanned<String>>, usual: &'a str) -> &'a str {
            given.map_or(usual, |name| name.get_ref())
        }
        let near = or(self.radio.as_ref(), "watch-bt");
        [near, or(self.far_radio.as_ref(), "phone-bt")]
    }

    /// Radios of a pipe, if it names both and primaries know them.
    pub(crate) fn pipe_radios(&self) -> Option<PipeRadios> {
        let [near, far] = match self.bluetooth {
            Some(_) => self.bluetooth_radios(),
            None => [
                self.radio.as_ref()?.get_ref().as_str(),
                self.far_radio.as_ref()?.get_ref().as_str(),
            ],
        };
        Some(PipeRadios {
            near: radio(near)?,
            far: Some(radio(far)?),
        })
    }

    /// Model of one direction, with recordings by name; `None` for a plain wire.
    pub(crate) fn model(&self, direction: Direction) -> Option<LinkSpec> {
        let rate = self.rate(direction).cloned()?;
        let mut model = LinkSpec::new(rate)
            .with_delay(self.delay)
            .with_queue(self.queue);
        model.jitter = self.jitter;
        model.loss = self.loss;
        model.burst_loss = self.burst_loss;
        model.hold = self.hold.unwrap_or(model.hold);
        model.hold_bytes = self.hold_bytes.unwrap_or(model.hold_bytes);
        Some(model)
    }

    /// Rate of one direction.
    pub(crate) fn rate(&self, direction: Direction) -> Option<&RateSpec> {
        match direction {
            Direction::Down => self.down.as_ref(),
            Direction::Up => self.up.as_ref(),
        }
    }

    /// All rates, those of changes included.
    pub(super) fn rates(&self) -> impl Iterator<Item = &RateSpec> {
        let changed = self.changes.iter().flat_map(|c| [&c.down, &c.up]);
        [&self.down, &self.up].into_iter().chain(changed).flatten()
    }
}

impl Change {
    /// The change of one direction.
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

    /// Whether it takes the link down (`Some(false)`) or up (`Some(true)`).
    pub(crate) fn is_up(&self) -> Option<bool> {
        match (self.alive, self.carrier) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (alive, carrier) => alive.or(carrier),
        }
    }
}
