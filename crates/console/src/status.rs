//! The fields that this program reads of a daemon's answer to `mpbond status --json`
//! (docs/metrics.md). Spans are in seconds, sizes in bytes.
//!
//! Unknown fields are ignored, and absent ones are empty. The texts come from other devices and
//! from applications: [`crate::bounded`] bounds them while they are read, and replaces characters
//! that control a terminal or the direction of text.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufReader, Read};

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};

use crate::bounded::{OfText, first, last, name, names, optional_name, sentence, sentences};

/// Maximum number of entries of a list, except streams.
const MAX_ENTRIES: usize = 1024;

/// Maximum number of streams.
const MAX_STREAMS: usize = 20_000;

/// Maximum number of paths of a session, and of notes.
const MAX_SHARES: usize = 64;

/// Maximum number of connections that wait.
const MAX_WAITING: usize = 12;

/// Maximum number of paths of a stream.
const MAX_PARTS: usize = 16;

/// Maximum number of days of an energy, and of a cap, whose periods have 31.
const MAX_DAYS: usize = 7;
const MAX_CAP_DAYS: usize = 31;

/// Status of a daemon.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    #[serde(deserialize_with = "name")]
    pub role: String,
    #[serde(deserialize_with = "name")]
    pub device: String,
    #[serde(deserialize_with = "name")]
    pub version: String,
    pub process: u32,
    pub uptime_s: f64,
    #[serde(deserialize_with = "names::<_, MAX_ENTRIES>")]
    pub needs_restart: Vec<String>,
    #[serde(deserialize_with = "first::<_, _, MAX_ENTRIES>")]
    pub sessions: Vec<Session>,
    #[serde(deserialize_with = "first::<_, _, MAX_ENTRIES>")]
    pub paths: Vec<PathTotal>,
    #[serde(deserialize_with = "first::<_, _, MAX_ENTRIES>")]
    pub relayed: Vec<Relayed>,
    #[serde(deserialize_with = "first::<_, _, MAX_ENTRIES>")]
    pub relays: Vec<Relay>,
    #[serde(deserialize_with = "last::<_, _, MAX_STREAMS>")]
    pub transfers: Vec<Transfer>,
    pub transfers_withheld: bool,
    #[serde(deserialize_with = "first::<_, _, MAX_WAITING>")]
    pub waiting: Vec<Waiting>,
    pub waiting_count: u64,
    #[serde(deserialize_with = "first::<_, _, MAX_ENTRIES>")]
    pub links: Vec<Link>,
    #[serde(deserialize_with = "first::<_, _, MAX_ENTRIES>")]
    pub rules: Vec<Rule>,
    pub default_flows_total: Option<u64>,
    pub budget: Option<Budget>,
    pub memory: Option<Memory>,
    #[serde(deserialize_with = "sentences::<_, MAX_SHARES>")]
    pub notes: Vec<String>,
}

/// A session.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Session {
    #[serde(deserialize_with = "name")]
    pub peer: String,
    #[serde(deserialize_with = "name")]
    pub state: String,
    #[serde(deserialize_with = "name")]
    pub scheduler: String,
    pub streams_open: u64,
    #[serde(deserialize_with = "first::<_, _, MAX_SHARES>")]
    pub subflows: Vec<Subflow>,
}

/// A subflow. Numbers that are not finite come as null.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Subflow {
    #[serde(deserialize_with = "name")]
    pub name: String,
    #[serde(deserialize_with = "name")]
    pub kind: String,
    #[serde(deserialize_with = "name")]
    pub state: String,
    pub pad_ms: Option<f64>,
    pub rtt_ms: Option<f64>,
    pub b_p: u64,
}

/// Bytes of a path since the daemon started.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PathTotal {
    #[serde(deserialize_with = "name")]
    pub peer: String,
    #[serde(deserialize_with = "name")]
    pub name: String,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// Bytes that a helper has relayed for a primary.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Relayed {
    #[serde(deserialize_with = "name")]
    pub primary: String,
    pub bytes_down: u64,
    pub bytes_up: u64,
}

