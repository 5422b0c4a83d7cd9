//! Running an experiment in real time.

mod lab;
mod options;
mod output;
mod selection;
mod start;

pub use crate::schedule::repetitions::Part;
pub use options::RunOptions;
pub(crate) use output::hand_out;
pub(crate) use selection::{Chosen, chosen};
pub use start::run;
