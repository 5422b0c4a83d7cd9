//! A primary's path manager as a pure state machine.
//!
//! A [`Manager`] decides when a primary dials which path, asks a helper for a relay, opens an
//! express beside one, drops a connection that is certainly dead, and sends new connections past a
//! proxy that cannot be reached. It knows nothing about sockets, TLS or clocks: facts and instants
//! go in, [`Action`]s come out. The daemon drives it with real connections, the simulator with
//! virtual links in virtual time.
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
//! // It breaks, and is made anew 100 ms later.
//! manager.handle_subflow_closed(at(9_000), SubflowId(1));
//! assert_eq!(manager.poll_action(), None);
//! assert_eq!(manager.poll_timeout(), Some(at(9_100)));
//! manager.handle_timeout(at(9_100));
//! assert!(matches!(manager.poll_action(), Some(Action::Dial { .. })));
//! ```
//!
//! Each file holds one part of the decisions: own paths (`own_path`), pipes to helpers (`pipe`),
//! the express beside a pipe's relay (`express`), pauses between attempts (`backoff`), own
//! addresses and sleep (`network`), sessions that follow each other (`sessions`), times without a
//! proxy (`outage`), connections that were opened just before (`rescue`).
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)] // pure: no clock

mod action;
mod backoff;
mod config;
mod context;
mod express;
mod ids;
mod link;
mod link_state;
mod manager;
mod network;
mod outage;
mod own_path;
mod pipe;
mod pipe_report;
mod rescue;
mod sessions;
mod subflows;

use std::time::Duration;

pub use action::{Action, Notice, Purpose, Target};
pub use config::{Config, Link, WithoutProxy};
pub use express::{AGAIN_AFTER, STALE_AFTER, WORTH_OPENING};
pub use ids::{DialId, LinkId, RequestId};
pub use link_state::LinkState;
pub use manager::Manager;
pub use network::{LONG_SLEEP, is_own};
pub use outage::{Admission, LOOK_EVERY, WAIT_FOR_PATH};
pub use pipe::ORPHAN_IDLE;
pub use pipe_report::{Held, REPORT_EVERY, Report};
pub use sessions::REOPEN_AFTER;
pub use subflows::SubflowFacts;

/// Limit of TCP's handshake for a connection attempt.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Limit of the handshake of TLS, after that of TCP.
pub const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
