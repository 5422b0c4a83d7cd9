//! The hosts of an experiment: network namespaces, their devices, addresses and routes, and
//! captures at devices.

#[cfg(feature = "measurements")]
pub(crate) mod cable;
pub(crate) mod device;
pub(crate) mod foreground;
pub(crate) mod host;
pub(crate) mod links;
pub(crate) mod plan;
pub(crate) mod tap;
pub(crate) mod wiring;
