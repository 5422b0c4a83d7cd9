//! One answer of a daemon, ready to be shown, and the form in which the page and scripts get it.

use serde::Serialize;

use super::gauge::Gauge;
use super::paths::{Path, short};
use super::rates::{OTHERS, Rate, Rates};
use super::streams::Streams;
use crate::status::{Energy, Status};

/// Everything that is shown of one answer, except history and events.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Frame {
    /// Instant of its arrival, in seconds since the start of this program.
    pub t: f64,
    pub daemon: Daemon,
    /// Sum of all paths; absent until two answers have been compared.
    pub total: Option<Rate>,
    pub paths: Vec<PathRow>,
    pub streams: Streams,
    pub sessions: Vec<SessionRow>,
    pub rules: Vec<RuleRow>,
    /// Connections that no rule has selected.
    pub default_flows_total: Option<u64>,
    /// Of a helper.
    pub budget: Option<Gauge>,
    /// Of a proxy.
    pub memory: Option<Gauge>,
    pub notes: Vec<String>,
    pub needs_restart: Vec<String>,
}

/// The daemon that has answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Daemon {
    pub role: String,
    pub device: String,
    pub version: String,
    pub process: u32,
    pub uptime_s: f64,
}

/// A path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PathRow {
    /// The number that history has for it; several paths may share the last one.
    pub slot: usize,
    pub shares_slot: bool,
    pub name: String,
    /// At a proxy and a helper: device id of the primary.
    pub peer: String,
    pub kind: String,
    pub state: String,
    pub error: Option<String>,
    pub rtt_ms: Option<f64>,
    pub pad_ms: Option<f64>,
    pub waiting_bytes: u64,
    pub rate: Option<Rate>,
    pub down_bytes: Option<u64>,
    pub up_bytes: Option<u64>,
    /// Share in the bytes of the last five minutes, from 0 to 1; absent without any bytes, and
    /// before a minute has been seen.
    pub share: Option<f64>,
    /// Use of its cap, if it has one.
    pub cap: Option<Gauge>,
    /// Energy of its radio, if the policy names that.
    pub energy: Option<Energy>,
    /// Level of a helper's battery in percent, if the helper tells it.
    pub battery_percent: Option<u8>,
    /// Whether that battery is being charged, or full, if the helper tells it.
    pub charging: Option<bool>,
    /// Whether it is metered, if that is known.
    pub metered: Option<bool>,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SessionRow {
    pub peer: String,
    pub state: String,
    pub scheduler: String,
    pub streams_open: u64,
}

/// A rule of the policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RuleRow {
    pub name: String,
    pub line: usize,
    pub flows_total: u64,
}

impl Frame {
    pub(super) fn of(
        t: f64,
        status: &Status,
        paths: &[Path],
        rates: &Rates,
        shares: &[f64],
        streams: Streams,
    ) -> Self {
        let rows: Vec<_> = paths.iter().map(|path| row(path, rates, shares)).collect();
        let budget = status.budget.as_ref().map(|b| Gauge {
            month: Some(b.month.clone()),
            resets: None,
            used_bytes: b.used_bytes,
            max_bytes: b.max_bytes,
            days: Vec::new(),
        });
        let memory = status.memory.as_ref().map(|m| Gauge {
            month: None,
            resets: None,
            used_bytes: m.used_bytes,
            max_bytes: Some(m.most_bytes),
            days: Vec::new(),
        });
        let sessions = status.sessions.iter().map(|s| SessionRow {
            peer: s.peer.clone(),
            state: s.state.clone(),
            scheduler: s.scheduler.clone(),
            streams_open: s.streams_open,
        });
        let rules = status.rules.iter().map(|r| RuleRow {
            name: r.name.clone(),
            line: r.line,
            flows_total: r.flows_total,
        });
        Self {
            t,
            daemon: Daemon {
                role: status.role.clone(),
                device: status.device.clone(),
                version: status.version.clone(),
                process: status.process,
                uptime_s: status.uptime_s,
            },
            total: rates.total(),
            paths: rows,
            streams,
            sessions: sessions.collect(),
            rules: rules.collect(),
            default_flows_total: status.default_flows_total,
            budget,
            memory,
            notes: status.notes.clone(),
            needs_restart: status.needs_restart.clone(),
        }
    }
}

fn row(path: &Path, rates: &Rates, shares: &[f64]) -> PathRow {
    let slot = rates.slot_of(&path.key);
    let shares_slot = slot == OTHERS;
    let share = match shares.is_empty() || shares_slot || path.bytes.is_none() {
        true => None,
        false => Some(shares.get(slot).copied().unwrap_or_default()),
    };
    let name = match path.key.name.as_str() {
        "" => short(&path.key.peer),
        name => name.to_owned(),
    };
    PathRow {
        slot,
        shares_slot,
        name,
        peer: path.key.peer.clone(),
        kind: path.kind.clone(),
        state: path.state.clone(),
        error: path.error.clone(),
        rtt_ms: path.rtt_ms,
        pad_ms: path.pad_ms,
        waiting_bytes: path.waiting_bytes,
        rate: rates.of(&path.key),
        down_bytes: path.bytes.map(|b| b.down),
        up_bytes: path.bytes.map(|b| b.up),
        share,
        cap: path.cap.clone(),
        energy: path.energy.clone(),
        battery_percent: path.battery_percent,
        charging: path.charging,
        metered: path.metered,
    }
}
