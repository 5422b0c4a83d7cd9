//! Options of a probe run.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::ProbeError;

/// Kind of probe and answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// ICMP echo request and reply.
    Icmp,
    /// A TCP connection to an open port: SYN and SYN/ACK.
    Syn,
    /// A TCP connection to a closed port: SYN and RST.
    Rst,
    /// HTTP GET on an open connection; request and response are one segment each.
    Http,
    /// A TLS 1.3 handshake on a new connection: ClientHello, and the server's flight.
    Tls,
    /// A datagram to `mpbond probe-server`; also gives one-way delays.
    Udp,
}

impl Method {
    /// Name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Icmp => "icmp",
            Self::Syn => "syn",
            Self::Rst => "rst",
            Self::Http => "http",
            Self::Tls => "tls",
            Self::Udp => "udp",
        }
    }
}

/// Options of a probe run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Target; ICMP does not use the port.
    pub target: SocketAddr,
    /// Method.
    pub method: Method,
    /// Number of probes.
    pub count: u32,
    /// Interval between probes, or between bursts of them.
    pub interval: Duration,
    /// Number of probes sent at once.
    pub burst: u32,
    /// Time after which a probe without an answer is lost.
    pub timeout: Duration,
    /// Payload of ICMP and UDP probes, in bytes.
    pub size_bytes: usize,
    /// Lead time of a packet sent before each probe in order to wake hardware up ("Toward Accurate
    /// Network Delay Measurement on Android Phones", section 6.1).
    pub warm_up: Option<Duration>,
    /// Interval between packets that keep hardware awake; they end at the first router.
    pub background: Option<Duration>,
    /// Path requested by the HTTP method.
    pub http_path: String,
    /// Server name for the TLS method, if the target is a name.
    pub server_name: Option<String>,
    /// Interface to use regardless of routes (SO_BINDTODEVICE).
    pub interface: Option<String>,
    /// Source address.
    pub source: Option<IpAddr>,
}

impl Options {
    /// Default options: ten probes, one second apart.
    pub fn new(target: SocketAddr, method: Method) -> Self {
        Self {
            target,
            method,
            count: 10,
            interval: Duration::from_secs(1),
            burst: 1,
            timeout: Duration::from_secs(2),
            size_bytes: 56,
            warm_up: None,
            background: None,
            http_path: "/".to_owned(),
            server_name: None,
            interface: None,
            source: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), ProbeError> {
        let wrong = |what: &str| Err(ProbeError::Option(what.to_owned()));
        if self.interval < Duration::from_millis(1) {
            return wrong("the interval must be at least 1 ms");
        }
        if self
            .background
            .is_some_and(|b| b < Duration::from_millis(1))
        {
            return wrong("background packets must be at least 1 ms apart");
        }
        if self
            .source
            .is_some_and(|s| s.is_ipv4() != self.target.is_ipv4())
        {
            return wrong("the source and the target must both be IPv4 or both IPv6");
        }
        if !(1..=1000).contains(&self.burst) {
            return wrong("a burst must have 1 to 1000 probes");
        }
        if self.burst > 1 && !matches!(self.method, Method::Icmp | Method::Udp) {
            return wrong("bursts are available for ICMP and UDP only");
        }
        if !(16..=65_000).contains(&self.size_bytes) {
            return wrong("a probe must have 16 to 65000 bytes");
        }
        if self.method == Method::Udp && self.size_bytes < crate::message::LEAST {
            return wrong("a UDP probe needs at least 40 bytes, for its answer's time stamps");
        }
        if self.timeout.is_zero() || self.timeout > Duration::from_secs(60) {
            return wrong("the timeout must be above 0 and at most 60 s");
        }
        if self.method == Method::Http
            && (!self.http_path.starts_with('/')
                || self.http_path.len() > 128
                || self.http_path.bytes().any(|b| b <= b' ' || b >= 127))
        {
            return wrong("the HTTP path must begin with / and have at most 128 plain characters");
        }
        Ok(())
    }
}
