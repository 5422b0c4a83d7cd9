//! Control messages, their fields and their JSON form.

use std::net::SocketAddr;
use std::time::Duration;

use mpbond_units::BitRate;
use serde::{Deserialize, Deserializer, Serialize};

use super::{ChannelKey, Ticket};
use crate::l2::Mac;

/// Version of the control protocol. Both ends send theirs in [`Message::Hello`]; the lower one is
/// used. Fields and message types may be added within a version: a receiver ignores those that it
/// does not know.
pub const VERSION: u32 = 1;

/// Identifies a request and its answer. Chosen by the primary, unique within a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub u64);

/// One message of the control connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// First message of each end.
    Hello {
        /// Highest version supported.
        version: u32,
        /// Display name; identity is the TLS key.
        #[serde(deserialize_with = "printable_text")]
        name: String,
    },
    /// Primary: open a relay for the first subflow of a session (INIT_MP).
    InitMp {
        /// Identifies the answer.
        request: RequestId,
        /// Proxy to relay to.
        proxy: SocketAddr,
        /// Further addresses of the same proxy, in order of preference.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<SocketAddr>,
        /// Maximum payload of a segment (TCP_MAXSEG) on the HS-Path: larger packets do not seem to
        /// pass.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_segment_bytes: Option<u16>,
    },
    /// Primary: open a relay for a further subflow (INIT_MP_JOIN).
    InitMpJoin {
        /// Identifies the answer.
        request: RequestId,
        /// Proxy to relay to.
        proxy: SocketAddr,
        /// Further addresses of the same proxy, in order of preference.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<SocketAddr>,
        /// Marks an express: a second subflow through this helper to the same proxy, idle nearly
        /// always. No keepalive is sent on it, so that no radio is woken, and it ends with this
        /// connection.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        express: bool,
        /// Maximum payload of a segment (TCP_MAXSEG) on the HS-Path: larger packets do not seem to
        /// pass.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_segment_bytes: Option<u16>,
    },
    /// Primary: measure the pipe by a connection that ends in the helper.
    MeasurePipe {
        /// Identifies the answer.
        request: RequestId,
        /// Direction in which the connection carries octets.
        direction: Direction,
    },
    /// Primary: offers a channel over Ethernet frames, in which a relay is opened as over TCP.
    L2Offer {
        /// Identifies the answer: [`Message::L2Accept`] or [`Message::Refused`].
        request: RequestId,
        /// Address of the primary's interface.
        #[serde(with = "as_text")]
        mac: Mac,
        /// Number of the channel.
        channel: u32,
        /// Key of its frames' tags.
        key: ChannelKey,
    },
    /// Helper: its end of the channel is open.
    L2Accept {
        /// The offer answered.
        request: RequestId,
        /// Address of the helper's interface.
        #[serde(with = "as_text")]
        mac: Mac,
    },
    /// Either end: its end of a channel has failed. Frames may not tell the other one.
    L2Closed {
        /// Number of the channel.
        channel: u32,
        /// Reason as text for the user.
        #[serde(deserialize_with = "printable_text")]
        reason: String,
    },
    /// Helper: grants a ticket with which the relay or the measurement may be opened.
    Relay {
        /// The request answered; also identifies the relay in reports.
        request: RequestId,
        /// Valid for one connection within [`super::TICKET_LIFETIME`].
        ticket: Ticket,
    },
    /// Helper: refuses a relay, a measurement or a channel.
    Refused {
        /// The request answered.
        request: RequestId,
        /// Reason code.
        code: RefusalCode,
        /// Reason as text for the user.
        #[serde(deserialize_with = "printable_text")]
        reason: String,
    },
    /// Helper: battery, budget and links; sent on change.
    HelperState(HelperState),
    /// Helper: measurements of one relay.
    Report(RelayReport),
    /// Either end: asks for a [`Message::Pong`].
    Ping {
        /// Returned in the answer.
        token: u64,
    },
    /// Either end: answers a [`Message::Ping`].
    Pong {
        /// Token of the [`Message::Ping`].
        token: u64,
    },
    /// Either end: closes the connection.
    Bye {
        /// Reason as text for the user.
        #[serde(deserialize_with = "printable_text")]
        reason: String,
    },
    /// A message of an unknown type; ignored.
    #[serde(other, skip_serializing)]
    Unknown,
}

/// Direction of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Towards the primary.
    Down,
    /// Away from it.
    Up,
}

/// Reason code for refusing a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// The helper's policy does not list this proxy.
    ProxyNotAllowed,
    /// The monthly budget is used up.
    BudgetSpent,
    /// The owner has switched lending off.
    SwitchedOff,
    /// The battery is low.
    BatteryLow,
    /// The limit of simultaneous relays is reached.
    TooMany,
    /// The proxy cannot be reached.
    Unreachable,
    /// An unknown reason code.
    #[serde(other)]
    Other,
}

