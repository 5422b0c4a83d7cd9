//! The L2 pipe's sockets: a [`Channel`](mpbond_l2::Channel) over Ethernet frames of one interface.
//!
//! * [`FrameSocket`]: a packet socket for the frames of one channel, opened with CAP_NET_RAW.
//! * [`FrameSockets`]: such sockets for channels to come, for a daemon that gives the capability
//!   up.
//! * [`Port`]: the channel with its socket, without an event loop.
//! * [`L2Stream`]: the port as a stream of tokio.

mod error;
mod events;
mod looks;
mod port;
mod socket;
mod stream;
#[cfg(test)]
mod tests;

pub use error::OpenError;
pub use mpbond_l2::Side;
pub use port::{Next, Port, PortConfig};
pub use socket::{FrameSocket, FrameSockets, Mac, ParseMacError};
pub use stream::{ChannelEnd, L2Handle, L2Stream, Outcome, outcome};
