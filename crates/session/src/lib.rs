//! The multipath session of mpbond as a pure state machine.
//!
//! A *session* connects a *primary* (the user's device) and a *proxy* (a server). It carries
//! *streams*, one for each connection of an application, over *subflows*: each a TLS connection
//! between the two, over a network of the primary's own or through a *helper*, another device that
//! forwards its bytes. In the terms of the MPBond paper (MobiSys '20), a direct subflow runs over
//! the PS-Path, one through a helper over a pipe and an HS-Path.
//!
//! A [`Session`] is one endpoint. It has no socket, no TLS, no clock and no randomness: its inputs
//! are records, calls of the application, measurements of paths, and instants; its outputs are
//! records and [`Event`]s. The daemons drive it with real connections, the simulator with virtual
//! links in virtual time, the fuzzers with arbitrary bytes.
//!
//! # Overview
//!
//! - **Records.** The unit that a session writes on a subflow is a *record*: one or more frames in
//!   one TLS record. The frames are described in [`wire`] and in `docs/protocol.md`.
//! - **Joining.** The primary's first subflow opens the session (MP_CAPABLE, MP_OK). Further ones
//!   join it (MP_JOIN, MP_JOIN_OK); each end proves that it has the session's key.
//! - **Late binding.** Bytes stay in the send buffer of their stream until a subflow has room. The
//!   [`scheduler`] then chooses a subflow, by default by its pipe-aware delay ([`pad`]): the time
//!   until a byte that is handed to it now arrives, including queues at the sender and at a helper.
//!   Few bytes wait in the sender's own socket. Many may wait at a helper, because its pipe and
//!   its link differ in rate.
//! - **Acknowledgements.** An ACK carries, for each subflow, the number of octets of ciphertext
//!   received, the age of this count, and the rate of arrival. A sender keeps a list of the
//!   frames in each record, so that the frames of a lost subflow can be sent again on others.
//! - **Estimates** for the PAD come from the kernel ([`PathInfo`]), from ACKs (counts with their
//!   age, rates of arrival), from helpers' reports ([`FarReport`]), and first from the hello's
//!   round trip.
//! - **Flow control** has a window for the session and one for each stream, in unique bytes: a copy
//!   needs no credit.
//! - **Reinjection** sends on a second subflow bytes that a first one already carries. The state
//!   of the first subflow decides which. Lost or potentially failed: all bytes that it owes.
//!   Silent: those that the receiving application waits for, 2 KiB, then 4, then 8. About to
//!   finish much later than the others: its last bytes.
//! - **Resuming.** A session without subflows, or with expresses only, is kept for `resume_for`
//!   (60 s). When a peer joins again, each end sends the final ACK counts of the last 32 lost
//!   subflows.
//!
//! # A session in memory
//!
//! ```
//! use bytes::Bytes;
//! use mpbond_session::{
//!     Destination, Event, Read, Session, SessionConfig, SessionId, StreamClass, SubflowSetup,
//!     parse_hello,
//! };
//! use mpbond_units::Timestamp;
//!
//! /// Carries all records that `from` has for `to`.
//! fn carry(now: Timestamp, from: &mut Session, to: &mut Session) {
//!     let mut record = Vec::new();
//!     while let Some(sent) = from.poll_transmit(now, &mut record) {
//!         let bytes = Bytes::from(std::mem::take(&mut record));
//!         to.handle_record(now, sent.subflow, bytes, sent.octets_end).unwrap();
//!     }
//! }
//!
//! let now = Timestamp::from_millis(1);
//! let config = SessionConfig::default;
//!
//! // The primary has a connection to the proxy: its hello opens the session.
//! let mut primary = Session::client(config(), [1; 32]);
//! let path = primary.add_subflow(now, SubflowSetup::default());
//! primary.handle_room(path, 100_000);
//! let mut record = Vec::new();
//! let sent = primary.poll_transmit(now, &mut record).unwrap();
//!
//! // The proxy finds the hello in the connection's first record, and answers.
//! let (hello, _) = parse_hello(record.into()).unwrap();
//! let mut proxy = Session::server(config(), SessionId([7; 16]), [2; 32], &hello);
//! let setup = SubflowSetup { rx_octets: sent.octets_end, ..SubflowSetup::default() };
//! let same_path = proxy.accept_subflow(now, setup, &hello).unwrap();
//! assert_eq!(path, same_path);
//! proxy.handle_room(path, 100_000);
//! carry(now, &mut proxy, &mut primary);
//! assert!(primary.is_established());
//!
//! // An application's connection is a stream; its first bytes travel with OPEN.
//! let to = Destination::Name { host: "example.org".to_owned(), port: 80 };
//! let stream = primary.open(now, to, StreamClass::Bulk).unwrap();
//! primary.write(stream, "GET /".into());
//! primary.finish(stream);
//! carry(now, &mut primary, &mut proxy);
//! let mut events = std::iter::from_fn(|| proxy.poll_event());
//! assert!(events.any(|e| matches!(e, Event::StreamOpened { stream: s, .. } if s == stream)));
//! drop(events);
//! assert_eq!(proxy.read(now, stream), Read::Data("GET /".into()));
//! assert_eq!(proxy.read(now, stream), Read::Fin);
//!
//! // The answer takes the same way back.
//! proxy.write(stream, "200 OK".into());
//! proxy.finish(stream);
//! carry(now, &mut proxy, &mut primary);
//! assert_eq!(primary.read(now, stream), Read::Data("200 OK".into()));
//! assert_eq!(primary.read(now, stream), Read::Fin);
//!
//! // Acknowledgements are due within 25 ms; then both ends forget the stream.
//! let later = primary.poll_timeout().unwrap();
//! primary.handle_timeout(later);
//! carry(later, &mut primary, &mut proxy);
//! proxy.handle_timeout(later);
//! carry(later, &mut proxy, &mut primary);
//! assert_eq!(proxy.stats().streams_open, 0);
//! ```
//!
//! The order of calls is described at [`Session`].
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)] // pure: no clock

