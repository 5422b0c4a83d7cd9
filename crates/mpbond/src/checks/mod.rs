//! Checks of a primary's links and resolvers for `mpbond doctor`, with connections and sessions of
//! their own, as a speed test has (ADR 0018).

pub mod names;
pub mod packets;
