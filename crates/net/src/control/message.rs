use std::net::SocketAddr;
use std::time::Duration;

use mpbond_units::BitRate;
use serde::{Deserialize, Serialize};

use super::Ticket;

/// The version of this conversation. Both ends say theirs in
/// [`Message::Hello`]; the lower one is spoken. Fields and messages may be
/// added within a version: what a reader does not know, it skips.
pub const VERSION: u32 = 1;

/// Names a request, so that its answer can be told from others. Chosen by the
/// primary, and never used twice on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub u64);

/// One message of the control connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// First message of either end.
    Hello {
        /// Highest version spoken.
        version: u32,
        /// A name for people to read; identity is the TLS key.
        name: String,
    },
    /// Primary: open a relay for the first subflow of a session (INIT_MP).
    InitMp {
        /// Names the answer.
        request: RequestId,
        /// The proxy to relay to.
        proxy: SocketAddr,
    },
    /// Primary: open a relay for a further subflow (INIT_MP_JOIN).
    InitMpJoin {
        /// Names the answer.
        request: RequestId,
        /// The proxy to relay to.
        proxy: SocketAddr,
        /// It is idle nearly always, beside another one to the same proxy (an express): no
        /// keepalive shall wake a radio for it, and it ends with this connection.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        express: bool,
    },
    /// Helper: the relay may be opened with this ticket.
    Relay {
        /// What this answers; also names the relay in reports.
        request: RequestId,
        /// Good for one connection within [`super::TICKET_LIFETIME`].
        ticket: Ticket,
    },
    /// Helper: there will be no relay.
    Refused {
        /// What this answers.
        request: RequestId,
        /// Why, for programs.
        code: RefusalCode,
        /// Why, for people.
        reason: String,
    },
    /// Helper: how it is doing; sent when it changes.
    HelperState(HelperState),
    /// Helper: how a relay is doing.
    Report(RelayReport),
    /// Either end: are you there?
    Ping {
        /// Comes back in the answer.
        token: u64,
    },
    /// Either end: yes.
    Pong {
        /// The token of the [`Message::Ping`].
        token: u64,
    },
    /// Either end: no more from me.
    Bye {
        /// Why, for people.
        reason: String,
    },
    /// A message of a later version; skipped.
    #[serde(other, skip_serializing)]
    Unknown,
}

/// Why a helper opens no relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// Its policy does not name this proxy.
    ProxyNotAllowed,
    /// Its monthly budget is used up.
    BudgetSpent,
    /// Its owner has switched lending off.
    SwitchedOff,
    /// Its battery is low.
    BatteryLow,
    /// It serves as many relays as it can.
    TooMany,
    /// It could not reach the proxy.
    Unreachable,
    /// A reason of a later version.
    #[serde(other)]
    Other,
}

/// How a helper is doing. What it can't or won't tell is `None`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HelperState {
    /// Charge of its battery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub battery_percent: Option<u8>,
    /// Bytes its owner still lends this month.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_left: Option<u64>,
    /// Its links to the Internet.
    #[serde(default)]
    pub links: Vec<LinkState>,
}

/// One link of a helper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkState {
    /// What it is.
    pub kind: LinkKind,
    /// Signal strength in dBm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_dbm: Option<i16>,
}

/// What a link is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// A cable.
    Ethernet,
    /// IEEE 802.11.
    Wifi,
    /// Third generation.
    Umts,
    /// Fourth generation.
    Lte,
    /// Fifth generation.
    Nr,
    /// Something else.
    #[serde(other)]
    Other,
}

/// What a helper knows about one relay and the primary needs for its path
/// delays: the pipe hop as its sender sees it, and the buffer between the hops.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RelayReport {
    /// Counts the reports of this relay; a lower number than the last one seen
    /// is old news.
    pub number: u64,
    /// The relay: the request that opened it.
    pub relay: RequestId,
    /// Throughput of the pipe towards the primary (Th_p).
    #[serde(with = "as_bps", default)]
    pub th_p: Option<BitRate>,
    /// Round-trip time of the pipe.
    #[serde(with = "as_micros", default)]
    pub pipe_rtt: Option<Duration>,
    /// Bytes held that go to the primary.
    pub level_down_bytes: u64,
    /// Bytes held that go to the proxy.
    pub level_up_bytes: u64,
    /// Throughput of the HS-Path towards the proxy (Th_hs of an uplink).
    #[serde(with = "as_bps", default)]
    pub th_hs: Option<BitRate>,
    /// Round-trip time of the HS-Path.
    #[serde(with = "as_micros", default)]
    pub hs_rtt: Option<Duration>,
    /// Time since the last byte passed the HS-Path, either way.
    #[serde(with = "as_micros", default)]
    pub since_hs_byte: Option<Duration>,
    /// Time since the last byte came down the HS-Path. The pipe goes on for as
    /// long as the helper holds bytes; its radio may long be at rest by then,
    /// and feedback should not wake it.
    #[serde(with = "as_micros", default)]
    pub since_hs_down: Option<Duration>,
    /// How long the last byte that left for the primary had been at the helper.
    #[serde(with = "as_micros", default)]
    pub sojourn_down: Option<Duration>,
    /// The same towards the proxy.
    #[serde(with = "as_micros", default)]
    pub sojourn_up: Option<Duration>,
    /// How old these readings were when sent.
    #[serde(with = "as_micros", default)]
    pub age: Option<Duration>,
}

/// Rates travel as whole bits per second.
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

/// Spans travel as whole microseconds.
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
