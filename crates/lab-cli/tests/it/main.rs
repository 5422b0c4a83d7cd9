//! Tests of the program `mpbond-lab`. One test program for all, since each links everything.
#![allow(clippy::unwrap_used, clippy::panic)] // of tests

mod caps;
mod capture;
mod capture_delay;
mod command_line;
mod endurance;
mod energy;
mod lab;
mod link;
mod measurements;
mod plain;
mod programs;
mod trace;
mod traffic;
