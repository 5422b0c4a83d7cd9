//! Results of a path manager: actions for its driver, notices for people.

use std::time::Duration;

use mpbond_session::{StreamId, SubflowId};

use crate::ids::{DialId, LinkId, RequestId};
use crate::pipes::Why;

/// An action to be carried out by the driver, in the order of
/// [`Manager::poll_action`](crate::Manager::poll_action).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create a session, then call
    /// [`handle_session_opened`](crate::Manager::handle_session_opened).
    OpenSession,
    /// Connect. Answer with [`handle_dialled`](crate::Manager::handle_dialled) (or
    /// [`handle_control_up`](crate::Manager::handle_control_up) for [`Target::Control`]) or with
    /// [`handle_dial_failed`](crate::Manager::handle_dial_failed). TCP's handshake is limited to
    /// [`CONNECT_WITHIN`](crate::CONNECT_WITHIN), the handshake of TLS (for a control connection
    /// the greeting, too) to [`HANDSHAKE_WITHIN`](crate::HANDSHAKE_WITHIN) after it.
    Dial {
        /// Number of the attempt, for the answer.
        dial: DialId,
        /// The endpoint, and the way to it.
        target: Target,
    },
    /// Abort an attempt; its result is of no use any more.
    Abandon {
        /// Number of the attempt.
        dial: DialId,
    },
    /// Ask a helper for a relay over the pipe's control connection. Answer with
    /// [`handle_ticket`](crate::Manager::handle_ticket) or
    /// [`handle_refusal`](crate::Manager::handle_refusal); a missing answer is timed by the
    /// manager.
    AskRelay {
        /// The pipe.
        link: LinkId,
        /// Number of the request, for the answer and for reports.
        request: RequestId,
        /// Use of the relay.
        purpose: Purpose,
    },
    /// Close a pipe's control connection.
    HangUp {
        /// The pipe.
        link: LinkId,
    },
    /// Close a subflow's connection, though both ends may take it for intact.
    Drop {
        /// The subflow.
        subflow: SubflowId,
        /// Reason, for people.
        reason: &'static str,
    },
    /// Other links stand by than before: [`Manager::is_standby`](crate::Manager::is_standby) tells
    /// which. Make their subflows backups, and those of the others regular.
    Roles,
    /// Have the session ask whether a subflow works.
    Ask {
        /// The subflow.
        subflow: SubflowId,
    },
    /// Answer with [`handle_stream`](crate::Manager::handle_stream) whether the proxy has
    /// acknowledged or answered anything of a stream.
    CheckStream {
        /// The stream.
        stream: StreamId,
    },
    /// Take the application's connection back from the session and connect it direct, if the
    /// bytes written so far may be sent twice.
    GoDirect {
        /// The stream.
        stream: StreamId,
    },
    /// Log an event.
    Tell(Notice),
}

/// Endpoint of a connection attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The proxy, over an own path.
    Proxy {
        /// The own path.
        link: LinkId,
    },
    /// The helper at the far end of a pipe: a control connection.
    Control {
        /// The pipe.
        link: LinkId,
    },
    /// The proxy, through the relay for which this request's ticket is good.
    Relay {
        /// The pipe.
        link: LinkId,
        /// The request that was answered with a ticket.
        request: RequestId,
        /// The connection will be idle most of the time and must not send keep-alives.
        express: bool,
    },
}

impl Target {
    /// The own path or pipe.
    pub fn link(&self) -> LinkId {
        match self {
            Self::Proxy { link } | Self::Control { link } | Self::Relay { link, .. } => *link,
        }
    }
}

/// Use of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// First subflow of a session (INIT_MP).
    Open,
    /// Further subflow (INIT_MP_JOIN).
    Join,
    /// Express beside the pipe's regular subflow (INIT_MP_JOIN, ADR 0011).
    Express,
}

/// An event for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// An own path could not be joined.
    PathNotJoined {
        /// The own path.
        link: LinkId,
        /// Reason.
        reason: String,
    },
    /// A link is joined with segments of at most so many octets: larger packets do not seem to
    /// pass.
    SmallerSegments {
        /// The own path or pipe.
        link: LinkId,
        /// The octets.
        bytes: u32,
    },
    /// A helper is lost, or could not be reached.
    HelperLost {
        /// The pipe.
        link: LinkId,
        /// Reason.
        reason: String,
    },
    /// A helper opens no relay, or the proxy was not reached through it.
    NoRelay {
        /// The pipe.
        link: LinkId,
        /// Reason.
        reason: String,
    },
    /// A control connection is lost while its relay goes on working.
    ControlLost {
        /// The pipe.
        link: LinkId,
        /// Reason.
        reason: String,
    },
    /// No express could be opened.
    NoExpress {
        /// The pipe.
        link: LinkId,
        /// Reason.
        reason: String,
    },
    /// Of several pipes to a helper, another one is used.
    PipeChosen {
        /// The pipe that is used from now on.
        link: LinkId,
        /// Reason.
        why: Why,
    },
    /// Of several pipes to a helper, this one is used beside the one that seems too slow.
    PipeTried {
        /// The pipe.
        link: LinkId,
    },
    /// No path to the proxy has worked for [`WAIT_FOR_PATH`](crate::WAIT_FOR_PATH): new
    /// connections go direct or are refused from now on.
    ProxyLost,
    /// A path to the proxy works again: new connections go over it.
    ProxyReached,
    /// The host has slept for so long that its connections are replaced.
    Slept(Duration),
    /// The proxy does not trust this device. Told once, until a session is established.
    NotTrusted,
}
