//! The language of policies: what is refused and how, which rule applies, which links a flow uses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // of tests

mod decisions;
mod device;
mod documents;
mod errors;
mod explanations;
mod links;
mod properties;
