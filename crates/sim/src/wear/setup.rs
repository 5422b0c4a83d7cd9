//! Description of a run: networks, radios, traffic, decisions.

use std::time::Duration;

use mpbond_radio::RadioProfile;
use mpbond_radio::machine::{Band, BluetoothParameters, CoexistenceParameters};
use mpbond_units::{BitRate, Timestamp};
use serde::Deserialize;

use super::control::{HandoverMode, Rule};
use super::joining::Joining;

/// A run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Radios of both devices.
    pub radios: Radios,
    /// The phone's network.
    pub phone: Network,
    /// WiFi of the watch; needed by all but [`Paths::Phone`].
    pub wifi: Option<Wifi>,
    /// Receive window of the phone's sockets.
    pub window_bytes: u64,
    /// Bytes that the phone's proxy holds, beside the sockets.
    pub proxy_bytes: u64,
    /// Whether the phone bounds its queue ([`VirtualQueue`](super::control::VirtualQueue)).
    pub virtual_queue: bool,
    /// Whether the watch keeps the link Active ([`SniffKeeper`](super::control::SniffKeeper)).
    pub keeper: bool,
    /// Interval of packets that the watch sends besides.
    pub uplink_every: Option<Duration>,
    /// Use of the two paths.
    pub paths: Paths,
    /// Strength of Bluetooth's signal, in dBm.
    pub dbm: f64,
    /// Time without the other end after which the link over Bluetooth is lost.
    pub lost_after: Duration,
    /// The watch leaves the phone.
    pub walk: Option<Walk>,
    /// Traffic from the server; all of it begins at 1 s.
    pub flows: Vec<Traffic>,
    /// End of the run, if the flows do not end before.
    pub until: Timestamp,
    /// Seed of losses and noise.
    pub seed: u64,
}

/// Radios.
#[derive(Debug, Clone)]
pub struct Radios {
    /// Bluetooth of the watch, with its timer.
    pub watch: BluetoothParameters,
    /// Bluetooth of the phone.
    pub phone: BluetoothParameters,
    /// WiFi of the watch, for its energy.
    pub watch_wifi: RadioProfile,
    /// WiFi of the phone, for its energy.
    pub phone_wifi: RadioProfile,
    /// Both radios of the phone together, for its energy by another model.
    pub relaying_phone: RadioProfile,
    /// Power of the watch without its radios, in mW.
    pub watch_base_mw: f64,
}

/// A network with a bottleneck.
#[derive(Debug, Clone, Copy)]
pub struct Network {
    /// Rate in each direction.
    pub rate: BitRate,
    /// Round-trip time without queues.
    pub rtt: Duration,
}

/// WiFi of the watch.
#[derive(Debug, Clone)]
pub struct Wifi {
    /// Rate in both directions together, and round trip.
    pub network: Network,
    /// Rate of its packets on the air, where that of `network` is a bound which something else
    /// sets. `None`: a packet is on the air for its bytes at the rate of `network`.
    pub on_air: Option<BitRate>,
    /// Interference with Bluetooth, in the band of 2.4 GHz.
    pub band: Option<Interference>,
    /// Time from the decision to join WiFi until it is switched on.
    pub on_after: Duration,
    /// Time from then until the watch has joined it.
    pub join: Joining,
    /// When the connections over WiFi of a handover begin.
    pub connects: Connects,
}

/// When the connections over WiFi begin. Those that begin before WiFi is joined repeat their first
/// segment after 1, 2, 4 s and so on (RFC 6298, sections 2 and 5), and wait for the next time then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connects {
    /// When WiFi is joined.
    #[default]
    Joined,
    /// When Bluetooth is lost.
    Lost,
    /// When Bluetooth's signal is too weak for any packet.
    Silent,
}

/// Interference of WiFi and Bluetooth of the watch.
#[derive(Debug, Clone)]
pub enum Interference {
    /// Each loses a share of its rate while both are busy.
    Shares(CoexistenceParameters),
    /// Both have one antenna, and WiFi goes first ([`Band::of_one_antenna`]).
    OneAntenna,
}

impl Interference {
    pub(super) fn band(&self) -> Band {
        match self {
            Self::Shares(parameters) => Band::new(parameters),
            Self::OneAntenna => Band::of_one_antenna(),
        }
    }
}

/// Use of the two paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paths {
    /// Over the phone only.
    Phone,
    /// Over WiFi only.
    Wifi,
    /// Each flow over a path of its own: the first over the phone, the others over WiFi.
    Each,
    /// Adaptive selection.
    Selected(Rule),
    /// The application chooses: WiFi while it sends at this rate or a higher one. What is under way
    /// stays where it is.
    ByRate(BitRate),
    /// Handover by the strength of Bluetooth's signal.
    Handover(HandoverMode),
    /// Every chunk on both.
    Redundant,
    /// Each chunk on the path with the shortest round trip that has room.
    MinRtt,
}

/// Traffic of a flow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Traffic {
    /// As much as possible.
    Bulk {
        /// Total; `None`: without end.
        bytes: Option<u64>,
    },
    /// Chunks at constant intervals.
    Chunks {
        /// Size of each.
        bytes: u64,
        /// Interval.
        every: Duration,
    },
    /// The same at two rates in turn.
    InTurn {
        /// Size of each chunk.
        bytes: u64,
        /// Intervals at the first rate and at the second.
        every: [Duration; 2],
        /// Time at each.
        phase: Duration,
    },
}

/// The watch moves away from the phone at a constant speed. The signal follows the path loss of
/// Recommendation ITU-R P.1238 for an office, from a transmitter of class 2 (4 dBm), less 15 dB for
/// small antennas and bodies, as for WiFi ([`crate::link::WifiPlace`]): -51 dBm at 1 m. Samples of
/// it have the noise of the recording of ADR 0023.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Walk {
    /// Beginning of the walk, at 1 m.
    pub from: Timestamp,
    /// Speed in m/s.
    pub speed: f64,
}

impl Walk {
    /// Strength of the signal, in dBm.
    pub fn dbm(&self, at: Timestamp) -> f64 {
        let metres = 1.0 + self.speed * at.since(self.from).as_secs_f64();
        let loss = 20.0 * 2441_f64.log10() + 30.0 * metres.log10() - 28.0;
        4.0 - loss - 15.0
    }
}
