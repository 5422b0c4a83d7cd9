//! One case: networks, radios, traffic and decisions.

use std::time::Duration;

use mpbond_radio::Profiles;
use mpbond_radio::machine::BluetoothParameters;
use mpbond_radio::profile;
use mpbond_sim::link::SUPERVISION_TIMEOUT;
use mpbond_sim::wear::{
    Connects, HandoverMode, Interference, Joining, Network, Paths, Radios, Rule, Setup, Traffic,
    Walk, Wifi,
};
use mpbond_units::{BitRate, Size, Timestamp, duration_text};
use serde::Deserialize;

/// Packet of a constant rate, in bytes.
const PACKET_BYTES: u64 = 1_250;
/// Message of a messenger, in bytes.
const MESSAGE_BYTES: u64 = 1_000;
/// Half of the largest receive buffer of a Nexus 5X, 8,291,456 bytes (Wear OS paper, Table 4): the
/// kernel of that time uses as much for the window (tcp_adv_win_scale = 1).
const WINDOW_BYTES: u64 = 4_145_728;
/// Bytes in the proxy's and Bluetooth's buffers: 1.5 s, the least delay beside the TCP buffer
/// (Table 4), at 1.1 Mbit/s.
const PROXY_BYTES: u64 = 206_000;
/// When a walk begins: the transfer has run for 4 s.
const WALK_FROM: Timestamp = Timestamp::from_millis(5_000);
/// Band of a watch whose radios have one antenna, in place of a profile with published shares.
const ONE_ANTENNA: &str = "one-antenna";
/// Longest run: a day.
const MOST_SECONDS: u64 = 86_400;

