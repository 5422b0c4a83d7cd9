//! The fields that this program reads of a daemon's answer to `mpbond status --json`
//! (docs/metrics.md). Spans are in seconds, sizes in bytes.
//!
//! Unknown fields are ignored, and absent ones are empty. The texts come from other devices and
//! from applications: [`Status::read`] bounds them, and replaces characters that control a terminal
//! or the direction of text.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufReader, Read};

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// Maximum number of entries of a list, except streams.
const MAX_ENTRIES: usize = 1024;

/// Maximum number of streams.
const MAX_STREAMS: usize = 20_000;

/// Maximum number of paths of a stream or a session.
const MAX_SHARES: usize = 64;

/// Maximum length of a name and of a sentence, in characters.
const MAX_NAME: usize = 128;
const MAX_SENTENCE: usize = 600;

/// Status of a daemon.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub role: String,
    pub device: String,
    pub version: String,
    pub process: u32,
    pub uptime_s: f64,
    pub needs_restart: Vec<String>,
    pub sessions: Vec<Session>,
    pub paths: Vec<PathTotal>,
    pub relayed: Vec<Relayed>,
    pub relays: Vec<Relay>,
    pub transfers: Vec<Transfer>,
    pub transfers_withheld: bool,
    pub links: Vec<Link>,
    pub rules: Vec<Rule>,
    pub default_flows_total: Option<u64>,
    pub budget: Option<Budget>,
    pub memory: Option<Memory>,
    pub notes: Vec<String>,
}

/// A session.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Session {
    pub peer: String,
    pub state: String,
    pub scheduler: String,
    pub streams_open: u64,
    pub subflows: Vec<Subflow>,
}

/// A subflow. Numbers that are not finite come as null.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Subflow {
    pub name: String,
    pub kind: String,
    pub state: String,
    pub pad_ms: Option<f64>,
    pub rtt_ms: Option<f64>,
    pub b_p: u64,
}

/// Bytes of a path since the daemon started.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PathTotal {
    pub peer: String,
    pub name: String,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// Bytes that a helper has relayed for a primary.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Relayed {
    pub primary: String,
    pub bytes_down: u64,
    pub bytes_up: u64,
}

/// A relay at a helper.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Relay {
    pub primary: String,
    pub level_down_bytes: u64,
    pub level_up_bytes: u64,
}

/// A stream, open or over.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Transfer {
    /// Hash of its session's id.
    #[serde(deserialize_with = "hash")]
    pub session: u64,
    pub stream: u64,
    pub destination: String,
    pub class: String,
    #[serde(rename = "state", deserialize_with = "is_open")]
    pub is_open: bool,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub subflows: Vec<Share>,
}

/// Bytes of a stream on one subflow.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Share {
    pub name: String,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// A configured path or helper of a primary.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Link {
    pub name: String,
    pub kind: String,
    pub state: String,
    pub error: Option<String>,
}

/// A rule of the policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Rule {
    pub name: String,
    pub line: usize,
    pub flows_total: u64,
}

/// Monthly budget of a helper.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Budget {
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
        let mut status: Self = serde_json::from_reader(BufReader::new(from))?;
        if !["primary", "helper", "proxy"].contains(&status.role.as_str()) {
            return Err(Error::custom("it has no role of a daemon"));
        }
        status.bound();
        Ok(status)
    }

    fn bound(&mut self) {
        [&mut self.device, &mut self.version]
            .into_iter()
            .for_each(name);
        self.needs_restart.truncate(MAX_ENTRIES);
        self.needs_restart.iter_mut().for_each(name);
        self.sessions.truncate(MAX_ENTRIES);
        for session in &mut self.sessions {
            [
                &mut session.peer,
                &mut session.state,
                &mut session.scheduler,
            ]
            .into_iter()
            .for_each(name);
            session.subflows.truncate(MAX_SHARES);
            for subflow in &mut session.subflows {
                [&mut subflow.name, &mut subflow.kind, &mut subflow.state]
                    .into_iter()
                    .for_each(name);
            }
        }
        self.paths.truncate(MAX_ENTRIES);
        for path in &mut self.paths {
            [&mut path.peer, &mut path.name].into_iter().for_each(name);
        }
        self.relayed.truncate(MAX_ENTRIES);
        self.relayed.iter_mut().for_each(|r| name(&mut r.primary));
        self.relays.truncate(MAX_ENTRIES);
        self.relays.iter_mut().for_each(|r| name(&mut r.primary));
        self.links.truncate(MAX_ENTRIES);
        for link in &mut self.links {
            [&mut link.name, &mut link.kind, &mut link.state]
                .into_iter()
                .for_each(name);
            link.error.iter_mut().for_each(sentence);
        }
        self.rules.truncate(MAX_ENTRIES);
        self.rules.iter_mut().for_each(|r| name(&mut r.name));
        self.budget.iter_mut().for_each(|b| name(&mut b.month));
        self.notes.truncate(MAX_SHARES);
        self.notes.iter_mut().for_each(sentence);
        // The newest are last.
        let old = self.transfers.len().saturating_sub(MAX_STREAMS);
        self.transfers.drain(..old);
        for transfer in &mut self.transfers {
            [&mut transfer.destination, &mut transfer.class]
                .into_iter()
                .for_each(name);
            transfer.subflows.truncate(MAX_SHARES);
            transfer.subflows.iter_mut().for_each(|s| name(&mut s.name));
        }
    }
}

/// A value that is made of a text.
struct OfText<T>(fn(&str) -> T);

impl<T> Visitor<'_> for OfText<T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok((self.0)(text))
    }
}

fn is_open<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    from.deserialize_str(OfText(|text| text == "open"))
}

fn hash<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    from.deserialize_str(OfText(|text| {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        hasher.finish()
    }))
}

fn name(text: &mut String) {
    clean(text, MAX_NAME);
}

fn sentence(text: &mut String) {
    clean(text, MAX_SENTENCE);
}

/// Cuts a text, and replaces characters that are not to be shown.
fn clean(text: &mut String, max: usize) {
    if text.len() <= max && text.chars().all(is_shown) {
        return;
    }
    let shown = text
        .chars()
        .map(|c| if is_shown(c) { c } else { '\u{fffd}' });
    *text = match text.chars().nth(max) {
        None => shown.collect(),
        Some(_) => shown.take(max - 1).chain(['…']).collect(),
    };
}

/// Whether a character neither controls a terminal nor turns the direction of the text around it
/// (Unicode Standard Annex 9), nor is invisible.
fn is_shown(c: char) -> bool {
    let is_format = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !c.is_control() && !is_format
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
        });
        let status = Status::read(text.to_string().as_bytes()).unwrap();
        assert_eq!(status.links[0].name, "a\u{fffd}[2Jb\u{fffd}c\u{fffd}");
        assert_eq!(status.links[1].name, "<img onerror=x>");
        assert_eq!(status.notes[0].chars().count(), 600);
        assert!(status.notes[0].ends_with("x…"));
        assert_eq!(status.notes[1], "é".repeat(600));
        assert_eq!(status.rules.len(), MAX_ENTRIES);
    }
}
