//! Status of a daemon: the answer to `mpbond status --json`, and the source of its metrics. Spans
//! are in seconds, sizes in bytes; fields may be added, none is removed.

mod energy;

use std::collections::BTreeMap;

use mpbond_session::Copies;
use mpbond_units::{BitRate, human};
use serde::{Deserialize, Serialize};

pub use energy::{DayJoules, LinkEnergy, PipeEnergy, RadioEnergy, WokenFor};

/// Status of a daemon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Status {
    /// "primary", "helper" or "proxy".
    #[cfg_attr(test, schemars(extend("enum" = ["primary", "helper", "proxy"])))]
    pub role: String,
    /// This device's id.
    pub device: String,
    /// Version of the program.
    pub version: String,
    /// Number of the process that answers.
    #[serde(default)]
    pub process: u32,
    /// Number of roles of this process, several of one by `mpbond up`; unknown where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<usize>,
    /// Since the daemon started.
    pub uptime_s: f64,
    /// Since the daemon has read its configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_age_s: Option<f64>,
    /// Modification time of the configuration that it has read, as Unix time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_modified_s: Option<f64>,
    /// The file of the configuration, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_file: Option<String>,
    /// Keys and sections of the configuration whose change applies at the next start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs_restart: Vec<String>,
    /// Sessions: at a primary the one in use, then those that retire; any number at a proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionStatus>,
    /// Counters by peer, over all sessions since the daemon started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerStatus>,
    /// Counters by path, over all sessions since the daemon started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathStatus>,
    /// Primary: connections that went direct since the daemon started, since no path to the proxy
    /// worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_total: Option<u64>,
    /// Helper: bytes relayed since the daemon started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relayed: Vec<RelayedStatus>,
    /// The last streams, newest last; open ones too. None in an answer to other users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<TransferStatus>,
    /// Primary: new connections that wait, those that came first. None in an answer to other users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingStatus>,
    /// Primary: number of all new connections that wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_count: Option<usize>,
    /// Helper: relays it serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<RelayStatus>,
    /// Primary: configured paths and helpers, with their state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkStatus>,
    /// Primary: rules of the policy, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleStatus>,
    /// Primary with a policy: connections that no rule has selected since the daemon started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_flows_total: Option<u64>,
    /// Primary: handling of new connections while no path to the proxy works, "direct" or "fail".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(extend("enum" = ["direct", "fail"])))]
    pub on_proxy_loss: Option<String>,
    /// Primary: when the kill switch is removed, "until-stop" or "permanent"; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(extend("enum" = ["until-stop", "permanent"])))]
    pub kill_switch: Option<String>,
    /// Primary: address family for which the proxy has no route, "IPv4" or "IPv6".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(extend("enum" = ["IPv4", "IPv6"])))]
    pub proxy_lacks: Option<String>,
    /// Helper: bytes relayed this month, and the cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetStatus>,
    /// Primary and helper: why the account of caps, budgets and joules cannot be written, so that a
    /// restart loses what was used since; absent while it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_problem: Option<String>,
    /// Helper: limits of its relays beside own traffic; absent where no capacity of its link is
    /// stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lent: Option<LentStatus>,
    /// Helper: pipes over Ethernet frames; absent without `ethernet_frames`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ethernet: Option<EthernetStatus>,
    /// Proxy: memory of all sessions, with its bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStatus>,
    /// Dropped privileges; absent where `sandbox = false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxStatus>,
    /// Whether `transfers` and `waiting` were left out: they name destinations, and are for root,
    /// the daemon's own user and its group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transfers_withheld: bool,
    /// Messages for people: things that do not work, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Status {
    /// The part that every user of this machine may read.
    pub(crate) fn withhold_transfers(&mut self) {
        self.transfers.clear();
        self.waiting.clear();
        self.transfers_withheld = true;
    }

    /// The consequences of an address family that the proxy lacks, for people.
    pub fn proxy_lacks_note(&self) -> Option<String> {
        let family = self.proxy_lacks.as_ref()?;
        Some(format!(
            "the proxy has no route for {family}: connections to such addresses are refused, and \
             intercepted look-ups find none"
        ))
    }
}

/// A new connection that waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WaitingStatus {
    /// The application's own end of it.
    pub client: String,
    /// The destination.
    pub destination: String,
    /// The rule that has selected it.
    pub rule: Option<String>,
    /// "session": a session with the proxy that has a path; "path": one that the policy lets it
    /// use; "radio": one that is awake; "room": until the proxy takes another stream.
    #[cfg_attr(test, schemars(extend("enum" = ["session", "path", "radio", "room"])))]
    pub waits_for: String,
    /// Time since it came.
    pub waited_s: f64,
    /// Time after which it is refused, or for "radio" goes on; null where that is not known.
    pub left_s: Option<f64>,
}

