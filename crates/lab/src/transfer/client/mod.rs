//! Clients of the origin: curl, and the lab's own.

pub(crate) mod curl;
mod deadline;
mod dial;
mod fetch;
mod http;
mod outcome;
mod subflow;
mod way;

pub(crate) use dial::Dial;
pub(crate) use fetch::{Client, WARM_UP_BYTES, path_of};
pub(crate) use http::Connection;
pub(crate) use outcome::{Outcome, Progress};
pub(crate) use subflow::{Used, check_mptcp, used};
pub(crate) use way::Way;
