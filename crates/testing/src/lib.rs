//! Helpers of tests.
//!
//! - [`Need`], [`has_nft`], [`has_script`], [`has_tbf`], [`sshd`], [`sample`], [`recording`]:
//!   requirements that not every machine meets.
//! - [`browser`]: Chromium, and pages driven in it.
//! - [`namespaces`]: roles of a test in namespaces of their own.
//! - [`names`]: name servers.
//! - [`Program`]: a program under test, and `mpbond` beside it.
//! - [`command_line`]: snapshots of help texts, manual pages and completions.
//! - [`is_within`]: figures that hold on a machine with time left.
//! - [`free_address`]: addresses on loopback for daemons that a test starts.
//! - [`write_script`]: scripts that a test runs.
//!
//! A test whose need is not met ends early, with success. The environment variable
//! `MPBOND_TEST_REQUIRE` names the needs that must be met, separated by commas
//! (`MPBOND_TEST_REQUIRE=samples,namespaces,nft`): there the same test fails.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic)] // of tests

mod beside;
pub mod browser;
pub mod command_line;
mod figures;
pub mod names;
pub mod namespaces;
mod need;
mod ports;
mod program;
mod samples;
mod scripts;

pub use figures::{is_within, median};
pub use need::{Need, has_nft, has_script, has_tbf, sshd};
pub use ports::free_address;
pub use program::{Outcome, Program};
pub use samples::{recording, sample};
pub use scripts::write_script;
