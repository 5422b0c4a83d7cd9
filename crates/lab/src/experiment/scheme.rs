//! `[[scheme]]`: a way to carry workloads.

use std::collections::BTreeMap;
use std::time::Duration;

use mpbond_sim::world::{
    BufferDelay, FeedbackRule, Mechanism, ReinjectionRule, SchedulerKind, Sessions, StreamOrder,
};
use mpbond_units::{Size, duration_text};
use serde::{Deserialize, Deserializer, Serialize};
use toml::Spanned;

use super::energy_model::EnergyPrice;
use super::external::External;
use super::terms::{Connection, Interception};
use super::workload::Workload;

/// A way to carry workloads.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheme {
    /// Its name in results and asserts.
    pub name: Spanned<String>,
    /// Kind of transport.
    pub scheme: Carrier,
    /// Scheduler of both ends, by the name that the daemons' configuration uses
    /// (`mpbond`, `min-rtt`, `fixed-ratio=0.4`).
    #[serde(default, deserialize_with = "from_name")]
    pub scheduler: SchedulerKind,
    /// Routing of pipe information.
    #[serde(default)]
    pub feedback: FeedbackRule,
    /// Source of the queueing delay at helpers.
    #[serde(default)]
    pub buffer_delay: BufferDelay,
    /// Number of devices: the primary, and the first helpers of the file.
    #[serde(default = "one_device")]
    pub devices: usize,
    /// Names of the direct links that it uses. By default all; of a baseline as many as it can use:
    /// the first one, or two for `kibbutz` on one device.
    pub paths: Option<Vec<Spanned<String>>>,
    /// Names of the workloads that it carries; all by default.
    pub workloads: Option<Vec<Spanned<String>>>,
    /// How the client's connection reaches mpbond.
    #[serde(default)]
    pub interception: Interception,
    /// TCP congestion control of all hosts.
    #[serde(default = "cubic")]
    pub congestion: String,
    /// State of the session at the start of a transfer.
    #[serde(default)]
    pub start: Start,
    /// Idle time of a warm session before each transfer.
    #[serde(default = "default_idle", with = "duration_text")]
    pub idle: Duration,
    /// Whether transfers of `kibbutz` count that used one path only.
    #[serde(default)]
    pub one_path_counts: bool,
    /// Whether helpers split connections (MPBond section 4.2). Otherwise they forward packets and
    /// translate addresses: the subflow is one TCP connection from the primary's address on the
    /// pipe to the proxy.
    #[serde(default = "yes")]
    pub split: bool,
    /// Use of the pipes to a helper that has several: links from the primary.
    #[serde(default)]
    pub pipes: Pipes,
    /// Whether the primary knows the radios of such pipes, which their links name, so that the best
    /// one is chosen by energy (ADR 0066).
    #[serde(default)]
    pub pipe_radios: bool,
    /// Dual mode (MPBond section 4.4.1): the user of the first helper runs the same workload at the
    /// same time, with pauses of its own. With `mpbond` each device is the other one's helper, with
    /// `single` each user has the own link only. Results are those of the primary's user, except
    /// for quantities that name the second user.
    #[serde(default)]
    pub dual: bool,
    /// Whether the proxy orders the bytes of the two users of dual mode on the links that they
    /// share (ADR 0069). Only in files with `simulated = true`.
    #[serde(default)]
    pub ledger: bool,
    /// Rule of reinjection: which bytes are sent again on another subflow.
    #[serde(default)]
    pub reinjection: ReinjectionRule,
    /// Whether the client opens a connection for each transfer.
    #[serde(default)]
    pub connection: Connection,
    /// Chunk size of `combine`; 256 KiB by default, as published (MPBond section 6.1).
    pub chunk: Option<Size>,
    /// Programs of `external`.
    pub external: Option<External>,
    /// Hand-over of chunks by helpers of `combine`.
    #[serde(default)]
    pub hand_over: HandOver,
    /// Order of the streams of a class. Only in files with `simulated = true`.
    #[serde(default)]
    pub stream_order: StreamOrder,
    /// Mechanisms of the sender that are left out (docs/ablation.md). Only in files with `simulated
    /// = true`.
    #[serde(default)]
    pub without: Vec<Mechanism>,
    /// Price of energy; without it, helpers are always used.
    pub energy_price: Option<EnergyPrice>,
    /// Steps of the costs of direct links and helpers, by name: of those that have room, the
    /// cheapest carry data (ADR 0043). Zero without it. Only in files with `simulated = true`.
    #[serde(default)]
    pub costs: BTreeMap<Spanned<String>, u8>,
    /// Direct links and helpers, by name, that carry data only while none of the others works, as a
    /// policy's mode `saver` has the costly ones. Only in files with `simulated = true`.
    #[serde(default)]
    pub standby: Vec<Spanned<String>>,
    /// Direct links with a threshold of their signal in dBm: while all of these are weaker, links
    /// in `standby` carry data beside them, as `weak_below` of a policy has it. Only in files with
    /// `simulated = true`.
    #[serde(default)]
    pub weak_below: BTreeMap<Spanned<String>, i16>,
    /// Whether the client tells the proxy where each of the workload's `files` ends. Only in files
    /// with `simulated = true`.
    #[serde(default)]
    pub chunk_ends: bool,
    /// Number of users, each with all links of the file as links of the user's own. Links on a
    /// medium share it with those of the others. All run the same workload, `chunks`, with pauses
    /// of their own, and quantities of chunks are of all users' chunks. Only in files with
    /// `simulated = true`.
    #[serde(default = "one_device")]
    pub users: usize,
    /// Position on the axis of the experiment's `parameter`.
    pub parameter: Option<f64>,
    /// Name of a line in pictures, for schemes that differ only in the parameter; its own name by
    /// default.
    pub series: Option<String>,
}

