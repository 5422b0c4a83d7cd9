//! An express beside a helper's relay: another one through the same helper, for what applications
//! wait for while the first one's bytes stand in its way (ADR 0011).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use mpbond_net::control::{Message, RelayReport, RequestId, Ticket};
use mpbond_net::tls::TlsStream;
use mpbond_session::{SubflowId, SubflowSetup};
use mpbond_units::BitRate;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::debug;

use super::link::{HANDSHAKE_WITHIN, STEADY};
use crate::driver::Driver;

/// A helper that holds what it passes on in this time is worth an express: it would put off by so
/// much what an application waits for. The radios are awake then, and opening one wakes none.
const WORTH_IT: Duration = Duration::from_millis(250);

/// One that has been idle for so long is replaced when it may next be wanted: a NAT may have
/// forgotten it, and nothing is sent to keep it in mind.
const STALE: Duration = Duration::from_secs(60);

/// How long after one was not to be had it is asked for again.
const AGAIN: Duration = Duration::from_secs(10);

/// Makes a connection to the proxy with a ticket.
type Joining<'a> = Pin<Box<dyn Future<Output = anyhow::Result<TlsStream>> + 'a>>;

/// The express beside one relay, if there is one.
pub(super) struct Express<'a> {
    state: State<'a>,
    not_before: Option<Instant>,
}

enum State<'a> {
    Closed,
    /// The helper was asked, and has until then to answer.
    Asked(RequestId, Pin<Box<Sleep>>),
    Joining(RequestId, Joining<'a>),
    Up(Up),
    /// The proxy has thrown one out at once: it knows none, or has no room for them.
    Unwelcome,
}

struct Up {
    request: RequestId,
    subflow: SubflowId,
    gone: oneshot::Receiver<()>,
    since: Instant,
    /// Highest report number seen.
    report: u64,
}

/// Something to be done about an express.
pub(super) enum Change {
    /// A connection to the proxy is up.
    Joined(Box<TlsStream>),
    /// It is over, or was not to be had.
    Over,
}

impl<'a> Express<'a> {
    pub(super) fn none() -> Self {
        Self {
            state: State::Closed,
            not_before: None,
        }
    }

    /// Whether a helper that reports this should be asked for one. Drops one that is stale.
    pub(super) fn is_wanted(&mut self, driver: &Driver, report: &RelayReport) -> bool {
        let holds = |bytes, rate: Option<BitRate>| {
            rate.filter(|r| *r > BitRate::ZERO)
                .map_or(Duration::ZERO, |rate| rate.time_for(bytes))
        };
        let down = holds(report.level_down_bytes, report.th_p);
        let up = holds(report.level_up_bytes, report.th_hs);
        if down.max(up) < WORTH_IT || self.not_before.is_some_and(|t| t > Instant::now()) {
            return false;
        }
        if let State::Up(up) = &self.state {
            let unused = up.since.elapsed();
            let idle = driver.subflow_idle(up.subflow).unwrap_or(unused);
            if idle.min(unused) > STALE {
                self.close(driver);
            }
        }
        matches!(self.state, State::Closed)
    }

    /// The helper has been asked for one.
    pub(super) fn asked(&mut self, request: RequestId) {
        let deadline = Instant::now() + HANDSHAKE_WITHIN;
        self.state = State::Asked(request, Box::pin(sleep_until(deadline)));
    }

    /// The ticket, if this message brings it.
    pub(super) fn ticket(&self, message: &Message) -> Option<Ticket> {
        match (message, &self.state) {
            (Message::Relay { request, ticket }, State::Asked(asked, _)) if request == asked => {
                Some(ticket.clone())
            }
            _ => None,
        }
    }

    /// A connection is being made with the ticket.
    pub(super) fn joining(&mut self, joining: Joining<'a>) {
        if let State::Asked(request, _) = self.state {
            self.state = State::Joining(request, joining);
        }
    }

    /// Takes what concerns it from a message of the helper.
    pub(super) fn hear(&mut self, driver: &Driver, message: &Message) {
        match (message, &mut self.state) {
            (
                Message::Refused {
                    request, reason, ..
                },
                State::Asked(own, _) | State::Joining(own, _),
            ) if request == own => {
                debug!(reason, "the helper refuses an express");
                self.put_off();
            }
            (Message::Report(report), State::Up(up))
                if report.relay == up.request && report.number > up.report =>
            {
                up.report = report.number;
                super::pipe::take_report(driver, up.subflow, report);
            }
            _ => {}
        }
    }

    /// Waits for the next change.
    pub(super) async fn changed(&mut self) -> Change {
        poll_fn(|cx| self.poll_changed(cx)).await
    }

    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<Change> {
        match &mut self.state {
            State::Closed | State::Unwelcome => Poll::Pending,
            State::Asked(_, deadline) => deadline.as_mut().poll(cx).map(|()| Change::Over),
            State::Joining(_, joining) => joining.as_mut().poll(cx).map(|tls| match tls {
                Ok(tls) => Change::Joined(Box::new(tls)),
                Err(e) => {
                    debug!(error = format!("{e:#}"), "no express");
                    Change::Over
                }
            }),
            // Fails when the subflow is dropped: that is the message.
            State::Up(up) => Pin::new(&mut up.gone).poll(cx).map(|_| Change::Over),
        }
    }

    /// Does what a change asks for. `setup` is that of the relay's own subflow.
    pub(super) fn take(&mut self, driver: &Driver, change: Change, setup: SubflowSetup) {
        match (change, &self.state) {
            (Change::Joined(tls), State::Joining(request, _)) => {
                let request = *request;
                let (subflow, gone) = driver.add_subflow(
                    *tls,
                    SubflowSetup {
                        express: true,
                        ..setup
                    },
                );
                self.state = State::Up(Up {
                    request,
                    subflow,
                    gone,
                    since: Instant::now(),
                    report: 0,
                });
            }
            (Change::Over, State::Up(up)) if up.since.elapsed() < STEADY => {
                self.state = State::Unwelcome;
            }
            _ => self.put_off(),
        }
    }

    fn put_off(&mut self) {
        self.state = State::Closed;
        self.not_before = Some(Instant::now() + AGAIN);
    }

    /// The relay beside which it was opened is over.
    pub(super) fn close(&mut self, driver: &Driver) {
        if let State::Up(up) = &self.state {
            driver.drop_subflow(up.subflow);
        }
        self.state = State::Closed;
    }
}
