//! Values as people write them in configuration files.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use mpbond_net::DeviceId;
use mpbond_net::dest::Rule;
use mpbond_net::pipe::PipeAddress;
use mpbond_price::{RADIOS, Radio, radio};
use mpbond_session::SchedulerKind;
use mpbond_units::BitRate;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

use super::ProxyAddress;
use super::primary::HelperAddress;

/// A value that is written as text.
pub(super) trait FromText: Sized {
    /// Completes "expected ...".
    const EXPECTED: &'static str;
    /// Parses it; the error is a sentence.
    fn from_text(text: &str) -> Result<Self, String>;
}

const ADDRESS: &str = "an address and port such as \"192.0.2.1:4433\" or \"[2001:db8::1]:4433\"";

impl FromText for SocketAddr {
    const EXPECTED: &'static str = ADDRESS;
    fn from_text(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|_| format!("\"{text}\" is not {ADDRESS} (names are not looked up here)"))
    }
}

/// A place to connect to that has no port. A listener may have port 0: any that is free.
fn port_zero(text: &str) -> String {
    format!("\"{text}\": nobody listens at port 0; ports are from 1 to 65535")
}

impl FromText for HelperAddress {
    const EXPECTED: &'static str = "an address and port such as \"192.168.49.2:4434\", the path of \
                                    a Unix socket such as \"unix:/run/mpbond/pipe.sock\", or \
                                    \"discover\"";
    fn from_text(text: &str) -> Result<Self, String> {
        if text == "discover" {
            return Ok(Self::Discover);
        }
        match text.parse().map(Self::At) {
            Ok(Self::At(PipeAddress::Tcp(to))) if to.port() == 0 => Err(port_zero(text)),
            parsed => parsed.map_err(|_| format!("\"{text}\" is not {}", Self::EXPECTED)),
        }
    }
}

impl FromText for PipeAddress {
    const EXPECTED: &'static str = "an address and port such as \"192.0.2.1:4434\", or the path of \
                                    a Unix socket such as \"unix:/run/mpbond/pipe.sock\"";
    fn from_text(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|_| format!("\"{text}\" is not {}", Self::EXPECTED))
    }
}

impl FromText for ProxyAddress {
    const EXPECTED: &'static str =
        "an address and port such as \"192.0.2.1:4433\", or \"proxy.example.org:4433\"";
    fn from_text(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|_| format!("\"{text}\" is not {}", Self::EXPECTED))
    }
}

impl FromText for IpAddr {
    const EXPECTED: &'static str = "an address such as \"192.0.2.1\"";
    fn from_text(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|_| format!("\"{text}\" is not {}", Self::EXPECTED))
    }
}

impl FromText for IpNet {
    const EXPECTED: &'static str = "a network such as \"192.0.2.0/24\"";
    fn from_text(text: &str) -> Result<Self, String> {
        text.parse::<Self>()
            .or_else(|e| text.parse::<IpAddr>().map(Self::from).map_err(|_| e))
            .map_err(|_| format!("\"{text}\" is not {}", Self::EXPECTED))
    }
}

impl FromText for Rule {
    const EXPECTED: &'static str =
        "a destination rule such as \"198.51.100.0/24\" or \"10.0.0.7 80-443\"";
    fn from_text(text: &str) -> Result<Self, String> {
        text.parse::<Self>().map_err(|e| e.to_string())
    }
}

impl FromText for DeviceId {
    const EXPECTED: &'static str = "a device id, as `mpbond id` prints it";
    fn from_text(text: &str) -> Result<Self, String> {
        text.parse::<Self>()
            .map_err(|e| format!("{e}; `mpbond id` on that device prints its id"))
    }
}

impl FromText for SchedulerKind {
    const EXPECTED: &'static str = "a scheduler's name such as \"mpbond\"";
    fn from_text(text: &str) -> Result<Self, String> {
        text.parse()
    }
}

/// A level of a battery: a whole percentage from 1 to 100.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level(pub u8);

impl FromText for Level {
    const EXPECTED: &'static str = "a whole percentage from \"1%\" to \"100%\"";
    fn from_text(text: &str) -> Result<Self, String> {
        let digits = text.strip_suffix('%').unwrap_or_default();
        let is_whole = digits.bytes().all(|b| b.is_ascii_digit());
        let level = digits.parse().ok().filter(|_| is_whole);
        level
            .filter(|level| (1..=100).contains(level))
            .map(Self)
            .ok_or_else(|| format!("\"{text}\" is not {}", Self::EXPECTED))
    }
}

/// A radio whose energy is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct RadioName(pub &'static Radio);

impl FromText for RadioName {
    const EXPECTED: &'static str = "the name of a radio, such as \"watch-bt\"";
    fn from_text(text: &str) -> Result<Self, String> {
        radio(text).map(Self).ok_or_else(|| {
            let names = RADIOS.map(|radio| radio.name).join(", ");
            format!("\"{text}\" is not {}; radios are {names}", Self::EXPECTED)
        })
    }
}

/// Capacity of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Capacity(pub BitRate);

/// Capacities that a link may have. Of less, own traffic and relays that do not fail have too
/// little each.
const CAPACITIES: std::ops::RangeInclusive<BitRate> =
    BitRate::from_bps(1_000_000)..=BitRate::from_bps(100_000_000_000);

impl FromText for Capacity {
    const EXPECTED: &'static str = "a data rate such as \"20 Mbit/s\", from 1 Mbit/s to 100 Gbit/s";
    fn from_text(text: &str) -> Result<Self, String> {
        let rate = text.parse().ok().filter(|rate| CAPACITIES.contains(rate));
        rate.map(Self)
            .ok_or_else(|| format!("\"{text}\" is not {}", Self::EXPECTED))
    }
}

