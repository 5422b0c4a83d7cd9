//! Android method traces (Dalvik and ART): calls and returns of managed functions.

mod classic;
mod record;
mod streaming;

pub(crate) use classic::read as read_classic;
pub(crate) use streaming::read as read_streaming;
