//! Causes of idle time: an implementation of IdleChecker (Android Wear characterization, section 4,
//! *Idle Time Analysis*; section 5.2, Table 4).

mod episode;
mod evidence;
mod index;
mod ipc;
mod matching;
mod report;
mod rules;
mod spans;
mod stall;

pub use episode::{IpcWait, Suspect};
pub use report::{IdleCause, IdleEpisode, IdleFinding, IdleReport};
pub use rules::{Condition, IdleRule, IdleRules};
