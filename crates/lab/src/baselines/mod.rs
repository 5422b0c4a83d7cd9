//! Transports that mpbond is compared with.

pub(crate) mod combine;
pub(crate) mod external;
pub(crate) mod kibbutz;
pub(crate) mod tether;
