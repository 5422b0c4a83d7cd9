//! A pipe's control connection to its helper, and the relay of that connection.

use std::net::IpAddr;

use mpbond_session::SubflowId;
use mpbond_units::Timestamp;

use crate::backoff::Backoff;
use crate::context::Context;
use crate::express::Express;
use crate::ids::{DialId, RequestId};

/// A control connection.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) since: Timestamp,
    pub(crate) local: Option<IpAddr>,
    pub(crate) relay: Relay,
    pub(crate) backoff: Backoff,
}

/// The relay of a control connection.
#[derive(Debug)]
pub(crate) enum Relay {
    /// To be asked for as soon as the session and the link allow.
    Idle,
    Waiting(Timestamp),
    Asked {
        request: RequestId,
        deadline: Timestamp,
    },
    Joining {
        request: RequestId,
        dial: DialId,
    },
    Up {
        request: RequestId,
        subflow: SubflowId,
        since: Timestamp,
        /// Highest report number seen.
        report: u64,
        express: Express,
    },
}

/// State of a relay that has fallen silent, except for its express.
#[derive(Debug)]
pub(crate) struct FormerRelay {
    pub(crate) request: RequestId,
    pub(crate) subflow: SubflowId,
    pub(crate) since: Timestamp,
    pub(crate) report: u64,
}

impl Control {
    /// The helper has not answered a request in time.
    pub(crate) fn is_unanswered(&self, now: Timestamp) -> bool {
        matches!(self.relay, Relay::Asked { deadline, .. } if deadline <= now)
    }

    pub(crate) fn advance(&mut self, cx: &mut Context) {
        match &mut self.relay {
            Relay::Waiting(end) if *end <= cx.now => self.relay = Relay::Idle,
            Relay::Up { express, .. } => express.advance(cx),
            _ => {}
        }
    }
}