/// A rule of a primary's policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RuleStatus {
    /// Its name.
    pub name: String,
    /// The line at which it begins.
    pub line: usize,
    /// Connections that it has selected since the daemon started.
    pub flows_total: u64,
}

/// Memory of all sessions, as the daemon counts it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemoryStatus {
    /// Current use.
    pub used_bytes: u64,
    /// The bound.
    pub most_bytes: u64,
}

/// Privileges that a daemon dropped once it was set up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SandboxStatus {
    /// Capabilities that it keeps, such as CAP_NET_RAW.
    pub capabilities: Vec<String>,
    /// Whether it and its child processes can never gain privileges.
    pub no_new_privileges: bool,
    /// Landlock version that confines its files; none: files are not confined.
    pub landlock_abi: Option<u32>,
    /// Number of refused system calls; none: they are not filtered.
    pub calls_refused: Option<usize>,
    /// Privileges that could not be dropped, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

impl SandboxStatus {
    /// Summary in one line.
    pub fn summary(&self) -> String {
        let capabilities = match self.capabilities.as_slice() {
            [] => "no capabilities".to_owned(),
            kept => format!("keeps {}", kept.join(", ")),
        };
        let files = match self.landlock_abi {
            Some(abi) => format!("files confined (Landlock {abi})"),
            None => "files not confined".to_owned(),
        };
        let calls = match self.calls_refused {
            Some(count) => format!("{count} system calls refused"),
            None => "system calls not filtered".to_owned(),
        };
        format!("{capabilities}, {files}, {calls}")
    }
}

/// A session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SessionStatus {
    /// First half of its id; empty before the proxy has answered.
    pub id: String,
    /// The other end's device id.
    pub peer: String,
    /// "up", "joining", "waiting" (no subflow left), "retiring" (takes no new streams) or "lost"
    /// (ended; what had arrived completely is still read).
    #[cfg_attr(
        test,
        schemars(extend("enum" = ["up", "joining", "waiting", "retiring", "lost"]))
    )]
    pub state: String,
    /// This end's scheduler.
    pub scheduler: String,
    /// Streams that are open.
    pub streams_open: u64,
    /// Open streams by traffic class; classes without any are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub streams_by_class: BTreeMap<String, u64>,
    /// Streams opened in all.
    pub streams_total: u64,
    /// Stream bytes that arrived, copies included.
    pub bytes_in: u64,
    /// Stream bytes given to subflows, copies included.
    pub bytes_out: u64,
    /// Part of `bytes_in` that had arrived before.
    pub redundant_bytes_in: u64,
    /// Part of `bytes_out` that another subflow had been given.
    pub redundant_bytes_out: u64,
    /// `redundant_bytes_out` by what made this end send bytes again.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, u64>"))]
    pub copies_out: Copies,
    /// Bytes recalled from slow, silent or lost subflows.
    pub reinjected_bytes_out: u64,
    /// Bytes written and not yet given to a subflow.
    pub unscheduled_bytes: u64,
    /// Its subflows.
    pub subflows: Vec<SubflowStatus>,
    /// Its bytes by path, former subflows included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathShare>,
}

/// Bytes of a session over the subflows of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PathShare {
    /// The path's or helper's name.
    pub name: String,
    /// Stream bytes that arrived on it, copies included.
    pub bytes_in: u64,
    /// Stream bytes given to it, copies included.
    pub bytes_out: u64,
    /// Octets of its connections, for [`PathStatus`].
    #[serde(skip)]
    pub octets: u64,
}

/// Counters of a daemon with one peer, over all their sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PeerStatus {
    /// The peer's device id.
    pub peer: String,
    /// Streams opened.
    pub streams_total: u64,
    /// Bytes that arrived and had arrived before.
    pub redundant_bytes_in: u64,
    /// Bytes given to a subflow that another one had been given.
    pub redundant_bytes_out: u64,
    /// Bytes recalled from slow, silent or lost subflows.
    pub reinjected_bytes_out: u64,
}

/// Counters of a path, over all sessions with a peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PathStatus {
    /// The peer's device id.
    pub peer: String,
    /// The path's or helper's name.
    pub name: String,
    /// Stream bytes that arrived on it, copies included.
    pub bytes_in: u64,
    /// Stream bytes given to it, copies included.
    pub bytes_out: u64,
    /// Octets of its connections, both ways: of TLS, with its handshakes, frames and feedback.
    #[serde(default)]
    pub octets: u64,
    /// Number of times that it has joined a session.
    pub joins_total: u64,
}

/// Bytes that a helper has relayed for a primary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RelayedStatus {
    /// The primary's device id.
    pub primary: String,
    /// Bytes from proxies to the primary.
    pub bytes_down: u64,
    /// Bytes from the primary to proxies.
    pub bytes_up: u64,
}

