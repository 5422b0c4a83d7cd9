//! Promises of the path manager, to the millisecond in virtual time.
#![allow(clippy::unwrap_used, clippy::panic)] // of tests

mod bench;
mod configuration;
mod network;
mod outage;
mod path;
mod pipe;
mod pipes;
mod rejoin;
mod replacement;
mod segments;
