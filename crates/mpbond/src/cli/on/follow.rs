//! Events of a primary, over its API.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use serde::Deserialize;
use tracing::warn;

use crate::cli::api::{self, Line, line};

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
    /// Id of the last event, which names the start of its daemon, too: all events of another one
    /// are new.
    last: Option<String>,
    /// Whether there was no primary: all events of the next one are new.
    was_absent: bool,
    has_warned: bool,
}

impl Follower {
    pub(super) fn new(sockets: Vec<PathBuf>) -> Self {
        Self {
            sockets,
            lines: None,
            last: None,
            was_absent: false,
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
            match sent(lines) {
                Ok(Some(Sent { id, event })) => {
                    self.last = id.or(self.last.take());
                    match event {
                        Some(Event { lost, .. }) if lost > 0 => warn!(lost, "events were missed"),
                        Some(event) => return Ok(event),
                        None => {}
                    }
                }
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
        let query = if self.was_absent { "?since=0" } else { "" };
        let (mut failure, mut is_absent) = (None, true);
        for socket in &self.sockets {
            match listen(socket, query, self.last.as_deref()) {
                Ok(Ok(lines)) => {
                    self.has_warned = false;
                    return Ok(Some(lines));
                }
                Ok(Err(refusal)) => return Err(format!("{}: {refusal}", socket.display())),
                Err(e) => {
                    is_absent &=
                        matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused);
                    failure = Some(format!("{}: {e}", socket.display()));
                }
            }
        }
        if !std::mem::replace(&mut self.has_warned, true) {
            let reason = failure.unwrap_or_default();
            warn!(reason, "waiting for a primary");
        }
        // Those of a primary that starts from now on are before the connection. One that runs, but
        // has no room for this listener, has old ones, too.
        self.was_absent |= is_absent;
        Ok(None)
    }
}

/// A connection whose lines are server-sent events after the last one, which an id goes before; or
/// the refusal of the primary.
fn listen(
    socket: &Path,
    query: &str,
    last: Option<&str>,
) -> io::Result<Result<BufReader<UnixStream>, String>> {
    let mut head = "Accept: text/event-stream\r\n".to_owned();
    if let Some(last) = last {
        let _ = write!(head, "Last-Event-ID: {last}\r\n");
    }
    let mut answer = api::ask(socket, &format!("GET /v1/events{query}"), &head, "")?;
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

/// A server-sent event: an id, an event, or both.
#[derive(Debug, PartialEq, Eq)]
struct Sent {
    id: Option<String>,
    event: Option<Event>,
}

/// The next one, which ends with an empty line (HTML standard, section 9.2.6); `None` at the end,
/// also where that cuts one off. An event with a line that is too long is left out.
fn sent(lines: &mut BufReader<UnixStream>) -> io::Result<Option<Sent>> {
    let (mut id, mut data, mut is_too_long) = (None, None, false);
    while let Some(line) = api::next_line(lines)? {
        let line = match line {
            Line::Text(line) => line,
            Line::TooLong => {
                is_too_long = true;
                lines.skip_until(b'\n')?;
                continue;
            }
        };
        match line.split_once(": ") {
            Some(("id", text)) => id = Some(text.to_owned()),
            Some(("data", text)) => data = Some(text.to_owned()),
            _ if line.is_empty() => {
                if is_too_long {
                    warn!(id, "an event is longer than 64 KiB: left out");
                }
                let data = data.filter(|_| !is_too_long);
                let event = data.and_then(|data| understood(&data));
                return Ok(Some(Sent { id, event }));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// The event of this text. One that is not understood is left out: if it was asked for again, it
/// would be the same.
fn understood(data: &str) -> Option<Event> {
    let event = serde_json::from_str(data);
    let told = |error: &serde_json::Error| warn!(%error, "an event is not understood: left out");
    event.inspect_err(told).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn events(text: &str) -> Vec<io::Result<Option<Sent>>> {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(text.as_bytes()).unwrap();
        drop(near);
        let mut lines = BufReader::new(far);
        (0..4).map(|_| sent(&mut lines)).collect()
    }

    #[test]
    fn events_have_ids_until_the_end() {
        let text = "id: 7-1\n\ndata: {\"lost\": 3}\n\nid: 7-4\ndata: {\"id\": 4, \"at_s\": 912.25, \
                    \"type\": \"link.down\", \"link\": \"wifi\", \"reason\": \"gone\", \"more\": 1}\n\n\
                    id: 7-5\n";
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
        let sent = |id: Option<&str>, event| {
            let id = id.map(str::to_owned);
            Some(Sent { id, event })
        };
        let [begin, lost, down] = [
            sent(Some("7-1"), None),
            sent(None, Some(lost)),
            sent(Some("7-4"), Some(down)),
        ];
        assert_eq!(all, [begin, lost, down, None], "the last one is cut off");
    }

    #[test]
    fn what_is_no_event_has_an_id_alone_and_so_has_one_that_is_longer_than_64_kib() {
        let long = |bytes: usize| format!("{{\"id\": 5, \"reason\": \"{}\"}}", "x".repeat(bytes));
        let (whole, longer) = (long(65_000), long(2 << 16));
        for data in ["x", "7", "{\"id\": -1}", &longer] {
            let all = events(&format!("id: 7-5\ndata: {data}\n\nid: 7-6\n\n"));
            let ids = all.into_iter().filter_map(Result::unwrap).map(|sent| {
                assert_eq!(sent.event, None, "{data:.9}");
                sent.id.unwrap()
            });
            assert_eq!(ids.collect::<Vec<_>>(), ["7-5", "7-6"], "{data:.9}");
        }
        let first = events(&format!("data: {whole}\n\n")).swap_remove(0);
        let event = first.unwrap().and_then(|sent| sent.event);
        assert_eq!(event.map(|event| event.reason.len()), Some(65_000));
        // The end cuts it off.
        let cut = events(&format!("id: 7-5\ndata: {longer}")).swap_remove(0);
        assert_eq!(cut.unwrap(), None);
    }

    /// A primary's side: answers a listener, and returns its request.
    fn answer(listener: &UnixListener, body: &str) -> String {
        answer_by(listener, "200 OK", body)
    }

    fn answer_by(listener: &UnixListener, status: &str, body: &str) -> String {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = BufReader::new(client.try_clone().unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            request.read_line(&mut head).unwrap();
        }
        // At once: the client may close as soon as it has the head.
        let whole = format!("HTTP/1.0 {status}\r\n\r\n{body}");
        client.write_all(whole.as_bytes()).unwrap();
        head
    }

    /// Its events have ids from its start on: those that it has kept are old.
    #[test]
    fn a_primary_that_was_busy_is_not_asked_for_what_was_before() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("primary.api");
        let listener = UnixListener::bind(&socket).unwrap();
        // That of another user's primary is not there.
        let none = folder.path().join("none.api");
        let mut follower = Follower::new(vec![socket, none]);
        let primary = std::thread::spawn(move || {
            let busy = "{\"error\": \"there are 32 listeners\"}";
            let first = answer_by(&listener, "503 Service Unavailable", busy);
            // With 128 clients, it closes connections without an answer.
            drop(listener.accept().unwrap());
            let third = answer(&listener, "id: 7-4\n\n");
            [first, third]
        });
        assert!(follower.connect().unwrap().is_none(), "it waits");
        assert!(follower.connect().unwrap().is_none(), "it waits");
        assert!(follower.connect().unwrap().is_some());
        for head in primary.join().unwrap() {
            assert!(head.starts_with("GET /v1/events HTTP"), "{head}");
        }
    }

    #[test]
    fn a_listener_that_connects_again_asks_for_what_follows_its_last_event() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("primary.api");
        let mut follower = Follower::new(vec![socket.clone()]);
        assert!(follower.connect().unwrap().is_none(), "it waits");
        let listener = UnixListener::bind(&socket).unwrap();
        let primary = std::thread::spawn(move || {
            let event = |n: u32| format!("id: 7-{n}\ndata: {{\"id\": {n}}}\n\n");
            let first = answer(&listener, &("id: 7-0\n\n".to_owned() + &event(1)));
            let second = answer(&listener, "id: 7-1\n\n");
            let third = answer(&listener, &event(2));
            [first, second, third]
        });
        assert_eq!(follower.next().unwrap().id, 1);
        assert_eq!(follower.next().unwrap().id, 2);
        let heads = primary.join().unwrap();
        assert!(heads[0].starts_with("GET /v1/events?since=0 "), "{heads:?}");
        assert!(!heads[0].contains("Last-Event-ID"), "{heads:?}");
        for again in &heads[1..] {
            assert!(again.contains("Last-Event-ID: 7-1\r\n"), "{heads:?}");
        }
    }

    /// One that is not understood, or too long, would be sent again for ever, and keep all later
    /// ones from being handled.
    #[test]
    fn an_event_that_is_not_understood_is_left_out_and_one_that_is_cut_off_is_asked_for_again() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("primary.api");
        let listener = UnixListener::bind(&socket).unwrap();
        let mut follower = Follower::new(vec![socket]);
        let primary = std::thread::spawn(move || {
            let wrong = "id: 7-1\ndata: {\"id\": \"one\"}\n\n";
            answer(&listener, &format!("{wrong}id: 7-2\ndata: {{\"id\": 2"));
            let again = answer(&listener, "id: 7-2\ndata: {\"id\": 2}\n\n");
            // Then a long one, after which the connection ends.
            let long = "x".repeat(2 << 16);
            answer(&listener, &format!("id: 7-3\ndata: {long}\n\n"));
            let next = answer(&listener, "id: 7-4\ndata: {\"id\": 4}\n\n");
            [again, next]
        });
        assert_eq!(follower.next().unwrap().id, 2);
        assert_eq!(follower.next().unwrap().id, 4);
        let [again, next] = primary.join().unwrap();
        assert!(next.contains("Last-Event-ID: 7-3\r\n"), "{next}");
        assert!(again.contains("Last-Event-ID: 7-1\r\n"), "{again}");
    }
}