impl SessionStatus {
    /// Marks the subflows of links that are down: no packet of theirs has been lost yet that would
    /// show it.
    pub(crate) fn mark_down(&mut self, links: &[LinkStatus]) {
        let is_down = |name: &str| links.iter().any(|l| l.name == name && l.state == "down");
        for subflow in &mut self.subflows {
            if is_down(&subflow.name) {
                subflow.state = "down".to_owned();
            }
        }
    }
}

/// A subflow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SubflowStatus {
    /// Its number in the session.
    pub id: u32,
    /// The path's or helper's name.
    pub name: String,
    /// "direct" or "helper".
    #[cfg_attr(test, schemars(extend("enum" = ["direct", "helper"])))]
    pub kind: String,
    /// "joining", "up", "backup", "express", "potentially-failed", or at a primary "down": its
    /// interface cannot carry anything.
    #[cfg_attr(test, schemars(extend("enum" = [
        "joining", "up", "backup", "express", "potentially-failed", "down",
    ])))]
    pub state: String,
    /// Stream bytes that arrived on it.
    pub bytes_in: u64,
    /// Stream bytes given to it.
    pub bytes_out: u64,
    /// When the last stream bytes arrived, since the daemon started.
    pub last_in_s: Option<f64>,
    /// When it was last given stream bytes, since the daemon started.
    pub last_out_s: Option<f64>,
    /// Pipe-aware delay.
    pub pad_ms: f64,
    /// B_s: bytes that have not left the near hop.
    pub b_s: u64,
    /// B_p or B_h: bytes that wait at the helper.
    pub b_p: u64,
    /// End-to-end throughput in the direction that this end sends; absent unless load has shown it
    /// within the last 10 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub th_mbps: Option<f64>,
    /// Throughput of the far hop, where known.
    pub far_th_mbps: Option<f64>,
    /// Round-trip time over all hops.
    pub rtt_ms: f64,
}

/// A stream, open or over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TransferStatus {
    /// First half of its session's id.
    pub session: String,
    /// Its number in the session.
    pub stream: u64,
    /// Where it leads.
    pub destination: String,
    /// Its traffic class: "realtime", "interactive", "bulk" or "background".
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "mpbond_policy::Class"))]
    pub class: String,
    /// "open" or "closed".
    #[cfg_attr(test, schemars(extend("enum" = ["open", "closed"])))]
    pub state: String,
    /// Unique bytes that arrived.
    pub bytes_in: u64,
    /// Unique bytes given to subflows.
    pub bytes_out: u64,
    /// Since the daemon started.
    pub opened_s: f64,
    /// Since the daemon started.
    pub first_byte_s: Option<f64>,
    /// Since the daemon started.
    pub closed_s: Option<f64>,
    /// Bytes that came or went twice.
    pub redundant_bytes: u64,
    /// Primary: the rule that has selected it; absent for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Primary: the application that has opened it; absent where it has not been looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationStatus>,
    /// Reason for which it ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Share of each subflow.
    pub subflows: Vec<ShareStatus>,
}

/// Application that has opened a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApplicationStatus {
    /// Its name, that of the condition `app` of policies; absent where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Certainty of the name: "known", "guessed" or "unknown".
    #[cfg_attr(test, schemars(with = "mpbond_policy::Certainty"))]
    pub certainty: String,
    /// User id of its socket; absent where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
}

/// Share of a subflow in a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ShareStatus {
    /// The subflow's name.
    pub name: String,
    /// Bytes that arrived on it.
    pub bytes_in: u64,
    /// Bytes that it was given.
    pub bytes_out: u64,
    /// Time of its last new byte in, since the stream was opened.
    pub finished_in_s: Option<f64>,
    /// Time of its last byte out, since the stream was opened.
    pub finished_out_s: Option<f64>,
}

/// A relay at a helper.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RelayStatus {
    /// The primary's device id.
    pub primary: String,
    /// Where it leads.
    pub proxy: String,
    /// Bytes from the proxy to the primary.
    pub bytes_down: u64,
    /// Bytes from the primary to the proxy.
    pub bytes_up: u64,
    /// Bytes waiting here for the pipe.
    pub level_down_bytes: u64,
    /// Bytes waiting here for the HS-Path.
    pub level_up_bytes: u64,
    /// Kind of its pipe: "tcp", "unix" or "ethernet".
    #[serde(default)]
    #[cfg_attr(test, schemars(extend("enum" = ["tcp", "unix", "ethernet"])))]
    pub pipe: String,
}

