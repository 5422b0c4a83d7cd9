//! Tests of the wire format.

mod bounds;
mod document;
pub(crate) mod later;
mod round_trip;
mod strategies;
mod vectors;
