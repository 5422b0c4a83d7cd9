//! Whole sessions against each other in virtual time.

mod chunks;
mod confirm;
mod costs;
mod express;
mod feedback;
mod giving_way;
mod go_away;
mod hostile;
mod known;
mod later;
mod loss;
mod order;
mod pair;
mod paths;
mod reclass;
mod resting;
mod sets;
mod silence;
mod transfers;
