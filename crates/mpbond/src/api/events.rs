//! The recent events of a daemon. Nothing is done for them but keeping each as it happens.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use mpbond_units::Timestamp;
use serde::Serialize;
use tokio::sync::{Notify, mpsc};

use super::{Failure, accepts};
use crate::http::Answer;

/// Number of events that are kept.
const KEPT: u64 = 256;

/// Maximum number of listeners.
const MAX_LISTENERS: usize = 32;

/// Head of a listener to server-sent events that comes again.
const LAST_EVENT_ID: &str = "last-event-id";

/// Content type of server-sent events.
const SERVER_SENT: &str = "text/event-stream";

/// Type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "EventType"))]
pub(crate) enum EventKind {
    /// An own link carries data now.
    #[serde(rename = "link.up")]
    LinkUp,
    /// An own link carries no data any longer.
    #[serde(rename = "link.down")]
    LinkDown,
    /// A subflow over this link is silent; it may work again.
    #[serde(rename = "link.suspect")]
    LinkSuspect,
    /// A pipe to a helper carries data now.
    #[serde(rename = "helper.joined")]
    HelperJoined,
    /// A pipe to a helper carries no data any longer.
    #[serde(rename = "helper.left")]
    HelperLeft,
    /// No path to the proxy works.
    #[serde(rename = "outage.begin")]
    OutageBegin,
    /// A path to the proxy works again.
    #[serde(rename = "outage.end")]
    OutageEnd,
    /// Another policy is in force.
    #[serde(rename = "policy.changed")]
    PolicyChanged,
    /// The policy in force would treat an open connection otherwise.
    #[serde(rename = "stream.rule")]
    StreamRule,
    /// So much of a link's cap, or of a rule's budget, is used as `warn` says.
    #[serde(rename = "cap.warn")]
    CapWarn,
    /// All of a link's cap, or of a rule's budget, is used.
    #[serde(rename = "cap.reached")]
    CapReached,
    /// Of several pipes to a helper, this one is used from now on.
    #[serde(rename = "pipe.chosen")]
    PipeChosen,
    /// The battery of a link's device is low.
    #[serde(rename = "battery.low")]
    BatteryLow,
    /// A device with the code of a pairing has called.
    #[serde(rename = "pairing.request")]
    PairingRequest,
}

/// An event.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Event {
    /// What has happened.
    #[serde(rename = "type")]
    pub(crate) kind: EventKind,
    /// The path or helper that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) link: Option<String>,
    /// The reason, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The connection and the rules that it is about.
    #[serde(flatten)]
    pub(crate) rule: Option<OtherRule>,
}

/// An open connection that another rule would select now, or the same one with another treatment.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct OtherRule {
    /// Number of the connection.
    pub(crate) stream: u64,
    /// The rule that it has and keeps, unless that is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<String>,
    /// The rule that a new connection like it would have, unless that is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
}

/// What a listener is sent.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Event"))]
#[serde(untagged)]
pub(crate) enum Line<'a> {
    /// An event.
    Event {
        /// Rises by one from each event to the next.
        id: u64,
        /// Since the daemon started.
        at_s: f64,
        #[serde(flatten)]
        event: &'a Event,
    },
    /// Events that are no longer there.
    Lost {
        /// Their number.
        lost: u64,
    },
}

/// Form in which a listener reads events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// One JSON object a line.
    Lines,
    /// Server-sent events (HTML standard, section 9.2). An id is the start of the daemon and that
    /// of the event: a client that comes again by itself may find another process.
    ServerSent { start: i64 },
}