mod arrival_rate;
mod class;
mod code;
mod config;
mod copies;
pub mod driving;
mod estimator;
mod handshake;
mod ids;
mod known_paths;
mod least_burst;
mod mechanism;
pub mod pad;
mod path_bytes;
mod path_set;
mod range_set;
pub mod scheduler;
mod session;
mod signal;
mod stats;
mod stream;
mod subflow;
mod treatment;
mod unix_queue;
pub mod wire;

pub use class::StreamClass;
pub use code::{CloseCode, ResetCode};
pub use config::{
    BufferDelay, FeedbackRule, RebalanceTrigger, Recall, ReinjectionConfig, ReinjectionRule,
    SessionConfig, StreamOrder,
};
pub use copies::Copies;
pub use estimator::{FarReport, PathInfo};
pub use handshake::{EXPORTER, Hello, HelloError, SessionKey, parse_hello};
pub use ids::{DeviceLabel, HelperId, SessionId, StreamId, SubflowId};
pub use known_paths::KnownPaths;
pub use least_burst::LeastBurst;
pub use mechanism::{Mechanism, Mechanisms};
pub use path_bytes::PathBytes;
pub use path_set::{PathNumber, PathSet};
pub use scheduler::SchedulerKind;
pub use session::{
    Event, IDLE_LONG, OpenError, Read, Session, SubflowError, Transmit, TreatmentError,
    close_record,
};
pub use stats::{SessionStats, StreamShare, StreamStats, SubflowState, SubflowStats};
pub use subflow::{OthersFirst, SubflowSetup};
pub use treatment::Treatment;
pub use unix_queue::UnixQueue;
pub use wire::{Capabilities, Destination, Families, Limits, PathLabel, Role};
