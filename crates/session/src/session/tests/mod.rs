//! Whole sessions against each other in virtual time.

mod behaviour;
mod hostile;
mod pair;
