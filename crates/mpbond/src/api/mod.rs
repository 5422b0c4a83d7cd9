//! API of a daemon: HTTP/1.1 with JSON over a Unix socket of its own (docs/api.md).
//!
//! This module has what does not depend on the role: the socket, rights, refusals, the recent
//! events. [`crate::primary`] has the resources.

mod events;
mod failure;
mod request;
mod socket;

#[cfg(test)]
pub(crate) use events::Line;
pub(crate) use events::{Event, EventKind, Events, OtherRule, lines};
#[cfg(test)]
pub(crate) use failure::Body as ErrorBody;
pub(crate) use failure::{Failure, json};
pub(crate) use request::{Query, accepts, decoded, number_of, percent_decoded, text_of, value_of};
pub use socket::path_beside;
pub(crate) use socket::{listen, serve};
