//! Experiments in virtual time: the file of an experiment in real time, with the session of the
//! daemons over models of TCP and of the links. Parts that need the kernel or a real program are
//! left out, and listed.
//!
//! Each repetition has a seed; a seed always gives the same transfers.

mod account;
mod options;
mod price;
mod progress;
mod seeds;
mod topology;
mod users;
mod workers;

pub use options::SimulateOptions;
#[cfg(feature = "measurements")]
pub(crate) use progress::Progress;
pub use seeds::simulate;
pub(crate) use topology::CLOSING;
#[cfg(feature = "measurements")]
pub(crate) use topology::two_way;
#[cfg(feature = "measurements")]
pub(crate) use workers::on_all_processors;

#[cfg(test)]
mod tests;
