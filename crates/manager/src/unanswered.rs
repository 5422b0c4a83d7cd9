//! New streams that the proxy has not received when an outage begins: they are connected directly.

use mpbond_session::StreamId;
use mpbond_units::Timestamp;

use crate::action::Action;
use crate::context::Context;
use crate::outage::{LOOK_EVERY, WAIT_FOR_PATH};

/// New streams of which the proxy may not have heard.
#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    waiting: Vec<(StreamId, Timestamp)>,
    /// Streams that the driver was asked about.
    checked: Vec<StreamId>,
}

impl Unanswered {
    pub(crate) fn watch(&mut self, now: Timestamp, stream: StreamId) {
        self.waiting.push((stream, now + WAIT_FOR_PATH));
    }

    pub(crate) fn advance(&mut self, cx: &mut Context) {
        let now = cx.now;
        for (stream, _) in self.waiting.extract_if(.., |(_, at)| *at <= now) {
            self.checked.push(stream);
            cx.act(Action::CheckStream { stream });
        }
    }

    /// The driver's answer. A stream of which the proxy has heard is safe; one of which it has
    /// not stays with the session until no path has worked for [`WAIT_FOR_PATH`]: the connection
    /// that replaces a silent one has failed to answer as well by then.
    pub(crate) fn checked(
        &mut self,
        cx: &mut Context,
        stream: StreamId,
        heard: bool,
        no_path: bool,
    ) {
        if self.checked.extract_if(.., |s| *s == stream).count() == 0 || heard {
            return;
        }
        if no_path {
            cx.act(Action::GoDirect { stream });
        } else {
            self.waiting.push((stream, cx.now + LOOK_EVERY));
        }
    }

    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.waiting.iter().map(|(_, at)| *at).min()
    }

    /// The streams are gone with their session.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
