//! Hosts in namespaces, a real-time link player, and experiments as data.
#![deny(unsafe_code)]

mod error;
pub mod experiment;
mod host;
pub mod isolate;
mod links;
mod plan;
pub mod player;
mod sys;
mod wiring;

pub use error::{Error, Result};
pub use host::Host;
pub use links::played_links;
pub use wiring::{LinkEnds, Network};
