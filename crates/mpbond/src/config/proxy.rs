//! Configuration of a proxy.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpbond_net::DeviceId;
use mpbond_net::dest::Rule;
use mpbond_session::{BufferDelay, FeedbackRule, ReinjectionRule, SchedulerKind};
use mpbond_units::Size;
use serde::Deserialize;
use toml::Spanned;

use super::RESUME_FOR;
use super::place::{self, Role};
use super::source::{ConfigError, Source};
use super::value::{Congestion, Drain, OneOrMore, ResumeFor, Text};
use crate::upgrade;

/// Maximum number of worker threads; more are a typing error.
const MAX_WORKERS: usize = 1024;

/// Time for open connections at a stop, by default. Short: until the next proxy is started, new
/// connections have no proxy at all.
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// Minimum memory for sessions.
const LEAST_MEMORY_BYTES: u64 = 1 << 20;

/// `mpbond proxy --config FILE`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyConfig {
    /// Listening addresses for primaries and helpers.
    pub listen: Vec<SocketAddr>,
    /// File of the device's key; made at the first start.
    pub identity: PathBuf,
    /// Path of the status socket.
    pub status_socket: PathBuf,
    /// Listening address of the metrics.
    pub metrics: Option<SocketAddr>,
    /// Whether the daemon gives up what it does not need once it is set up.
    pub sandbox: bool,
    /// Primaries that may connect, besides those in the trust file.
    pub trust: Vec<DeviceId>,
    /// Scheduler of the downlink.
    pub scheduler: SchedulerKind,
    /// Whether slow subflows' bytes are sent again on faster ones.
    pub reinjection: ReinjectionRule,
    /// Source of pipe information: reports alone under a published rule.
    pub feedback: FeedbackRule,
    /// Source of the queueing delay at helpers.
    pub buffer_delay: BufferDelay,
    /// TCP congestion control of subflows; unset: the system's.
    pub congestion: Option<String>,
    /// How long a session is kept when none of its paths is left.
    pub resume_for: Duration,
    /// How long open connections are served further at a stop.
    pub stop_within: Duration,
    /// How long a process that was upgraded serves open connections further.
    pub drain: Duration,
    /// Take over from the proxy that runs, instead of listening anew.
    pub take_over: bool,
    /// Allowed destinations of streams.
    pub destinations: Destinations,
    /// Service at which every stream ends, whatever destination it names.
    pub serve: Option<SocketAddr>,
    /// Worker threads; unset: one per core.
    pub workers: Option<usize>,
    /// Maximum memory of all sessions; unset: half of the machine's memory.
    pub memory_bytes: Option<u64>,
}

/// Allowed destinations of streams: public addresses by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Destinations {
    /// Exceptions to the default refusal.
    pub allow: Vec<Rule>,
    /// Refused in any case.
    pub deny: Vec<Rule>,
}

/// Form of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProxyFile {
    listen: Option<Spanned<OneOrMore<SocketAddr>>>,
    identity: Option<String>,
    status_socket: Option<String>,
    metrics: Option<Text<SocketAddr>>,
    sandbox: Option<bool>,
    trust: Option<OneOrMore<DeviceId>>,
    scheduler: Option<Text<SchedulerKind>>,
    reinjection: Option<ReinjectionRule>,
    feedback: Option<FeedbackRule>,
    buffer_delay: Option<BufferDelay>,
    congestion: Option<Text<Congestion>>,
    resume_for: Option<Text<ResumeFor>>,
    stop_within: Option<Text<Drain>>,
    drain: Option<Text<Drain>>,
    destinations: Option<DestinationsFile>,
    serve: Option<Text<SocketAddr>>,
    workers: Option<Spanned<usize>>,
    memory: Option<Spanned<Size>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DestinationsFile {
    allow: Option<OneOrMore<Rule>>,
    deny: Option<OneOrMore<Rule>>,
}

impl Default for ProxyConfig {
    /// The configuration without a file.
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([0, 0, 0, 0], 4433))],
            identity: place::identity(),
            status_socket: place::status_socket(Role::Proxy),
            metrics: None,
            sandbox: true,
            trust: Vec::new(),
            scheduler: SchedulerKind::default(),
            reinjection: ReinjectionRule::default(),
            feedback: FeedbackRule::default(),
            buffer_delay: BufferDelay::default(),
            congestion: None,
            resume_for: RESUME_FOR,
            stop_within: STOP_WITHIN,
            drain: upgrade::DRAIN,
            take_over: false,
            destinations: Destinations::default(),
            serve: None,
            workers: None,
            memory_bytes: None,
        }
    }
}

impl ProxyConfig {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// One line naming file, line, key and what is allowed.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::of_source(&Source::read(path)?)
    }

    pub(super) fn of_source(source: &Source<'_>) -> Result<Self, ConfigError> {
        let source = &source.of_role(Role::Proxy.name())?;
        let file: ProxyFile = source.parse()?;
        let default = Self::default();
        let listen = match file.listen {
            None => default.listen,
            Some(list) if list.get_ref().0.is_empty() => {
                return Err(source.wrong(
                    list.span(),
                    "listen",
                    "empty: write at least one address, such as \"0.0.0.0:4433\"",
                ));
            }
            Some(list) => list.into_inner().0,
        };
        if let Some(workers) = &file.workers
            && !(1..=MAX_WORKERS).contains(workers.get_ref())
        {
            return Err(source.wrong(
                workers.span(),
                "workers",
                format_args!("from 1 to {MAX_WORKERS}; leave it out for one a core"),
            ));
        }
        if let Some(memory) = &file.memory
            && memory.get_ref().0 < LEAST_MEMORY_BYTES
        {
            return Err(source.wrong(
                memory.span(),
                "memory",
                "at least \"1 MiB\"; leave it out for half of what the machine has",
            ));
        }
        let destinations = file
            .destinations
            .map_or_else(Destinations::default, |d| Destinations {
                allow: d.allow.map_or_else(Vec::new, |list| list.0),
                deny: d.deny.map_or_else(Vec::new, |list| list.0),
            });
        Ok(Self {
            listen,
            identity: super::identity_of(source, file.identity),
            status_socket: file
                .status_socket
                .map_or(default.status_socket, |path| source.resolve(&path)),
            metrics: file.metrics.map(|t| t.0),
            sandbox: file.sandbox.unwrap_or(true),
            trust: file.trust.map_or_else(Vec::new, |list| list.0),
            scheduler: file.scheduler.map_or(default.scheduler, |t| t.0),
            reinjection: file.reinjection.unwrap_or_default(),
            feedback: file.feedback.unwrap_or_default(),
            buffer_delay: file.buffer_delay.unwrap_or_default(),
            congestion: file.congestion.map(|t| t.0.0),
            resume_for: file.resume_for.map_or(default.resume_for, |t| t.0.0),
            stop_within: file.stop_within.map_or(default.stop_within, |t| t.0.0),
            drain: file.drain.map_or(default.drain, |t| t.0.0),
            take_over: false,
            destinations,
            serve: file.serve.map(|t| t.0),
            workers: file.workers.map(Spanned::into_inner),
            memory_bytes: file.memory.map(|m| m.into_inner().0),
        })
    }
}