impl Form {
    const fn content(self) -> &'static str {
        match self {
            Self::Lines => "application/x-ndjson",
            Self::ServerSent { .. } => SERVER_SENT,
        }
    }

    /// Appends the id of the last event.
    fn write_id(self, text: &mut Vec<u8>, id: u64) {
        if let Self::ServerSent { start } = self {
            text.extend_from_slice(format!("id: {start}-{id}\n").as_bytes());
        }
    }

    /// Appends a line; JSON has no line ends in it.
    fn write(self, text: &mut Vec<u8>, line: &Line<'_>) {
        let is_sent = matches!(self, Self::ServerSent { .. });
        // A gap has no id.
        if let Line::Event { id, .. } = *line {
            self.write_id(text, id);
        }
        if is_sent {
            text.extend_from_slice(b"data: ");
        }
        // A vector takes everything, and the values have no keys but text.
        let _ = serde_json::to_writer(&mut *text, line);
        text.push(b'\n');
        if is_sent {
            text.push(b'\n');
        }
    }
}

/// The last events. For use on one thread.
pub(crate) struct Events {
    /// When the daemon started, in milliseconds of Unix time.
    start: i64,
    kept: RefCell<Kept>,
    happened: Notify,
    /// Held by listeners.
    listener: Rc<()>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            start: jiff::Timestamp::now().as_millisecond(),
            kept: RefCell::default(),
            happened: Notify::default(),
            listener: Rc::default(),
        }
    }
}

#[derive(Default)]
struct Kept {
    events: VecDeque<(Timestamp, Event)>,
    /// The id of the last one; the first event has 1.
    last: u64,
}

impl Kept {
    fn push(&mut self, now: Timestamp, event: Event) {
        if self.events.len() as u64 == KEPT {
            self.events.pop_front();
        }
        self.events.push_back((now, event));
        self.last += 1;
    }

    /// All events after this one, and the gap before them, if there is one.
    fn after(&self, id: u64, form: Form) -> Vec<u8> {
        let before = self.last - self.events.len() as u64;
        let mut text = Vec::new();
        if id < before {
            let lost = before - id;
            form.write(&mut text, &Line::Lost { lost });
        }
        let events = (before + 1..).zip(&self.events);
        for (id, (at, event)) in events.filter(|(n, _)| *n > id) {
            let at_s = at.as_secs_f64();
            form.write(&mut text, &Line::Event { id, at_s, event });
        }
        text
    }
}

impl Events {
    /// Keeps an event, and tells it to those who listen.
    pub(crate) fn push(&self, now: Timestamp, event: Event) {
        self.kept.borrow_mut().push(now, event);
        self.happened.notify_waiters();
    }

    /// Answer to a listener that has the events up to `since`; without it, all later ones follow.
    /// It gets server-sent events where its head asks for them. These may tell the last one that
    /// it has in the head, too, which is later than that with which it began.
    ///
    /// # Errors
    /// There are too many listeners, there was no such event, or the id in the head is none.
    pub(crate) fn listen(
        self: Rc<Self>,
        head: &HeaderMap,
        mut since: Option<u64>,
    ) -> Result<Response<Answer>, Failure> {
        let mut form = Form::Lines;
        if accepts(head, SERVER_SENT) {
            form = Form::ServerSent { start: self.start };
            if let Some(id) = head.get(LAST_EVENT_ID) {
                let id = id.to_str().ok().and_then(read_id);
                let wrong = || Failure::bad("Last-Event-ID: not the id of an event");
                let (start, event) = id.ok_or_else(wrong)?;
                // Of another start, it has none of these.
                since = Some(if start == self.start { event } else { 0 });
            }
        }
        let last = self.kept.borrow().last;
        let mut told = since.unwrap_or(last);
        if told > last {
            return Err(Failure::new(
                StatusCode::GONE,
                format!(
                    "the last event is {last}: the daemon has started again since event {told}; \
                     begin with since=0"
                ),
            ));
        }
        let listener = self.place()?;
        let (parts, body) = mpsc::channel(1);
        crate::task::spawn_local(async move {
            let _listener = listener;
            let mut begin = Vec::new();
            form.write_id(&mut begin, told);
            if !begin.is_empty() {
                begin.push(b'\n');
                if parts.send(Bytes::from(begin)).await.is_err() {
                    return;
                }
            }
            loop {
                let (lines, last) = {
                    let kept = self.kept.borrow();
                    (kept.after(told, form), kept.last)
                };
                if lines.is_empty() {
                    tokio::select! {
                        () = self.happened.notified() => {}
                        () = parts.closed() => return,
                    }
                } else if parts.send(Bytes::from(lines)).await.is_err() {
                    return;
                } else {
                    told = last;
                }
            }
        });
        Ok(endless(form, body))
    }