/// A relay at a helper.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Relay {
    #[serde(deserialize_with = "name")]
    pub primary: String,
    pub level_down_bytes: u64,
    pub level_up_bytes: u64,
}

/// A new connection that waits.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Waiting {
    #[serde(deserialize_with = "name")]
    pub destination: String,
    #[serde(deserialize_with = "sentence")]
    pub rule: Option<String>,
    #[serde(deserialize_with = "name")]
    pub waits_for: String,
    pub waited_s: f64,
    pub left_s: Option<f64>,
}

/// A stream, open or over.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Transfer {
    /// Hash of its session's id.
    #[serde(deserialize_with = "hash")]
    pub session: u64,
    pub stream: u64,
    #[serde(deserialize_with = "name")]
    pub destination: String,
    #[serde(deserialize_with = "name")]
    pub class: String,
    #[serde(rename = "state", deserialize_with = "is_open")]
    pub is_open: bool,
    pub bytes_in: u64,
    pub bytes_out: u64,
    #[serde(deserialize_with = "optional_name")]
    pub rule: Option<String>,
    pub application: Option<Application>,
    #[serde(deserialize_with = "first::<_, _, MAX_PARTS>")]
    pub subflows: Vec<Share>,
}

/// The application that has opened a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Application {
    /// Absent where it is unknown.
    #[serde(deserialize_with = "optional_name")]
    pub name: Option<String>,
    #[serde(deserialize_with = "certainty")]
    pub certainty: Certainty,
    /// Its user.
    pub uid: Option<u32>,
}

/// Certainty of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Certainty {
    Known,
    Guessed,
    #[default]
    Unknown,
}

/// Bytes of a stream on one subflow.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Share {
    #[serde(deserialize_with = "name")]
    pub name: String,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// A configured path or helper of a primary.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Link {
    #[serde(deserialize_with = "name")]
    pub name: String,
    #[serde(deserialize_with = "name")]
    pub kind: String,
    #[serde(deserialize_with = "name")]
    pub state: String,
    #[serde(deserialize_with = "sentence")]
    pub error: Option<String>,
    pub cap: Option<Cap>,
    pub energy: Option<Energy>,
    pub battery_percent: Option<u8>,
    pub charging: Option<bool>,
    pub metered: Option<bool>,
}

/// Energy of the radio of a link, by its model.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Energy {
    #[serde(deserialize_with = "name")]
    pub radio: String,
    /// Since the daemon started.
    pub joules: Option<f64>,
    /// Oldest first, over restarts.
    #[serde(deserialize_with = "first::<_, _, MAX_DAYS>")]
    pub days: Vec<Day>,
}

/// Energy of a radio on a day.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Day {
    #[serde(deserialize_with = "name")]
    pub day: String,
    pub joules: Option<f64>,
}

/// Use of the cap of a link.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Cap {
    pub used_bytes: u64,
    pub bytes: u64,
    #[serde(deserialize_with = "name")]
    pub resets: String,
    /// Oldest first.
    #[serde(deserialize_with = "last::<_, _, MAX_CAP_DAYS>")]
    pub days: Vec<DayBytes>,
}

/// Bytes of a link on a day.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct DayBytes {
    #[serde(deserialize_with = "name")]
    pub day: String,
    pub bytes: u64,
}

/// A rule of the policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Rule {
    #[serde(deserialize_with = "name")]
    pub name: String,
    pub line: usize,
    pub flows_total: u64,
}

/// Monthly budget of a helper.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Budget {
    #[serde(deserialize_with = "name")]
    pub month: String,
    pub used_bytes: u64,
    pub max_bytes: Option<u64>,
}

/// Memory of all sessions of a proxy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Memory {
    pub used_bytes: u64,
    pub most_bytes: u64,
}