/// Kind of transport of a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    /// The mpbond daemons.
    Mpbond,
    /// Plain TCP from the primary to the origin over its first direct link.
    Single,
    /// Kernel Multipath TCP over the first direct link and a tethered helper or, with one device,
    /// over its first two direct links.
    Kibbutz,
    /// COMBINE: HTTP byte ranges from a work queue, fetched over the first direct link and by
    /// helpers.
    Combine,
    /// Programs other than mpbond.
    External,
}

/// Hand-over of chunks from a helper of `combine` to the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HandOver {
    /// Bytes are handed over while the chunk arrives, so that pipe and HS-Path are busy at the same
    /// time.
    #[default]
    Streaming,
    /// A chunk is handed over after all of it has arrived, as published: helpers "sequentially
    /// download chunks [...] and return them to the primary device" (MPBond section 6.1). The
    /// HS-Path is idle during the hand-over.
    WholeChunk,
}

/// Use of the pipes to a helper that has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pipes {
    /// All at the same time.
    #[default]
    All,
    /// The best one, while the others stand by; the first one of the file is the cheapest, unless
    /// radios are known.
    Best,
}

/// State of a session at the start of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// All subflows have joined and been idle.
    #[default]
    Warm,
    /// The daemons have just started; subflows may still be joining.
    Cold,
}

fn one_device() -> usize {
    1
}

fn yes() -> bool {
    true
}

fn cubic() -> String {
    "cubic".to_owned()
}

fn default_idle() -> Duration {
    Duration::from_secs(5)
}

fn from_name<'de, D: Deserializer<'de>>(d: D) -> Result<SchedulerKind, D::Error> {
    let name = String::deserialize(d)?;
    name.parse().map_err(serde::de::Error::custom)
}

impl Scheme {
    /// Share of the bytes over direct paths, of a scheduler with a fixed ratio.
    pub(crate) fn direct_share(&self) -> Option<f64> {
        match self.scheduler {
            SchedulerKind::FixedRatio { direct } => Some(direct),
            _ => None,
        }
    }

    /// Whether its helpers forward packets instead of splitting connections.
    pub(crate) fn is_tethered(&self) -> bool {
        let forwards = self.scheme == Carrier::Kibbutz || !self.split;
        forwards && self.devices > 1
    }

    /// Relation of the sessions of its users: in a ledger, or independent.
    pub(crate) fn sessions(&self) -> Sessions {
        match self.ledger {
            true => Sessions::InLedger,
            false => Sessions::Independent,
        }
    }

    /// Chunk size of `combine`, in bytes.
    pub(crate) fn chunk_bytes(&self) -> u64 {
        self.chunk.map_or(256 << 10, |chunk| chunk.0)
    }

    /// Whether it carries `workload`.
    pub(crate) fn carries(&self, workload: &Workload) -> bool {
        let list = self.workloads.as_ref();
        list.is_none_or(|list| list.iter().any(|name| workload.is_called(name.get_ref())))
    }
}
