//! Upgrade without an interruption: a new process takes over from the one that runs.
//!
//! A daemon cannot start programs (its sandbox forbids that), so the service manager or a person
//! starts the new process. It connects to the Unix socket beside the status socket and receives all
//! listeners ([`handover`], [`Listeners`]). Once it is ready, the old process accepts nothing more
//! and serves what is open until that ends; connections that are for the old one are passed on to
//! it unread ([`passing`]).

mod handover;
mod line;
mod listeners;
mod notify;
pub(crate) mod passing;
mod predecessor;

use std::time::Duration;

pub(crate) use handover::Successor;
pub(crate) use listeners::{Listeners, at};
pub(crate) use notify::Notify;
pub(crate) use predecessor::Predecessor;

/// Time for which the old process serves open connections, unless configured otherwise: most
/// downloads and calls end within it.
pub(crate) const DRAIN: Duration = Duration::from_secs(600);
