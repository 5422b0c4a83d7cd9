//! Accuracy of the link player on this machine: rate, delay and lateness.
//!
//! For each number of links and each speed, emulated links connect two hosts. Their queues are kept
//! full at the same time, in one direction or both, and the receiving hosts count packets.
//! Meanwhile probes cross one more link, to measure how the work for the others affects a delay.
//! Both ends read the same clock.

mod load;
mod measure;
mod probes;
mod report;
mod way;

pub use measure::{LINK_COUNTS, SPEEDS_MBPS, player_accuracy};
pub use report::{AccuracyReport, AccuracyRow};
