//! Statistics over transfers, and their tables.

pub(crate) mod bins;
pub(crate) mod gain;
pub(crate) mod grid;
pub(crate) mod json;
pub(crate) mod oracle;
pub(crate) mod paired;
pub(crate) mod paper;
pub(crate) mod pooled;
pub(crate) mod print;
pub(crate) mod quantity;
pub(crate) mod statistics;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod waiting;
