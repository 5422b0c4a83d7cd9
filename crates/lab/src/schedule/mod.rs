//! Course of a run: order and number of repetitions, expected duration, progress, and results that
//! are kept and resumed.

pub(crate) mod duration;
pub(crate) mod pace;
pub(crate) mod progress;
pub(crate) mod repetitions;
pub(crate) mod resume;
pub(crate) mod shorten;
