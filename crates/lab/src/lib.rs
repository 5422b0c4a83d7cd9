//! Hosts in namespaces, a real-time link player, and experiments as data.
#![deny(unsafe_code)]

mod error;
pub mod experiment;
mod host;
pub mod isolate;
mod plan;
mod sys;
mod wiring;

pub use error::{Error, Result};
pub use host::Host;