/// A case as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    /// Traffic: a file, a constant rate, chunks, or as much as possible.
    bytes: Option<Size>,
    rate: Option<BitRate>,
    chunk: Option<Size>,
    #[serde(default)]
    bulk: bool,
    /// A constant rate in each of two phases, which take turns.
    rates: Option<[BitRate; 2]>,
    /// Length of a phase.
    #[serde(default, with = "duration_text::option")]
    phase: Option<Duration>,
    /// Rate from which on an application that chooses by its rate uses WiFi.
    wifi_from: Option<BitRate>,
    /// Interval of chunks.
    #[serde(default, with = "duration_text::option")]
    every: Option<Duration>,
    /// Interval of messages beside the traffic, over the same phone.
    #[serde(default, with = "duration_text::option")]
    messages: Option<Duration>,
    /// A second flow without end, over WiFi.
    #[serde(default)]
    beside: bool,
    #[serde(default = "seconds")]
    seconds: u64,
    /// Profile of the watch's Bluetooth.
    #[serde(default = "watch")]
    watch: String,
    #[serde(default = "near")]
    dbm: f64,
    /// Speed in m/s at which the watch leaves the phone.
    walk: Option<f64>,
    /// Time without the phone after which Bluetooth is lost.
    #[serde(default = "lost_after", with = "duration_text")]
    lost_after: Duration,
    #[serde(default)]
    keeper: bool,
    #[serde(default)]
    virtual_queue: bool,
    /// Interval of small packets that the watch sends.
    #[serde(default, with = "duration_text::option")]
    uplink: Option<Duration>,
    /// Receive window of the phone.
    #[serde(default = "window")]
    window: Size,
    #[serde(default = "phone")]
    phone: Net,
    wifi: Option<OwnWifi>,
    #[serde(default)]
    paths: Use,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Net {
    rate: BitRate,
    #[serde(with = "duration_text")]
    rtt: Duration,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnWifi {
    rate: BitRate,
    #[serde(with = "duration_text")]
    rtt: Duration,
    /// Rate of packets on the air, where `rate` is a bound that something else sets.
    on_air: Option<BitRate>,
    /// Profile of the band shared with Bluetooth, or [`ONE_ANTENNA`].
    band: Option<String>,
    /// Time from the decision to join it until it is switched on.
    #[serde(default, with = "duration_text")]
    on_after: Duration,
    /// Time from then until it is joined.
    #[serde(default, with = "duration_text")]
    join: Duration,
    /// That time is computed from standards, in place of `join`.
    #[serde(default)]
    by_standards: bool,
    /// Share of messages of DHCP that are lost.
    #[serde(default)]
    dhcp_loss: f64,
    /// Begin of a handover's connections over it.
    #[serde(default)]
    connects: Connects,
}

impl OwnWifi {
    /// Checks the keys of joining, in a case with these paths; the error is a sentence about one.
    fn check_join(&self, paths: Use) -> Result<(), String> {
        let wrong = if self.by_standards && !self.join.is_zero() {
            "join: not beside by_standards"
        } else if !self.by_standards && self.dhcp_loss != 0.0 {
            "dhcp_loss: needs by_standards"
        } else if !(0.0..=0.9).contains(&self.dhcp_loss) {
            "dhcp_loss: 0 to 0.9"
        } else if self.connects != Connects::Joined && paths != Use::Reactive {
            "connects: needs paths = \"reactive\""
        } else {
            return Ok(());
        };
        Err(wrong.to_owned())
    }

    fn joining(&self) -> Joining {
        match self.by_standards {
            true => Joining::ByStandards {
                dhcp_loss: self.dhcp_loss,
            },
            false => Joining::After(self.join),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Use {
    #[default]
    Phone,
    Wifi,
    Each,
    Selected,
    SelectedByDemand,
    ByRate,
    Reactive,
    OnDemand,
    AlwaysOn,
    Redundant,
    MinRtt,
}

fn seconds() -> u64 {
    160
}

fn watch() -> String {
    "watch-bt".to_owned()
}

fn near() -> f64 {
    -50.0
}

fn lost_after() -> Duration {
    SUPERVISION_TIMEOUT
}

fn window() -> Size {
    Size(WINDOW_BYTES)
}

fn phone() -> Net {
    Net {
        rate: BitRate::from_mbps(50.0),
        rtt: Duration::from_millis(20),
    }
}

impl Case {
    /// The run with this seed.
    ///
    /// # Errors
    /// What is wrong with the case.
    pub(super) fn setup(&self, seed: u64) -> Result<Setup, String> {
        if !(1..=MOST_SECONDS).contains(&self.seconds) {
            return Err(format!("seconds: 1 to {MOST_SECONDS}"));
        }
        if !(-120.0..=0.0).contains(&self.dbm) {
            return Err("dbm: -120 to 0".to_owned());
        }
        if self
            .walk
            .is_some_and(|speed| !(0.1..=10.0).contains(&speed))
        {
            return Err("walk: a speed of 0.1 to 10 m/s".to_owned());
        }
        // A Link Supervision Timeout has at most 65535 slots.
        if !(1..=40_959).contains(&self.lost_after.as_millis()) {
            return Err("lost_after: 1ms to 40.9s".to_owned());
        }
        let profiles = Profiles::shipped().map_err(|e| e.to_string())?;
        let radio = |name: &str| profiles.radio(name).map_err(|e| e.to_string());
        let bluetooth = |name: &str| -> Result<BluetoothParameters, String> {
            match &radio(name)?.radio {
                profile::Radios::Bluetooth(p) => Ok((**p).clone()),
                _ => Err(format!("the profile \"{name}\" is not of Bluetooth")),
            }
        };
        let base = profiles.device("lg-urbane").map_err(|e| e.to_string())?;
        if self.wifi_from.is_some() != (self.paths == Use::ByRate) {
            return Err("wifi_from: needed by paths = \"by-rate\", and only there".to_owned());
        }
        if self.rates.is_some() != self.phase.is_some() {
            return Err("rates: two of them, with the length of a `phase`".to_owned());
        }
        let paths = self.paths();
        let wifi = self.wifi.as_ref().map(|wifi| -> Result<Wifi, String> {
            let band = wifi.band.as_ref().map(|name| {
                if name == ONE_ANTENNA {
                    return Ok(Interference::OneAntenna);
                }
                let found = profiles.coexistence(name).map_err(|e| e.to_string())?;
                Ok::<_, String>(Interference::Shares(found.clone()))
            });
            wifi.check_join(self.paths)?;
            if wifi.on_air.is_some_and(|rate| rate < wifi.rate) {
                return Err("on_air: not less than the rate of `wifi`".to_owned());
            }
            if wifi.on_air.is_some() && wifi.band.as_deref() != Some(ONE_ANTENNA) {
                return Err(format!("on_air: needs band = \"{ONE_ANTENNA}\""));
            }
            Ok(Wifi {
                network: network(wifi.rate, wifi.rtt)?,
                on_air: wifi.on_air,
                band: band.transpose()?,
                on_after: wifi.on_after,
                join: wifi.joining(),
                connects: wifi.connects,
            })
        });
        let wifi = wifi.transpose()?;
        if wifi.is_none() && paths != Paths::Phone {
            return Err("wifi: these paths need it".to_owned());
        }
        Ok(Setup {
            radios: Radios {
                watch: bluetooth(&self.watch)?,
                phone: bluetooth("phone-bt")?,
                watch_wifi: radio("watch-wifi")?.clone(),
                phone_wifi: radio("wifi-s4")?.clone(),
                relaying_phone: radio("phone-proxy-wearos")?.clone(),
                watch_base_mw: base.parameters.base.get(),
            },
            phone: network(self.phone.rate, self.phone.rtt)?,
            wifi,
            window_bytes: self.window.0,
            proxy_bytes: PROXY_BYTES,
            virtual_queue: self.virtual_queue,
            keeper: self.keeper,
            uplink_every: interval("uplink", self.uplink)?,
            paths,
            dbm: self.dbm,
            lost_after: self.lost_after,
            walk: self.walk.map(|speed| Walk {
                from: WALK_FROM,
                speed,
            }),
            flows: self.flows()?,
            until: Timestamp::from_millis(1_000 * (1 + self.seconds)),
            seed,
        })
    }

    fn paths(&self) -> Paths {
        match self.paths {
            Use::Phone => Paths::Phone,
            Use::Wifi => Paths::Wifi,
            Use::Each => Paths::Each,
            Use::Selected => Paths::Selected(Rule::Published),
            Use::SelectedByDemand => Paths::Selected(Rule::DemandAware),
            Use::ByRate => Paths::ByRate(self.wifi_from.unwrap_or(BitRate::ZERO)),
            Use::Reactive => Paths::Handover(HandoverMode::Reactive),
            Use::OnDemand => Paths::Handover(HandoverMode::OnDemand),
            Use::AlwaysOn => Paths::Handover(HandoverMode::AlwaysOn),
            Use::Redundant => Paths::Redundant,
            Use::MinRtt => Paths::MinRtt,
        }
    }

    fn flows(&self) -> Result<Vec<Traffic>, String> {
        let every = interval("every", self.every)?;
        let bulk = self.bulk.then_some(());
        let interval_at = |rate: BitRate| match rate.bps() {
            1_000..=100_000_000 => Ok(rate.time_for(PACKET_BYTES)),
            _ => Err("rate: 1 kbit/s to 100 Mbit/s".to_owned()),
        };
        let rates = self.rates.zip(interval("phase", self.phase)?);
        let chunks = self.chunk.zip(every);
        let first = match (self.bytes, self.rate, rates, chunks, bulk) {
            (Some(bytes), None, None, None, None) => Traffic::Bulk {
                bytes: Some(bytes.0),
            },
            (None, Some(rate), None, None, None) => Traffic::Chunks {
                bytes: PACKET_BYTES,
                every: interval_at(rate)?,
            },
            (None, None, Some(([one, other], phase)), None, None) => Traffic::InTurn {
                bytes: PACKET_BYTES,
                every: [interval_at(one)?, interval_at(other)?],
                phase,
            },
            (None, None, None, Some((chunk, every)), None) => Traffic::Chunks {
                bytes: chunk.0.min(1 << 20),
                every,
            },
            (None, None, None, None, Some(())) => Traffic::Bulk { bytes: None },
            _ => {
                return Err("bytes, rate, rates, chunk with every, or bulk: one of them".to_owned());
            }
        };
        let messages = interval("messages", self.messages)?.map(|every| Traffic::Chunks {
            bytes: MESSAGE_BYTES,
            every,
        });
        let beside = self.beside.then_some(Traffic::Bulk { bytes: None });
        Ok([Some(first), messages, beside]
            .into_iter()
            .flatten()
            .collect())
    }
}

fn interval(key: &str, every: Option<Duration>) -> Result<Option<Duration>, String> {
    let short = every.is_some_and(|every| every < Duration::from_millis(1));
    match short {
        true => Err(format!("{key}: at least 1ms")),
        false => Ok(every),
    }
}

fn network(rate: BitRate, rtt: Duration) -> Result<Network, String> {
    match rate.bps() {
        10_000..=1_000_000_000 => Ok(Network { rate, rtt }),
        _ => Err("rate of a network: 10 kbit/s to 1 Gbit/s".to_owned()),
    }
}
