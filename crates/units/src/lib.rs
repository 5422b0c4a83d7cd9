//! Units shared by all crates of mpbond.
//!
//! A quantity that crosses a crate border carries its unit in its type: [`Timestamp`] for instants,
//! [`std::time::Duration`] for spans, [`BitRate`] for throughput. Byte counts are plain `u64` with
//! `bytes` in the name. [`duration_text`] and [`Size`] read spans and byte counts from text, in the
//! same form everywhere. [`wireless`] reads the strength of radio signals from the kernel's text.
//! [`QueueBound`] and [`MessageWatch`] are rules that helpers and the simulator share.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)] // pure: no clock

pub mod duration_text;
pub mod human;
mod message_watch;
mod printable;
mod queue_bound;
mod rate;
mod shell_word;
mod size;
mod sojourn;
mod time;
pub mod wireless;

pub use message_watch::MessageWatch;
pub use printable::{is_printable, printable};
pub use queue_bound::{QueueBound, SenderState, most_unsent_bytes};
pub use rate::{BitRate, ParseBitRateError};
pub use shell_word::shell_word;
pub use size::{ParseSizeError, Size};
pub use sojourn::Sojourn;
pub use time::Timestamp;
