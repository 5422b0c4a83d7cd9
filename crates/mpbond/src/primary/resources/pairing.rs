//! `/v1/pairing`: this primary shows a code, and a helper that has it calls.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::{Response, StatusCode};
use mpbond_net::pairing::{Introduction, MAX_NAME_BYTES, Peer, Role, is_name};
use serde::Deserialize;
use tokio::sync::watch;

use super::super::state::Primary;
use super::Resources;
use super::attempt::{Attempt, Body, State};
use crate::api::{EventKind, Failure, json, value_of};
use crate::http::Answer as HttpAnswer;
use crate::pairing::{Answer, Book, DEFAULT_PORT, Listener, Own, RunningBook};

/// Time for a call, unless the request says otherwise; and its bound.
const WAIT_S: u64 = 120;
const MAX_WAIT_S: u64 = 600;

/// What a request begins.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PairingBegin"))]
#[serde(deny_unknown_fields)]
pub(super) struct Begin {
    /// Address to listen at; else port 4435 of all, for callers from own networks.
    listen: Option<SocketAddr>,
    /// Time for a call; 120 without it.
    #[cfg_attr(test, schemars(range(min = 1, max = MAX_WAIT_S)))]
    wait_s: Option<u64>,
    /// Name of this device that the other one shows; else its host name.
    name: Option<String>,
}

/// A person's answer about the device that has called.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Consent {
    /// Its id: of that which the person has seen.
    device: String,
    /// Whether it is trusted.
    trust: bool,
}

impl Resources {
    pub(super) fn pairing(&self) -> Response<HttpAnswer> {
        let attempt = self.pairing.borrow();
        let body = attempt
            .as_ref()
            .map_or_else(Body::none, |attempt| attempt.body());
        json(StatusCode::OK, &body)
    }

    /// Begins a pairing: opens a port, and makes a code.
    pub(super) async fn begin_pairing(&self, body: &str) -> Result<Response<HttpAnswer>, Failure> {
        let Begin {
            listen,
            wait_s,
            name,
        } = value_of(body)?;
        let wait_s = wait_s.unwrap_or(WAIT_S);
        if !(1..=MAX_WAIT_S).contains(&wait_s) {
            let error = format!("wait_s: from 1 to {MAX_WAIT_S}");
            return Err(Failure::at(None, error));
        }
        let name = name.unwrap_or_else(host_name);
        if !is_name(&name) {
            let error = format!("name: one line of 1 to {MAX_NAME_BYTES} octets");
            return Err(Failure::at(None, error));
        }
        if self.runs() {
            return Err(running());
        }
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT));
        let bound = Listener::bind(&listen.unwrap_or(any).into(), listen.is_none()).await;
        let listener = bound.map_err(|e| Failure::new(StatusCode::CONFLICT, e.to_string()))?;
        // Another one may have begun meanwhile.
        if self.runs() {
            return Err(running());
        }
        let book = RunningBook::new(&self.reloader);
        let own = Own {
            identity: self.primary.identity.clone(),
            introduction: Introduction {
                role: Role::Primary,
                name,
                service: None,
            },
            book: Book::Running(book.clone()),
        };
        let attempt = Rc::new(Attempt {
            invitation: listener.invitation(&own),
            began: Instant::now(),
            within: Duration::from_secs(wait_s),
            state: RefCell::new(State::Waiting),
            cancel: watch::Sender::new(false),
            answer: watch::Sender::new(None),
        });
        self.pairing.replace(Some(Rc::clone(&attempt)));
        let pairing = pair(Rc::clone(&self.primary), listener, own, book, attempt);
        crate::task::spawn_local(pairing);
        Ok(self.pairing())
    }

    /// A person's answer.
    pub(super) fn answer_pairing(&self, body: &str) -> Result<Response<HttpAnswer>, Failure> {
        let Consent { device, trust } = value_of(body)?;
        let attempt = self.pairing.borrow().clone();
        let asks = |attempt: &Rc<Attempt>| match &*attempt.state.borrow() {
            State::Asking(peer) => device.parse() == Ok(peer.id),
            _ => false,
        };
        let Some(attempt) = attempt.filter(asks) else {
            let error = "no device with this id waits for an answer";
            return Err(Failure::new(StatusCode::CONFLICT, error));
        };
        attempt.answer.send_replace(Some(trust));
        Ok(self.pairing())
    }

    /// Cancels a pairing, or forgets the result of the last one.
    pub(super) fn cancel_pairing(&self) -> Response<HttpAnswer> {
        if let Some(attempt) = self.pairing.take() {
            attempt.cancel.send_replace(true);
        }
        self.pairing()
    }

    fn runs(&self) -> bool {
        let attempt = self.pairing.borrow();
        attempt.as_ref().is_some_and(|attempt| !attempt.is_over())
    }
}

fn running() -> Failure {
    Failure::new(StatusCode::CONFLICT, "a pairing runs: cancel it first")
}

/// Waits for the device with the code, and pairs with it.
async fn pair(
    primary: Rc<Primary>,
    listener: Listener,
    own: Own,
    book: RunningBook,
    attempt: Rc<Attempt>,
) {
    let asked = Rc::clone(&attempt);
    let ask = move |peer: &Peer| -> Answer {
        asked.state.replace(State::Asking(peer.clone()));
        let name = Some(peer.introduction.name.clone());
        primary.happened_to(EventKind::PairingRequest, None, name);
        let mut answers = asked.answer.subscribe();
        Box::pin(async move {
            let answer = answers.wait_for(Option::is_some).await;
            answer.is_ok_and(|answer| *answer == Some(true))
        })
    };
    let cancel = attempt.cancel.subscribe();
    let paired = listener.wait(&own, attempt.within, cancel, Box::new(ask), &|_| ());
    let paired = paired.await;
    let state = match paired {
        Ok(paired) => {
            let id = paired.peer.id;
            let section = paired.entry.is_new.then(|| book.section(&id));
            State::Paired(paired.peer, section)
        }
        Err(e) => State::Failed(e.to_string()),
    };
    attempt.state.replace(state);
}

/// Name of this machine.
fn host_name() -> String {
    let name = nix::unistd::gethostname().ok();
    let name = name.and_then(|name| name.into_string().ok());
    name.filter(|name| is_name(name))
        .unwrap_or_else(|| "a device".to_owned())
}
