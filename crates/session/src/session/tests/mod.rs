//! Whole sessions against each other in virtual time.

mod behaviour;
mod express;
mod hostile;
mod pair;
