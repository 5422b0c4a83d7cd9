//! The multipath session as a pure state machine.
//!
//! A [`Session`] knows everything about frames, streams, subflows, flow control, scheduling and
//! reinjection, and nothing about sockets, TLS or clocks: records and instants go in, records and
//! [`Event`]s come out. Daemons drive it with real connections, the simulator with virtual links
//! in virtual time, fuzzers with garbage; all run this code.
//!
//! The order to call things in is told at [`Session`]. The wire format is in `docs/protocol.md`.
#![forbid(unsafe_code)]

mod class;
mod code;
mod config;
mod estimator;
mod handshake;
mod ids;
mod pace;
pub mod pad;
mod range_set;
pub mod scheduler;
mod session;
mod stats;
mod stream;
mod subflow;
pub mod wire;

pub use class::StreamClass;
pub use code::{CloseCode, ResetCode};
pub use config::{BufferDelay, FeedbackRule, ReinjectionConfig, SessionConfig};
pub use estimator::{FarReport, PathInfo};
pub use handshake::{Hello, HelloError, SessionKey, parse_hello};
pub use ids::{HelperId, SessionId, StreamId, SubflowId};
pub use scheduler::SchedulerKind;
pub use session::{Event, OpenError, Read, Session, SubflowError, Transmit, close_record};
pub use stats::{SessionStats, StreamShare, StreamStats, SubflowState, SubflowStats};
pub use subflow::SubflowSetup;
pub use wire::{Destination, Limits, PathLabel};
