use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::ProbeError;

/// What is sent, and what answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// ICMP echo request and reply.
    Icmp,
    /// A TCP connection to an open port: SYN and SYN/ACK.
    Syn,
    /// A TCP connection to a closed port: SYN and RST.
    Rst,
    /// HTTP GET on an open connection; request and reply are one segment each.
    Http,
    /// A TLS 1.3 handshake on a new connection: ClientHello, and the server's flight.
    Tls,
    /// A datagram to `mpbond probe-server`, which also gives one-way delays.
    Udp,
}

impl Method {
    /// As reports call it.
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

/// How to probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whom; ICMP uses no port.
    pub target: SocketAddr,
    /// How.
    pub method: Method,
    /// How many probes.
    pub count: u32,
    /// From one probe, or burst of them, to the next.
    pub interval: Duration,
    /// Probes sent at once.
    pub burst: u32,
    /// A probe is lost when it is not answered by then.
    pub timeout: Duration,
    /// Payload of ICMP and UDP probes, in bytes.
    pub size_bytes: usize,
    /// A packet that wakes hardware up goes out so long before each probe (paper, section 6.1).
    pub warm_up: Option<Duration>,
    /// Packets that keep hardware awake go out so often, to the first router only.
    pub background: Option<Duration>,
    /// What the HTTP method asks for.
    pub http_path: String,
    /// Whom the TLS method asks for, where that is a name.
    pub server_name: Option<String>,
    /// The interface to use whatever routes say (SO_BINDTODEVICE).
    pub interface: Option<String>,
    /// The address to send from.
    pub source: Option<IpAddr>,
}

impl Options {
    /// Ten probes a second apart.
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
            return wrong("the interval must be 1 ms at least");
        }
        if self
            .background
            .is_some_and(|b| b < Duration::from_millis(1))
        {
            return wrong("background packets must be 1 ms apart at least");
        }
        if self
            .source
            .is_some_and(|s| s.is_ipv4() != self.target.is_ipv4())
        {
            return wrong("the source and the target must both be IPv4 or both IPv6");
        }
        if !(1..=1000).contains(&self.burst) {
            return wrong("a burst has 1 to 1000 probes");
        }
        if self.burst > 1 && !matches!(self.method, Method::Icmp | Method::Udp) {
            return wrong("bursts are for ICMP and UDP");
        }
        if !(16..=65_000).contains(&self.size_bytes) {
            return wrong("a probe has 16 to 65000 bytes");
        }
        if self.method == Method::Udp && self.size_bytes < crate::message::LEAST {
            return wrong("a UDP probe has 40 bytes at least, for its answer's stamps");
        }
        if self.timeout.is_zero() || self.timeout > Duration::from_secs(60) {
            return wrong("the timeout must be above 0 and 60 s at most");
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