    /// The place of a listener, to be kept as long as it listens: to events, or to samples.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn place(&self) -> Result<Rc<()>, Failure> {
        if Rc::strong_count(&self.listener) > MAX_LISTENERS {
            return Err(Failure::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("{MAX_LISTENERS} clients listen already"),
            ));
        }
        Ok(Rc::clone(&self.listener))
    }
}

/// The start of a daemon and the number of an event, of an id that a listener has kept.
fn read_id(id: &str) -> Option<(i64, u64)> {
    let (start, event) = id.split_once('-')?;
    let are_digits = [start, event]
        .iter()
        .all(|part| part.bytes().all(|b| b.is_ascii_digit()));
    are_digits.then_some(())?;
    Some((start.parse().ok()?, event.parse().ok()?))
}

/// An answer of lines without an end.
pub(crate) fn lines(parts: mpsc::Receiver<Bytes>) -> Response<Answer> {
    endless(Form::Lines, parts)
}

fn endless(form: Form, parts: mpsc::Receiver<Bytes>) -> Response<Answer> {
    let mut response = Response::new(Answer::Endless(parts));
    let kind = HeaderValue::from_static(form.content());
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn event() -> Event {
        Event {
            kind: EventKind::OutageBegin,
            link: None,
            reason: None,
            rule: None,
        }
    }

    fn lines(kept: &Kept, after: u64) -> Vec<serde_json::Value> {
        let text = String::from_utf8(kept.after(after, Form::Lines)).unwrap();
        let lines = text.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn ids_rise_by_one_and_a_gap_is_told() {
        let mut kept = Kept::default();
        assert!(kept.after(0, Form::Lines).is_empty());
        for n in 0..KEPT + 10 {
            let event = Event {
                kind: EventKind::LinkUp,
                link: Some(format!("<b>{n}</b>\n")),
                reason: None,
                rule: None,
            };
            kept.push(Timestamp::ZERO + Duration::from_millis(500), event);
        }
        let all = lines(&kept, 0);
        assert_eq!(all[0], serde_json::json!({"lost": 10}));
        let ids: Vec<_> = all[1..].iter().map(|line| line["id"].as_u64()).collect();
        let wanted: Vec<_> = (11..=KEPT + 10).map(Some).collect();
        assert_eq!(ids, wanted);
        let first = serde_json::json!(
            {"id": 11, "at_s": 0.5, "type": "link.up", "link": "<b>10</b>\n"}
        );
        assert_eq!(all[1], first);
        assert_eq!(lines(&kept, 10).len(), KEPT as usize, "no gap");
        assert_eq!(lines(&kept, KEPT + 9).len(), 1);
        assert!(kept.after(KEPT + 10, Form::Lines).is_empty());
    }

    #[test]
    fn server_sent_events_have_ids_and_a_gap_has_none() {
        let mut kept = Kept::default();
        for n in 0..=KEPT {
            let event = Event {
                kind: EventKind::LinkUp,
                link: Some(format!("{n}\r\ndata: x\u{2028}\n\nid: 9")),
                reason: None,
                rule: None,
            };
            kept.push(Timestamp::ZERO, event);
        }
        let lines = lines(&kept, 0);
        let sent = Form::ServerSent { start: 7 };
        let text = String::from_utf8(kept.after(0, sent)).unwrap();
        let read: Vec<_> = text.split_terminator("\n\n").collect();
        assert_eq!(read[0], "data: {\"lost\":1}");
        assert_eq!(
            (read.len(), lines.len()),
            (KEPT as usize + 1, KEPT as usize + 1)
        );
        for (n, (event, line)) in read.iter().zip(&lines).enumerate().skip(1) {
            let (id, data) = event.split_once("\ndata: ").unwrap();
            assert_eq!(id, format!("id: 7-{}", n + 1));
            let data: serde_json::Value = serde_json::from_str(data).unwrap();
            assert_eq!(&data, line);
        }
        assert!(kept.after(KEPT + 1, sent).is_empty());
    }

    #[test]
    fn the_last_event_of_a_listener_that_comes_again_counts_and_not_its_first_one() {
        let events = Rc::new(Events::default());
        let asks = |form: &'static str, last: &str| {
            let mut head = HeaderMap::new();
            head.insert("accept", HeaderValue::from_static(form));
            head.insert(LAST_EVENT_ID, HeaderValue::from_str(last).unwrap());
            let answer = Rc::clone(&events).listen(&head, Some(9));
            answer.err().unwrap().answer().status()
        };
        let (sent, start) = (SERVER_SENT, events.start);
        assert_eq!(asks(sent, &format!("{start}-1")), StatusCode::GONE);
        let too_large = format!("{start}-99999999999999999999");
        for wrong in ["", "1", "-1", "+1-1", "1-+1", "1-2-3", "1,2", &too_large] {
            assert_eq!(asks(sent, wrong), StatusCode::BAD_REQUEST, "{wrong}");
        }
        assert_eq!(asks("application/x-ndjson", "x"), StatusCode::GONE);
    }

    #[tokio::test]
    async fn a_listener_of_another_start_has_all_events_of_this_one() {
        let all = async {
            let events = Rc::new(Events::default());
            events.push(Timestamp::ZERO, event());
            events.push(Timestamp::ZERO, event());
            let asks = async |last: String| {
                let mut head = HeaderMap::new();
                head.insert("accept", HeaderValue::from_static(SERVER_SENT));
                head.insert(LAST_EVENT_ID, HeaderValue::from_str(&last).unwrap());
                let answer = Rc::clone(&events).listen(&head, None).unwrap();
                let Answer::Endless(mut parts) = answer.into_body() else {
                    panic!("it ends");
                };
                let (begin, rest) = (parts.recv().await.unwrap(), parts.recv().await.unwrap());
                let ids = [begin, rest].map(|part| {
                    let text = String::from_utf8(part.to_vec()).unwrap();
                    let ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
                    ids.map(|id| read_id(id).unwrap().1).collect::<Vec<_>>()
                });
                (ids[0].clone(), ids[1].clone())
            };
            let start = events.start;
            assert_eq!(asks(format!("{start}-1")).await, (vec![1], vec![2]));
            assert_eq!(
                asks(format!("{}-2", start - 1)).await,
                (vec![0], vec![1, 2])
            );
        };
        tokio::task::LocalSet::new().run_until(all).await;
    }

    #[tokio::test]
    async fn a_listener_too_many_and_one_of_another_start_are_refused_and_others_go_on() {
        let all = async {
            let events = Rc::new(Events::default());
            let listen = |since| Rc::clone(&events).listen(&HeaderMap::new(), since);
            assert!(listen(Some(1)).is_err(), "of another start");
            let mut listeners: Vec<_> = (0..MAX_LISTENERS).map(|_| listen(None).unwrap()).collect();
            for _ in 0..10_000 {
                assert!(listen(None).is_err());
            }
            events.push(Timestamp::ZERO, event());
            for listener in &mut listeners {
                let Answer::Endless(parts) = listener.body_mut() else {
                    panic!("it ends");
                };
                assert!(parts.recv().await.unwrap().starts_with(b"{\"id\":1,"));
            }
            // One that leaves gives its place back.
            listeners.pop();
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            listen(None).unwrap();
        };
        tokio::task::LocalSet::new().run_until(all).await;
    }
}