/// State of a helper. A field is `None` when the helper does not know or disclose it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HelperState {
    /// Battery charge in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub battery_percent: Option<u8>,
    /// Whether the battery is being charged, or full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charging: Option<bool>,
    /// Whether the data of the link that it lends is charged by volume, as its owner states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metered: Option<bool>,
    /// Bytes left of the monthly budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_left: Option<u64>,
    /// Links to the Internet.
    #[serde(default)]
    pub links: Vec<LinkState>,
}

/// One link of a helper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkState {
    /// Technology.
    pub kind: LinkKind,
    /// Signal strength in dBm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_dbm: Option<i16>,
}

/// Technology of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// Wired Ethernet.
    Ethernet,
    /// IEEE 802.11.
    Wifi,
    /// UMTS (3G).
    Umts,
    /// LTE (4G).
    Lte,
    /// 5G NR.
    Nr,
    /// Another technology.
    #[serde(other)]
    Other,
}

/// A helper's measurements of one relay, from which the primary computes path delays (MPBond
/// section 4.3.2): the pipe as its sender sees it, and the buffer between the two hops.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RelayReport {
    /// Sequence number of the report on this relay; a report with a lower number than the last one
    /// received is stale.
    pub number: u64,
    /// The request that opened the relay.
    pub relay: RequestId,
    /// Throughput of the pipe towards the primary (Th_p).
    #[serde(with = "as_bps", default)]
    pub th_p: Option<BitRate>,
    /// Round-trip time of the pipe.
    #[serde(with = "as_micros", default)]
    pub pipe_rtt: Option<Duration>,
    /// Bytes buffered for the primary (B_p).
    pub level_down_bytes: u64,
    /// Bytes buffered for the proxy (B_h).
    pub level_up_bytes: u64,
    /// Throughput of the HS-Path towards the proxy (Th_hs of an uplink).
    #[serde(with = "as_bps", default)]
    pub th_hs: Option<BitRate>,
    /// Round-trip time of the HS-Path.
    #[serde(with = "as_micros", default)]
    pub hs_rtt: Option<Duration>,
    /// Time since the last byte on the HS-Path, either direction.
    #[serde(with = "as_micros", default)]
    pub since_hs_byte: Option<Duration>,
    /// Time since the last byte received on the HS-Path. The pipe stays busy while the helper holds
    /// bytes; its cellular radio may be idle by then, and feedback should not wake it.
    #[serde(with = "as_micros", default)]
    pub since_hs_down: Option<Duration>,
    /// Sojourn time at the helper of the last byte sent to the primary.
    #[serde(with = "as_micros", default)]
    pub sojourn_down: Option<Duration>,
    /// Sojourn time at the helper of the last byte sent to the proxy.
    #[serde(with = "as_micros", default)]
    pub sojourn_up: Option<Duration>,
    /// Throughput of the HS-Path towards the helper, over the last fifth of a second. Unknown where
    /// little arrived, or where the helper was the limit: by a full buffer, or as own traffic held
    /// bytes back.
    #[serde(with = "as_bps", default, skip_serializing_if = "Option::is_none")]
    pub th_hs_down: Option<BitRate>,
    /// Most bytes that are buffered for the primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_down_bytes: Option<u64>,
    /// Rate at which all relays of the helper's link together may read from their HS-Paths, where
    /// own traffic of the helper limits it.
    #[serde(with = "as_bps", default, skip_serializing_if = "Option::is_none")]
    pub limit_down: Option<BitRate>,
    /// The same of their pipes.
    #[serde(with = "as_bps", default, skip_serializing_if = "Option::is_none")]
    pub limit_up: Option<BitRate>,
    /// Whether bytes of this relay have waited for `limit_down` since the report before, for so
    /// long that their rate is not that of the link.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held_back_down: bool,
    /// The same of `limit_up`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held_back_up: bool,
    /// Age of these measurements when sent.
    #[serde(with = "as_micros", default)]
    pub age: Option<Duration>,
}

/// Maximum length of a received name or reason in octets; longer ones are cut.
const MAX_TEXT_BYTES: usize = 256;

/// Text of a peer, made printable when it is decoded, because it is shown on terminals.
fn printable_text<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
    Ok(mpbond_units::printable(&text, MAX_TEXT_BYTES))
}

/// Serialization as text.
mod as_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<T: Display, S: Serializer>(value: &T, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(value)
    }

    pub fn deserialize<'de, T, D>(d: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(Error::custom)
    }
}

/// Serialization of rates as whole bits per second.
mod as_bps {
    use mpbond_units::BitRate;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(rate: &Option<BitRate>, s: S) -> Result<S::Ok, S::Error> {
        rate.map(BitRate::bps).serialize(s)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<BitRate>, D::Error> {
        Ok(Option::<u64>::deserialize(d)?.map(BitRate::from_bps))
    }
}

/// Serialization of durations as whole microseconds.
mod as_micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(span: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
        let micros = |d: &Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        span.as_ref().map(micros).serialize(s)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(d)?.map(Duration::from_micros))
    }
}
