//! The program `mpbond-console`, with daemons that say what the test wants, with a browser, and
//! with the real daemons.
#![allow(clippy::unwrap_used, clippy::panic)] // of tests

mod bundle;
mod console;
mod cost;
mod daemon;
mod many;
mod page;
mod pictures;
mod program;
mod real;
mod security;
