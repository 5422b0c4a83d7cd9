//! Listeners of the page's stream, and the task that asks the daemon while there are any.
//!
//! A stream is lines of JSON: first the history, then what each second has brought.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use crate::api_event::{ApiEvent, follow};
use crate::client::Client;
use crate::model::{Event, Frame, Model, Sample};
use crate::status::Status;

/// Time between two questions to the daemon.
const EVERY: Duration = Duration::from_secs(1);

/// Pause before another attempt to follow the events of a primary.
const AGAIN: Duration = Duration::from_secs(5);

/// An answer is shown to a new listener if it is younger than this, in seconds.
const NEW_S: f64 = 5.0;

/// Maximum number of listeners: pages that are open.
const MAX_LISTENERS: usize = 8;

/// Lines that wait for a listener; one that does not read them is dropped.
const MAX_WAITING: usize = 16;

/// A line of the stream.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Line<'a> {
    /// The first one: what has been before.
    History {
        t: f64,
        samples: Vec<&'a Sample>,
        events: Vec<Event>,
        /// The user who may see destinations.
        owner: Option<&'a str>,
        /// This user may change links, and pair.
        may_change: bool,
        /// Diagnostic bundles are made.
        has_bundle: bool,
    },
    /// An answer of the daemon.
    Frame {
        #[serde(flatten)]
        frame: &'a Frame,
        sample: Option<&'a Sample>,
        events: Vec<Event>,
    },
    /// The daemon has not answered.
    Lost {
        t: f64,
        why: &'a str,
        events: Vec<Event>,
    },
}

impl Line<'_> {
    fn bytes(&self) -> Bytes {
        // Maps have text as keys, and numbers that are not finite become null: it cannot fail.
        let mut text = serde_json::to_vec(self).unwrap_or_default();
        text.push(b'\n');
        text.into()
    }
}

/// The daemon's model, and those who listen.
#[derive(Debug)]
pub(crate) struct Hub {
    client: Client,
    read_only: bool,
    owner: Option<String>,
    start: Instant,
    state: Mutex<State>,
    /// There is a listener.
    listener_came: Notify,
}

#[derive(Debug, Default)]
struct State {
    model: Model,
    listeners: Vec<mpsc::Sender<Bytes>>,
}

impl Hub {
    /// A hub for a daemon that has answered. `read_only`: nothing is changed.
    pub fn new(client: Client, first: Status, read_only: bool) -> Arc<Self> {
        let mut state = State::default();
        state.model.take(0.0, first);
        Arc::new(Self {
            owner: client.owner(),
            client,
            read_only,
            start: Instant::now(),
            state: Mutex::new(state),
            listener_came: Notify::new(),
        })
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Whether no change is passed on, and no control is shown.
    pub(super) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The last events, and the present time of their clock.
    pub(super) fn events(&self) -> (f64, Vec<Event>) {
        (self.now(), self.state().model.events())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// The stream of a new listener; none where there are too many.
    pub fn listen(&self) -> Option<mpsc::Receiver<Bytes>> {
        let mut state = self.state();
        state.listeners.retain(|l| !l.is_closed());
        if state.listeners.len() >= MAX_LISTENERS {
            return None;
        }
        let (to, from) = mpsc::channel(MAX_WAITING);
        let history = Line::History {
            t: self.now(),
            samples: state.model.samples().collect(),
            events: state.model.events(),
            owner: self.owner.as_deref(),
            may_change: !self.read_only && self.client.may_change(),
            has_bundle: !self.read_only,
        };
        let mut lines = vec![history.bytes()];
        let is_new = |frame: &&Frame| self.now() - frame.t < NEW_S;
        if let Some(frame) = state.model.frame().filter(is_new) {
            let (sample, events) = (None, Vec::new());
            lines.push(
                Line::Frame {
                    frame,
                    sample,
                    events,
                }
                .bytes(),
            );
        }
        if let Some(why) = state.model.lost() {
            let (t, events) = (self.now(), Vec::new());
            lines.push(Line::Lost { t, why, events }.bytes());
        }
        for line in lines {
            // There is room: the channel is new.
            let _ = to.try_send(line);
        }
        state.listeners.push(to);
        self.listener_came.notify_one();
        Some(from)
    }

    /// Asks the daemon once a second while somebody listens; for ever.
    pub async fn run(self: Arc<Self>) {
        let mut next = self.start + EVERY;
        let mut following = JoinSet::new();
        loop {
            while !self.has_listeners() {
                following = JoinSet::new();
                self.listener_came.notified().await;
            }
            if following.is_empty() {
                following.spawn(Arc::clone(&self).follow());
            }
            sleep_until(next.into()).await;
            if !self.has_listeners() {
                continue;
            }
            next = Instant::now() + EVERY;
            let client = self.client.clone();
            let answer = tokio::task::spawn_blocking(move || client.ask()).await;
            let answer = answer.unwrap_or_else(|e| Err(e.to_string()));
            self.tell(answer);
        }
    }

    /// Follows the events of a primary's API; for ever. Where there is none, or this user may not
    /// read it, those events are not shown.
    async fn follow(self: Arc<Self>) {
        let socket = self.client.api();
        loop {
            let take = |event: ApiEvent| {
                if let Some((kind, text)) = event.shown() {
                    let t = self.now();
                    self.state()
                        .model
                        .add_api_event(t, kind, event.link(), &text);
                }
            };
            let _ = follow(&socket, take).await;
            sleep(AGAIN).await;
        }
    }

    fn has_listeners(&self) -> bool {
        let mut state = self.state();
        state.listeners.retain(|l| !l.is_closed());
        !state.listeners.is_empty()
    }

    fn tell(&self, answer: Result<Status, String>) {
        let t = self.now();
        let state = &mut *self.state();
        let line = match answer {
            Ok(status) => {
                let added = state.model.take(t, status);
                Line::Frame {
                    frame: added.frame,
                    sample: added.sample,
                    events: added.events,
                }
                .bytes()
            }
            Err(why) => {
                let events = state.model.fail(t, &why);
                Line::Lost {
                    t,
                    why: &why,
                    events,
                }
                .bytes()
            }
        };
        state.listeners.retain(|l| l.try_send(line.clone()).is_ok());
    }
}
