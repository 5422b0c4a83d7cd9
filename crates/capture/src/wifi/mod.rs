//! 802.11 captures of several sniffers: one clock for all, and one capture of all
//! (delay measurement paper, sections 3.1 and 3.2).

mod clock;
mod frame;
mod merge;
mod packet;
mod reference;

pub use clock::{ClockFit, ClockRelation};
pub use frame::{Frame, FrameKind, frame};
pub use merge::{InputReport, MergeError, MergeReport, Merged, MergedFrame, Sniffer, Times, merge};
pub use packet::{Sealed, packets};
