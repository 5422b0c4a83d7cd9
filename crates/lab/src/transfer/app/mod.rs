//! Applications over the emulated links, and the quantities that their users experience.

mod chunks;
mod messages;
mod page;
mod ran;
mod run;
mod stream;
mod timed;
mod video;

pub(crate) use chunks::gaps;
pub(crate) use messages::quantities as messages_quantities;
pub(crate) use page::quantities as page_quantities;
pub(crate) use ran::{Setting, mean_and_p95};
pub(crate) use run::run;
pub(crate) use stream::quantities as stream_quantities;
pub(crate) use video::quantities as video_quantities;