/// Pipes over Ethernet frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EthernetStatus {
    /// Whether a relay runs over them.
    pub used: bool,
    /// Reason for which TCP is used, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl EthernetStatus {
    /// What carries a pipe, for people.
    pub fn text(&self) -> String {
        match (self.used, &self.reason) {
            (true, _) => "over Ethernet frames".to_owned(),
            (false, Some(reason)) => format!("over TCP, not Ethernet frames: {reason}"),
            (false, None) => "over Ethernet frames at its next relay".to_owned(),
        }
    }
}

/// A path or helper at a primary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LinkStatus {
    /// Name in the configuration.
    pub name: String,
    /// "path" or "helper".
    #[cfg_attr(test, schemars(extend("enum" = ["path", "helper"])))]
    pub kind: String,
    /// "connecting", "up", "waiting", "down": its interface cannot carry anything, or "off": it was
    /// switched off through the API.
    #[cfg_attr(test, schemars(extend("enum" = ["connecting", "up", "waiting", "down", "off"])))]
    pub state: String,
    /// Size of segments, where large packets do not seem to pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_segment_bytes: Option<u32>,
    /// Last error, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Of one of several pipes of which the best one is used: its use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<ChoiceStatus>,
    /// Of a pipe that may use Ethernet frames: whether it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ethernet: Option<EthernetStatus>,
    /// Energy, where the policy names the radio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<LinkEnergy>,
    /// Energy of the radios of a pipe, where they are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipe_energy: Option<PipeEnergy>,
    /// Use of its cap, where the policy has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<CapStatus>,
    /// Level of its helper's battery in percent, where the helper has told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub battery_percent: Option<u8>,
    /// Whether that battery is being charged, or full, where the helper has told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charging: Option<bool>,
    /// Whether the link is metered, as the policy states it, or else a program or its helper has
    /// told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metered: Option<bool>,
    /// Whether `metered` is a guess.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub metered_guessed: bool,
    /// Bytes left of its helper's monthly budget, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lent_bytes_left: Option<u64>,
    /// Limits of all relays of its helper, where own traffic there limits them.
    #[serde(flatten)]
    pub limits: LimitStatus,
}

/// Rates of all relays of a helper together, where own traffic of the helper limits them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LimitStatus {
    /// Rate towards primaries of all relays of a helper together, where own traffic limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_down_mbps: Option<f64>,
    /// The same from primaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_up_mbps: Option<f64>,
}

impl LimitStatus {
    /// The limits down and up.
    pub(crate) fn of(limits: [Option<BitRate>; 2]) -> Self {
        let [limit_down_mbps, limit_up_mbps] = limits.map(|limit| limit.map(BitRate::mbps));
        Self {
            limit_down_mbps,
            limit_up_mbps,
        }
    }

    /// The limits for people, as "3.20 Mbit/s down, 1.00 Mbit/s up"; `None` without any.
    pub fn text(&self) -> Option<String> {
        let ways = [(self.limit_down_mbps, "down"), (self.limit_up_mbps, "up")];
        let limits = ways
            .into_iter()
            .filter_map(|(mbps, way)| Some(format!("{} {way}", human::rate(mbps?))));
        let limits: Vec<_> = limits.collect();
        (!limits.is_empty()).then(|| limits.join(", "))
    }
}

/// Relays of a helper that has stated a capacity of its link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LentStatus {
    /// Interface of the link.
    pub interface: String,
    /// Limits of the relays now.
    #[serde(flatten)]
    pub limits: LimitStatus,
}

/// Use of a pipe where the best one of several is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChoiceStatus {
    /// "used"; "tried", beside the used one, which seems too slow; or "standby".
    #[cfg_attr(test, schemars(extend("enum" = ["used", "tried", "standby"])))]
    pub state: String,
    /// Reason for which the used one is used.
    pub reason: String,
    /// Power that its radios need by their models while bytes move at the present rate, in mW,
    /// where these are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milliwatts: Option<u64>,
}

/// Use of the cap of a link in the present period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CapStatus {
    /// Bytes used, both ways.
    pub used_bytes: u64,
    /// Bytes of the cap.
    pub bytes: u64,
    /// Day on which the next period begins, as 2026-12-01.
    pub resets: String,
    /// Whether the link carries nothing until then, since all is used (`at_cap = "off"`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub used_up: bool,
    /// Bytes on the days of the period up to this one in the time zone of the cap, oldest first.
    /// Earlier days without any are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<DayBytes>,
}

/// Bytes of a link on a day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DayBytes {
    /// The day, as 2026-11-27.
    pub day: String,
    /// Bytes, both ways.
    pub bytes: u64,
}

/// A helper's monthly budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BudgetStatus {
    /// The calendar month (UTC), as 2026-11.
    pub month: String,
    /// Bytes relayed in it, both ways.
    pub used_bytes: u64,
    /// Limit in bytes.
    pub max_bytes: Option<u64>,
}
