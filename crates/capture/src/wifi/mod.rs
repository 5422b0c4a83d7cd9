//! 802.11 captures of several sniffers: a common clock, and one merged capture ("Toward Accurate
//! Network Delay Measurement on Android Phones", sections 3.1 and 3.2).

mod alignment;
mod bridge;
mod clock;
mod estimate;
mod frame;
mod matching;
mod merge;
mod merged;
mod packet;
mod reference;
mod report;
mod sniffer;
pub mod truth;

pub use alignment::Bridging;
pub use clock::{ClockFit, ClockRelation};
pub use frame::{Frame, FrameKind, frame};
pub use merge::{MergeError, merge, merge_by};
pub use merged::{Merged, MergedFrame, Times};
pub use packet::{Sealed, packets};
pub use report::{InputReport, MergeReport};
pub use sniffer::Sniffer;
