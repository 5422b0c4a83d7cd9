//! Price of helpers at a primary (ADR 0035): rates of links, joules of their radios, and the sizes
//! of bursts from which on a helper is worth its joules. Without a clock.

mod meter;
mod rate;

pub(crate) use meter::{HelperLink, LIMIT_HOLDS, Meter, Moved, OwnLink, UNPRICED, differ};