/// A resolver: an address, and a port if it is not 53.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resolver(pub SocketAddr);

impl FromText for Resolver {
    const EXPECTED: &'static str = "a resolver's address such as \"9.9.9.9\" or \"9.9.9.9:53\"";
    fn from_text(text: &str) -> Result<Self, String> {
        text.parse::<SocketAddr>()
            .or_else(|e| {
                text.parse::<IpAddr>()
                    .map(|ip| (ip, 53).into())
                    .map_err(|_| e)
            })
            .map(Self)
            .map_err(|_| format!("\"{text}\" is not {}", Self::EXPECTED))
    }
}

/// Name shown to people. Hellos carry it and bound its length in octets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name(pub String);

impl FromText for Name {
    const EXPECTED: &'static str = "a name";
    fn from_text(text: &str) -> Result<Self, String> {
        let most = mpbond_session::wire::MAX_NAME_BYTES;
        let fits = (1..=most).contains(&text.len());
        if !fits || text.trim() != text || text.chars().any(char::is_control) {
            return Err(format!(
                "a name has 1 to {most} octets, no control characters, and no spaces around it"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Name of a network interface, as Linux allows it: up to 15 octets, no slash, no space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interface(pub String);

impl FromText for Interface {
    const EXPECTED: &'static str = "a network interface's name such as \"wlan0\"";
    fn from_text(text: &str) -> Result<Self, String> {
        let wrong = |c: char| c == '/' || c.is_whitespace() || c.is_control() || c == '"';
        if text.is_empty() || text.len() > 15 || text.contains(wrong) || text == "." || text == ".."
        {
            return Err(format!(
                "\"{text}\" cannot be {}: 1 to 15 octets, no slash, no space; `ip link` lists them",
                Self::EXPECTED
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Name of a congestion control algorithm; whether the kernel has it shows when it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Congestion(pub String);

impl FromText for Congestion {
    const EXPECTED: &'static str = "a congestion control's name such as \"cubic\"";
    fn from_text(text: &str) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if text.is_empty() || text.len() > 15 || !text.chars().all(plain) {
            return Err(format!(
                "\"{text}\" cannot be {}; /proc/sys/net/ipv4/tcp_available_congestion_control \
                 lists them",
                Self::EXPECTED
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Time for which a session without any path is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResumeFor(pub Duration);

impl ResumeFor {
    /// Less than a second is too short for a path to come back; after more than an hour none does,
    /// and the session holds memory.
    const ALLOWED: std::ops::RangeInclusive<Duration> =
        Duration::from_secs(1)..=Duration::from_secs(3600);
}

impl FromText for ResumeFor {
    const EXPECTED: &'static str = "a span of time such as \"60s\", from 1s to 1h";
    fn from_text(text: &str) -> Result<Self, String> {
        mpbond_units::duration_text::parse(text)
            .ok()
            .filter(|span| Self::ALLOWED.contains(span))
            .map(Self)
            .ok_or_else(|| format!("\"{text}\" is not {}", Self::EXPECTED))
    }
}

/// Time for which open connections are served further by a daemon that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Drain(pub Duration);

impl Drain {
    /// Nobody waits longer for a daemon to end.
    const MOST: Duration = Duration::from_secs(3600);
}

impl FromText for Drain {
    const EXPECTED: &'static str = "a span of time such as \"10s\", at most 1h";
    fn from_text(text: &str) -> Result<Self, String> {
        mpbond_units::duration_text::parse(text)
            .ok()
            .filter(|span| *span <= Self::MOST)
            .map(Self)
            .ok_or_else(|| format!("\"{text}\" is not {}", Self::EXPECTED))
    }
}

/// A value that is written as text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Text<T>(pub T);

impl<'de, T: FromText> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = d.deserialize_any(Kind::of::<T>())?;
        T::from_text(&text).map(Text).map_err(D::Error::custom)
    }
}

/// One value or a list of them.
#[derive(Debug, Clone)]
pub(super) struct OneOrMore<T>(pub Vec<T>);

impl<'de, T: FromText> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let texts = d.deserialize_any(Texts(Kind::of::<T>()))?;
        let all: Result<Vec<T>, String> = texts.iter().map(|text| T::from_text(text)).collect();
        all.map(OneOrMore).map_err(D::Error::custom)
    }
}

/// Reads a text of a kind, so that an error has its place. A parser of TOML that is compiled for
/// each type of value is large.
#[derive(Clone, Copy)]
struct Kind {
    /// Completes "expected ...".
    expected: &'static str,
    check: fn(&str) -> Result<(), String>,
}

impl Kind {
    fn of<T: FromText>() -> Self {
        Self {
            expected: T::EXPECTED,
            check: |text| T::from_text(text).map(drop),
        }
    }
}

impl Visitor<'_> for Kind {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        (self.check)(text).map_err(E::custom)?;
        Ok(text.to_owned())
    }
}

impl<'de> DeserializeSeed<'de> for Kind {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<String, D::Error> {
        d.deserialize_any(self)
    }
}

/// Reads a text or a list of them.
struct Texts(Kind);

impl<'de> Visitor<'de> for Texts {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, or a list of such", self.0.expected)
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<String>, E> {
        self.0.visit_str(text).map(|one| vec![one])
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<String>, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = seq.next_element_seed(self.0)? {
            all.push(one);
        }
        Ok(all)
    }
}
