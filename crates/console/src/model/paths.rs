//! The paths of a daemon, whatever its role: of a primary its paths and helpers, of a proxy the
//! subflows of its sessions, of a helper the primaries for which it relays.

use std::collections::HashMap;

use super::gauge::Gauge;
use crate::status::{Energy, Session, Status, Subflow};

/// Characters of a device id that tell it from others for people: its first group.
const SHORT_ID: usize = 7;

/// Identity of a path: at proxies and helpers, the primary belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub peer: String,
    pub name: String,
}

/// A path. `down` is towards the primary, whose applications download.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Path {
    pub key: Key,
    /// "path", "helper", or "primary" at a helper; empty where not known.
    pub kind: String,
    pub state: String,
    pub error: Option<String>,
    pub rtt_ms: Option<f64>,
    pub pad_ms: Option<f64>,
    /// Bytes that wait at the helper.
    pub waiting_bytes: u64,
    /// Since the daemon started; absent where it does not count.
    pub bytes: Option<Bytes>,
    /// Of a primary's path: the use of its cap, if it has one.
    pub cap: Option<Gauge>,
    /// Of a link whose radio is named in the policy.
    pub energy: Option<Energy>,
    /// Of a helper that has told it.
    pub battery_percent: Option<u8>,
    pub charging: Option<bool>,
    /// Of a link of which it is known.
    pub metered: Option<bool>,
}

/// A pair of counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub down: u64,
    pub up: u64,
}

/// What the state of a path means for its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Usable,
    Suspect,
    Out,
}

impl Path {
    pub(super) fn standing(&self) -> Standing {
        match self.state.as_str() {
            "up" | "backup" | "express" => Standing::Usable,
            "potentially-failed" => Standing::Suspect,
            _ => Standing::Out,
        }
    }
}

/// Bytes in both directions, seen from this role.
pub(super) fn down_up(role: &str, bytes_in: u64, bytes_out: u64) -> Bytes {
    match role {
        "proxy" => Bytes {
            down: bytes_out,
            up: bytes_in,
        },
        _ => Bytes {
            down: bytes_in,
            up: bytes_out,
        },
    }
}

/// The first characters of a device id.
pub(crate) fn short(id: &str) -> String {
    id.chars().take(SHORT_ID).collect()
}

/// Paths in a steady order: as configured, or as the daemon lists them.
pub(super) fn of(status: &Status) -> Vec<Path> {
    match status.role.as_str() {
        "primary" => of_primary(status),
        "proxy" => of_proxy(status),
        _ => of_helper(status),
    }
}

fn of_primary(status: &Status) -> Vec<Path> {
    let mut paths: Vec<Path> = Vec::new();
    for link in &status.links {
        paths.push(Path {
            key: Key {
                peer: String::new(),
                name: link.name.clone(),
            },
            kind: link.kind.clone(),
            state: link.state.clone(),
            error: link.error.clone(),
            cap: link.cap.as_ref().map(|cap| Gauge {
                month: None,
                resets: Some(cap.resets.clone()),
                used_bytes: cap.used_bytes,
                max_bytes: Some(cap.bytes),
                days: cap.days.clone(),
            }),
            energy: link.energy.clone(),
            battery_percent: link.battery_percent,
            charging: link.charging,
            metered: link.metered,
            ..Path::default()
        });
    }
    let session = status.sessions.first();
    for path in &mut paths {
        let regular = session.and_then(|s| regular(s, &path.key.name));
        if let Some(subflow) = regular {
            add_subflow(path, subflow);
        }
    }
    for total in &status.paths {
        let bytes = down_up(&status.role, total.bytes_in, total.bytes_out);
        let known = paths.iter_mut().find(|p| p.key.name == total.name);
        if let Some(path) = known {
            let sum = path.bytes.get_or_insert_default();
            sum.down = sum.down.saturating_add(bytes.down);
            sum.up = sum.up.saturating_add(bytes.up);
        }
    }
    for path in &mut paths {
        path.bytes.get_or_insert_default();
    }
    paths
}

fn of_proxy(status: &Status) -> Vec<Path> {
    let totals: HashMap<(&str, &str), Bytes> = status
        .paths
        .iter()
        .map(|p| {
            let bytes = down_up(&status.role, p.bytes_in, p.bytes_out);
            ((p.peer.as_str(), p.name.as_str()), bytes)
        })
        .collect();
    let mut paths: Vec<Path> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for session in &status.sessions {
        for subflow in session.subflows.iter().filter(|s| s.state != "express") {
            let key = Key {
                peer: session.peer.clone(),
                name: subflow.name.clone(),
            };
            if !known.insert(key.clone()) {
                continue;
            }
            let bytes = totals.get(&(session.peer.as_str(), subflow.name.as_str()));
            let mut path = Path {
                key,
                bytes: bytes.copied(),
                ..Path::default()
            };
            add_subflow(&mut path, subflow);
            paths.push(path);
        }
    }
    paths
}

fn of_helper(status: &Status) -> Vec<Path> {
    let mut paths: Vec<Path> = Vec::new();
    for relayed in &status.relayed {
        let bytes = Bytes {
            down: relayed.bytes_down,
            up: relayed.bytes_up,
        };
        let mut relays = status
            .relays
            .iter()
            .filter(|r| r.primary == relayed.primary)
            .peekable();
        let state = if relays.peek().is_some() {
            "up"
        } else {
            "away"
        };
        let waiting = relays.map(|r| r.level_down_bytes.saturating_add(r.level_up_bytes));
        paths.push(Path {
            key: Key {
                peer: relayed.primary.clone(),
                name: String::new(),
            },
            kind: "primary".to_owned(),
            state: state.to_owned(),
            waiting_bytes: waiting.fold(0, u64::saturating_add),
            bytes: Some(bytes),
            ..Path::default()
        });
    }
    paths
}

/// The subflow of a path that is not its express.
fn regular<'a>(session: &'a Session, name: &str) -> Option<&'a Subflow> {
    let mut subflows = session.subflows.iter();
    subflows.find(|s| s.name == name && s.state != "express")
}

fn add_subflow(path: &mut Path, subflow: &Subflow) {
    path.state.clone_from(&subflow.state);
    if path.kind.is_empty() {
        path.kind = if subflow.kind == "helper" {
            "helper"
        } else {
            "path"
        }
        .to_owned();
    }
    // Without a measurement they are zero.
    path.rtt_ms = subflow.rtt_ms.filter(|ms| *ms > 0.0);
    path.pad_ms = subflow.pad_ms.filter(|ms| *ms > 0.0);
    path.waiting_bytes = subflow.b_p;
}
