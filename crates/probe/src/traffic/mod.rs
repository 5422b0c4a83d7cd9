//! Traffic that measures a network: bulk, constant rate or chunks, over one TCP connection at a
//! time that is re-established when lost ("Understanding the Networking Performance of Wear OS",
//! sections 2.2 and 6.2).

mod account;
mod client;
mod connection;
mod flow;
mod hello;
mod hostile;
mod picture;
mod runs;
mod sender;
mod server;
mod socks5;
mod wire;

pub use account::{BIN_S, DirectionSummary, Gap, Gaps};
pub use client::{ClientOptions, Event, Loss, Summary, run};
pub use connection::Target;
pub use flow::Flow;
pub use hostile::hear;
pub use server::{Server, ServerOptions};

use serde::Serialize;

/// Direction of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the server.
    Down,
    /// To the server.
    Up,
}
