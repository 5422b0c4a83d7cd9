//! Events of a primary, over its API.

use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use serde::Deserialize;
use tracing::warn;

use crate::cli::api::{self, line};

/// Pause before another attempt to reach a primary.
const PAUSE: Duration = Duration::from_secs(1);

/// An event, or the number of those that were missed.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    pub(super) id: u64,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) link: String,
    pub(super) reason: String,
    pub(super) lost: u64,
}

/// A listener that outlives the primary's process.
pub(super) struct Follower {
    /// Sockets of the API, of which one is the primary's.
    sockets: Vec<PathBuf>,
    lines: Option<BufReader<UnixStream>>,
    /// Whether a primary has answered before: the next one's events are all new.
    has_begun: bool,
    has_warned: bool,
}

impl Follower {
    pub(super) fn new(sockets: Vec<PathBuf>) -> Self {
        Self {
            sockets,
            lines: None,
            has_begun: false,
            has_warned: false,
        }
    }

    /// The next event. Waits for it, and for a primary.
    ///
    /// # Errors
    /// The primary refuses, with its reason.
    pub(super) fn next(&mut self) -> Result<Event, String> {
        loop {
            let Some(lines) = &mut self.lines else {
                self.lines = self.connect()?;
                if self.lines.is_none() {
                    sleep(PAUSE);
                }
                continue;
            };
            match event(lines) {
                Ok(Some(Event { lost, .. })) if lost > 0 => warn!(lost, "events were missed"),
                Ok(Some(event)) => return Ok(event),
                Ok(None) => self.lines = None,
                Err(error) => {
                    warn!(%error, "the primary's events");
                    self.lines = None;
                    sleep(PAUSE);
                }
            }
        }
    }

    /// A connection to the first socket at which a primary answers.
    fn connect(&mut self) -> Result<Option<BufReader<UnixStream>>, String> {
        let query = if self.has_begun { "?since=0" } else { "" };
        let mut failure = None;
        for socket in &self.sockets {
            match listen(socket, query) {
                Ok(Ok(lines)) => {
                    (self.has_begun, self.has_warned) = (true, false);
                    return Ok(Some(lines));
                }
                Ok(Err(refusal)) => return Err(format!("{}: {refusal}", socket.display())),
                Err(e) => failure = Some(format!("{}: {e}", socket.display())),
            }
        }
        if !std::mem::replace(&mut self.has_warned, true) {
            let reason = failure.unwrap_or_default();
            warn!(reason, "waiting for a primary");
        }
        // Those that happen from now on are before the connection.
        self.has_begun = true;
        Ok(None)
    }
}

/// A connection whose lines are events, or the refusal of the primary.
fn listen(socket: &Path, query: &str) -> io::Result<Result<BufReader<UnixStream>, String>> {
    let mut answer = api::ask(socket, &format!("GET /v1/events{query}"), "", "")?;
    if answer.code() == "200" {
        return Ok(Ok(answer.body));
    }
    let reason = line(&mut answer.body)?.unwrap_or_default();
    // Too many clients listen at present.
    if answer.code() == "503" {
        return Err(io::Error::other(reason));
    }
    Ok(Err(format!("{}: {reason}", answer.status())))
}

/// The next event; `None` at the end.
fn event(lines: &mut BufReader<UnixStream>) -> io::Result<Option<Event>> {
    match line(lines)? {
        Some(line) => Ok(Some(serde_json::from_str(&line)?)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn events(text: &str) -> Vec<io::Result<Option<Event>>> {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(text.as_bytes()).unwrap();
        drop(near);
        let mut lines = BufReader::new(far);
        (0..3).map(|_| event(&mut lines)).collect()
    }

    #[test]
    fn lines_are_events_until_the_end() {
        let text = "{\"lost\": 3}\n{\"id\": 4, \"at_s\": 912.25, \"type\": \"link.down\", \"link\": \
                    \"wifi\", \"reason\": \"gone\", \"more\": 1}\n";
        let all: Vec<_> = events(text).into_iter().map(Result::unwrap).collect();
        let lost = Event {
            lost: 3,
            ..Event::default()
        };
        let down = Event {
            id: 4,
            kind: "link.down".into(),
            link: "wifi".into(),
            reason: "gone".into(),
            lost: 0,
        };
        assert_eq!(all, [Some(lost), Some(down), None]);
    }

    #[test]
    fn what_is_no_event_is_an_error() {
        for text in ["x\n", "7\n", "{\"id\": -1}\n"] {
            assert!(events(text)[0].is_err(), "{text}");
        }
        let long = "x".repeat(2 * api::MAX_LINE_BYTES as usize);
        assert_eq!(
            events(&long)[0].as_ref().unwrap_err().to_string(),
            "a line is too long"
        );
    }
}
