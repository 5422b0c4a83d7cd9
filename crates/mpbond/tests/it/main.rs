//! The program and its daemons. One test program for all, since each links everything; only what
//! fails and recovers in real time is apart (`tests/failure`).
#![allow(clippy::unwrap_used, clippy::panic)] // of tests

mod command_line;
mod damage;
mod dials;
mod discover;
mod doctor;
mod hints;
mod install;
mod interception;
mod limits;
mod links;
mod loopback;
mod machine;
mod memory;
mod mistakes;
mod pair;
mod person;
mod quickstart;
mod sandbox;
mod service;
mod setup;
mod setup_questions;
mod setup_service;
mod status;
mod terminal;
mod untrust;
