//! Events of a primary's API that a comparison of two answers does not show.

use std::io;
use std::path::Path;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use crate::bounded::{name, sentence};
use crate::model::Kind;

/// Maximum length of a line: names and reasons are shorter.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// An event of docs/api.md.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ApiEvent {
    #[serde(rename = "type", deserialize_with = "name")]
    kind: String,
    #[serde(deserialize_with = "name")]
    link: String,
    #[serde(deserialize_with = "sentence")]
    reason: Option<String>,
}

impl ApiEvent {
    /// Kind and text for people; none of an event that a comparison shows.
    pub fn shown(&self) -> Option<(Kind, String)> {
        let reason = self.reason.as_deref().unwrap_or_default();
        // A cap is that of a link, or a budget, which the reason names.
        let cap = match self.link.as_str() {
            "" => reason.to_owned(),
            link => format!("cap of {link}"),
        };
        Some(match self.kind.as_str() {
            "outage.begin" => (Kind::OutageBegin, "no path to the proxy works".to_owned()),
            "outage.end" => (
                Kind::OutageEnd,
                "a path to the proxy works again".to_owned(),
            ),
            "policy.changed" => (Kind::PolicyChanged, "another policy is in force".to_owned()),
            "stream.rule" => (Kind::StreamRule, reason.to_owned()),
            "cap.warn" => (Kind::LimitNear, format!("{cap}: much of it is used")),
            "cap.reached" => (Kind::LimitReached, format!("{cap}: all of it is used")),
            "battery.low" => (
                Kind::LimitReached,
                match reason {
                    "" => format!("{}: the battery is below the floor", self.link),
                    level => format!("{}: the battery is below the floor ({level})", self.link),
                },
            ),
            "pipe.chosen" => (Kind::PipeChosen, format!("{} is used: {reason}", self.link)),
            "pairing.request" => (
                Kind::PairingRequest,
                format!("{reason} has called with the code"),
            ),
            _ => return None,
        })
    }

    /// The name of the link that it is about, or nothing.
    pub fn link(&self) -> &str {
        &self.link
    }
}

/// Reads new events from the socket of an API until it ends.
///
/// # Errors
/// Nothing answers there, or what answers refuses.
pub(crate) async fn follow(socket: &Path, mut take: impl FnMut(ApiEvent)) -> io::Result<()> {
    let mut lines = BufReader::new(UnixStream::connect(socket).await?);
    // By HTTP/1.0 the answer comes without chunks.
    let request = b"GET /v1/events HTTP/1.0\r\nHost: mpbond\r\n\r\n";
    lines.write_all(request).await?;
    let status = line(&mut lines).await?;
    if status.and_then(|s| Some(s.split(' ').nth(1)? == "200")) != Some(true) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    while let Some(line) = line(&mut lines).await? {
        // The other lines of the head are no objects.
        if let Ok(event) = serde_json::from_str(&line) {
            take(event);
        }
    }
    Ok(())
}

/// A line; none at the end.
async fn line(lines: &mut BufReader<UnixStream>) -> io::Result<Option<String>> {
    let mut line = String::new();
    let octets = lines.take(MAX_LINE_BYTES).read_line(&mut line).await?;
    match octets as u64 {
        0 => Ok(None),
        MAX_LINE_BYTES => Err(io::Error::other("a line is too long")),
        _ => Ok(Some(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<String> {
        let event: ApiEvent = serde_json::from_str(text).unwrap();
        event.shown().map(|(_, text)| text)
    }

    #[test]
    fn events_that_answers_do_not_show_have_a_text() {
        for (event, text) in [
            (
                r#"{"id": 1, "type": "outage.begin"}"#,
                "no path to the proxy works",
            ),
            (
                r#"{"type": "cap.warn", "link": "wifi"}"#,
                "cap of wifi: much of it is used",
            ),
            (
                r#"{"type": "cap.reached", "reason": "budget of the rule \"x\""}"#,
                "budget of the rule \"x\": all of it is used",
            ),
            (
                r#"{"type": "stream.rule", "stream": 7, "reason": "a to b keeps the default"}"#,
                "a to b keeps the default",
            ),
            (
                r#"{"type": "pipe.chosen", "link": "cable", "reason": "a\nb\u202e"}"#,
                "cable is used: a\u{fffd}b\u{fffd}",
            ),
        ] {
            assert_eq!(shown(event).as_deref(), Some(text));
        }
        for other in [
            r#"{"lost": 3}"#,
            r#"{"type": "link.up", "link": "w"}"#,
            "{}",
        ] {
            assert_eq!(shown(other), None, "{other}");
        }
    }
}
