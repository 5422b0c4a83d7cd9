//! A primary's path manager as a pure state machine.
//!
//! A [`Manager`] decides, among other things,
//!
//! - when a session is opened;
//! - when a primary dials each of its own paths, and each helper, and when it abandons an attempt;
//! - when it requests a relay from a helper, or a second one (*express*) for urgent bytes;
//! - when a connection is dropped because it cannot work any more: its local address is gone, or
//!   the host has slept for 10 s or more;
//! - when new connections bypass the proxy or are refused because no path to it works
//!   ([`Manager::admission`]), and when a stream of which the proxy has received nothing is
//!   connected directly instead.
//!
//! It has no socket, no TLS and no clock. Its inputs are the results of dials, messages of helpers,
//! the session's events and the state of its subflows, the host's addresses and sleep, and
//! instants; its outputs are [`Action`]s. The daemon drives it with real connections, the simulator
//! with virtual links in virtual time.
//!
//! ```
//! use mpbond_manager::{Action, Admission, Config, Link, LinkId, Manager, Target};
//! use mpbond_session::SubflowId;
//! use mpbond_units::Timestamp;
//!
//! let at = Timestamp::from_millis;
//! let mut manager = Manager::new(Config::new(vec![Link::path("wlan0")]), at(0));
//! assert_eq!(manager.poll_action(), Some(Action::OpenSession));
//! manager.handle_session_opened(at(0));
//! let Some(Action::Dial { dial, target }) = manager.poll_action() else {
//!     panic!("nothing is dialled");
//! };
//! assert_eq!(target, Target::Proxy { link: LinkId(0) });
//! assert!(matches!(manager.admission(at(10)), Admission::Wait(_)));
//!
//! // The connection is up, the session has it, and the proxy answers.
//! manager.handle_dialled(at(60), dial, SubflowId(1), None);
//! manager.handle_established(at(90));
//! manager.handle_subflow_up(at(90), SubflowId(1));
//! assert_eq!(manager.admission(at(90)), Admission::Session);
//!
//! // The connection is lost, 8 s after its last octet. It is dialled again after 100 ms.
//! let quiet = std::time::Duration::from_secs(8);
//! manager.handle_subflow_closed(at(9_000), SubflowId(1), quiet);
//! assert_eq!(manager.poll_action(), None);
//! assert_eq!(manager.poll_timeout(), Some(at(9_100)));
//! manager.handle_timeout(at(9_100));
//! assert!(matches!(manager.poll_action(), Some(Action::Dial { .. })));
//! ```
//!
//! # Modules
//!
//! | module | decisions about |
//! | --- | --- |
//! | `own_path` | when to join and rejoin the primary's own paths |
//! | `pipe` | pipes: control connections to helpers, and relays |
//! | `pipes` | which one of several pipes to a helper is used |
//! | `replacement` | connections that replace silent ones |
//! | `kalman` | smoothed strength of a signal ([`Kalman`], ADR 0023) |
//! | `signal` | whether the signal of a link is weak by a policy ([`WeakSignal`], one for each) |
//! | `segments` | segment size on own paths and pipes that drop large packets (MTU black holes) |
//! | `nat_timeout` | idle timeouts of NATs, and the keep-alive intervals derived from them |
//! | `resets` | what a reset after an idle time shows about the NATs on the path of a link |
//! | `rest` | resting pipes: a relay lost in an idle session is opened again when bytes move |
//! | `express` | the express beside the relay of a pipe |
//! | `addresses` | the order of the proxy's addresses |
//! | `backoff` | pauses between attempts |
//! | `link_ledger` | whose bytes go first on a link that several users share ([`LinkLedger`]) |
//! | `network` | whether an address is still the host's; sleeps that end connections |
//! | `sessions` | opening of a session: at the start, after a loss, and after GO_AWAY |
//! | `rejoin` | when a session without new streams is joined again ([`Rejoin`], one for each) |
//! | `outage` | new connections while no path to the proxy works |
//! | `unanswered` | in an outage, streams that the proxy has not received: they go direct |
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)] // pure: no clock

mod action;
mod addresses;
mod backoff;
mod config;
mod context;
mod express;
mod ids;
mod kalman;
mod link;
mod link_ledger;
mod link_state;
mod manager;
mod nat_timeout;
mod network;
mod outage;
mod own_path;
mod pipe;
mod pipe_control;
mod pipe_report;
mod pipes;
mod rejoin;
mod replacement;
mod resets;
mod rest;
mod segments;
mod sessions;
mod signal;
mod subflows;
mod unanswered;

use std::time::Duration;

pub use action::{Action, Notice, Purpose, Target};
pub use addresses::{Addresses, MAX_ADDRESSES};
pub use config::{Config, Link, WithoutProxy};
pub use express::{AGAIN_AFTER, STALE_AFTER, WORTH_OPENING};
pub use ids::{DialId, LinkId, RequestId};
pub use kalman::{Kalman, SIGNAL_CHANGE, SIGNAL_NOISE};
pub use link_ledger::{LinkLedger, LinkOf};
pub use link_state::LinkState;
pub use manager::{Manager, NOT_CONFIGURED};
pub use nat_timeout::LEAST_KEEP_ALIVE;
pub use network::{LONG_SLEEP, is_own};
pub use outage::{Admission, LOOK_EVERY, WAIT_FOR_PATH};
pub use pipe::ORPHAN_IDLE;
pub use pipe_report::{Held, REPORT_EVERY, Report};
pub use pipes::{PIPES_EVERY, PipeChoice, PipeFacts, PipeUse, SNIFF_PAUSE, Signal, Why};
pub use rejoin::{REJOIN_EVERY, Rejoin, RejoinAction};
pub use segments::{ENOUGH_BYTES, SEGMENT_BYTES};
pub use sessions::REOPEN_AFTER;
pub use signal::{SIGNAL_EVERY, WeakSignal};
pub use subflows::SubflowFacts;

/// Limit of TCP's handshake for a connection attempt.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Limit of the handshake of TLS, after that of TCP.
pub const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
