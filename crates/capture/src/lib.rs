//! Readers of packet captures and logs, and analyses of them: energy, Bluetooth, 802.11, delays.
//!
//! [`bluetooth`] follows Bluetooth logs up to RFCOMM and the modes of links.
//!
//! Every reader takes any [`std::io::Read`], keeps a bounded window of it, and names file and
//! offset in its errors. Records before an error are complete, and the error tells the caller that
//! the rest is missing.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)] // pure: no clock

pub mod bluetooth;
mod btsnoop;
mod cpu_log;
pub mod cpu_sampling;
mod cpu_summary;
pub mod delay;
pub mod energy;
mod error;
mod format;
mod lines;
mod network;
mod packet_log;
mod packet_logger;
mod pcap;
mod pcapng;
mod pcapng_write;
mod power_log;
mod reader;
mod record;
mod source;
mod unpack;
pub mod wifi;

pub use cpu_log::{CPU_LOG_HEADER, CpuLog};
pub use cpu_summary::{CoreMeans, CpuSummary, ShareMean, cpu_mean_mw, cpu_summary};
pub use error::{CaptureError, Place};
pub use format::Format;
pub use network::{Flow, Network, NotNetwork, network};
pub use packet_log::{LoggedPacket, PacketLog};
pub use power_log::{Metered, POWER_LOG_HEADER, PowerLog, metered};
pub use reader::Reader;
pub use record::{LinkType, Record};
