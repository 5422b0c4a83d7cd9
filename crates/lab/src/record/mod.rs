//! Records of runs: transfers, summaries, judged asserts, published figures.

mod judgement;
mod message_times;
mod quantity;
mod report;
mod summary;
mod transfer;

pub use judgement::{Comparison, Judgement, Standing};
pub use message_times::MessageTimes;
pub use report::{IdealProgress, RunReport, Simulated, Verdict};
pub use summary::{EnergySummary, Estimate, Summary};
pub use transfer::{DeviceEnergy, Energy, Lateness, LinkProgress, SubflowShare, Transfer};