impl Status {
    /// Reads an answer, without keeping its text: that of 10,000 streams has 4 MB.
    ///
    /// # Errors
    /// It cannot be read, or is not the status of a daemon.
    pub fn read(from: impl Read) -> Result<Self, serde_json::Error> {
        let status: Self = serde_json::from_reader(BufReader::new(from))?;
        if !["primary", "helper", "proxy"].contains(&status.role.as_str()) {
            return Err(Error::custom("it has no role of a daemon"));
        }
        Ok(status)
    }
}

fn is_open<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    from.deserialize_str(OfText(|text| text == "open"))
}

fn certainty<'de, D: Deserializer<'de>>(from: D) -> Result<Certainty, D::Error> {
    from.deserialize_str(OfText(|text| match text {
        "known" => Certainty::Known,
        "guessed" => Certainty::Guessed,
        _ => Certainty::Unknown,
    }))
}

fn hash<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    from.deserialize_str(OfText(|text| {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        hasher.finish()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_absent_fields_are_tolerated() {
        let text = r#"{"role": "primary", "new": {"a": [1]}, "links": [{"name": "w", "x": 1}],
            "sessions": [{"subflows": [{"name": "w", "rtt_ms": null}]}]}"#;
        let status = Status::read(text.as_bytes()).unwrap();
        assert_eq!(status.links[0].name, "w");
        assert_eq!(status.sessions[0].subflows[0].rtt_ms, None);
        for other in ["", "[]", "{}", r#"{"role": "router"}"#, r#"{"role": 1}"#] {
            assert!(Status::read(other.as_bytes()).is_err(), "{other}");
        }
    }

    #[test]
    fn texts_are_bounded_and_lose_what_controls_a_terminal() {
        let long = "x".repeat(5000);
        let text = serde_json::json!({
            "role": "primary",
            "links": [{ "name": "a\u{1b}[2Jb\u{202e}c\n" }, { "name": "<img onerror=x>" }],
            "notes": [long, "é".repeat(600)],
            "rules": vec![serde_json::json!({ "name": "r" }); 3000],
            "transfers": [{ "rule": long, "application": { "name": long } }, { "rule": null }],
        });
        let status = Status::read(text.to_string().as_bytes()).unwrap();
        assert_eq!(status.links[0].name, "a\u{fffd}[2Jb\u{fffd}c\u{fffd}");
        assert_eq!(status.links[1].name, "<img onerror=x>");
        assert_eq!(status.notes[0].chars().count(), 600);
        assert!(status.notes[0].ends_with("x…"));
        assert_eq!(status.notes[1], "é".repeat(600));
        assert_eq!(status.rules.len(), MAX_ENTRIES);
        let of = &status.transfers[0];
        let name = of.application.as_ref().unwrap().name.as_ref();
        for text in [name, of.rule.as_ref()] {
            assert_eq!(text.unwrap().chars().count(), 128);
        }
        assert_eq!(status.transfers[1].rule, None);
    }

    #[test]
    fn lists_of_any_length_are_kept_in_part() {
        let empty = |count| vec![serde_json::json!({}); count];
        let streams = (0..MAX_STREAMS + 5).map(|n| serde_json::json!({ "stream": n }));
        let text = serde_json::json!({
            "role": "proxy", "sessions": empty(MAX_ENTRIES + 1), "paths": empty(MAX_ENTRIES + 1),
            "links": empty(MAX_ENTRIES + 1), "relayed": empty(MAX_ENTRIES + 1),
            "relays": empty(MAX_ENTRIES + 1), "transfers": streams.collect::<Vec<_>>(),
        });
        let status = Status::read(text.to_string().as_bytes()).unwrap();
        let counts = [
            status.sessions.len(),
            status.paths.len(),
            status.links.len(),
            status.relayed.len(),
            status.relays.len(),
        ];
        assert_eq!(counts, [MAX_ENTRIES; 5]);
        assert_eq!(status.transfers.len(), MAX_STREAMS);
        // The newest are last.
        assert_eq!(status.transfers[0].stream, 5);
    }
}
