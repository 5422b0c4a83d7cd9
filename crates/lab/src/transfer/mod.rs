//! One transfer: its client and origin, what both carry, and what is computed of it: its lower
//! bound, energy, and bytes over time.

pub(crate) mod app;
pub(crate) mod client;
pub(crate) mod conditions;
pub(crate) mod content;
pub(crate) mod energy;
pub(crate) mod fetcher;
pub(crate) mod ideal;
pub(crate) mod link_progress;
pub(crate) mod metered;
pub(crate) mod origin;
pub(crate) mod stamp;
pub(crate) mod watch;
