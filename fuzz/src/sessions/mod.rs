//! Whole sessions: two ends against each other, and one end against a hostile peer.

pub mod hostile;
pub mod pair;
mod wire;
