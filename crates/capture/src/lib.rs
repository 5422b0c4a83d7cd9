//! Reads packet captures and logs, and accounts the energy that they cost.
//!
//! Bluetooth logs are followed up to RFCOMM and the modes of links ([`bluetooth`]).
//!
//! Every reader takes any [`std::io::Read`], keeps a bounded window of it, and
//! names file and offset in its errors. Records before an error are whole, and
//! the caller learns that the rest is missing.
#![forbid(unsafe_code)]

pub mod bluetooth;
mod btsnoop;
mod cpu_log;
pub mod cpu_sampling;
pub mod delay;
pub mod energy;
mod error;
mod lines;
mod network;
mod packet_log;
mod packet_logger;
mod pcap;
mod pcapng;
mod pcapng_write;
mod reader;
mod source;
mod svg;
pub mod wifi;

pub use cpu_log::{CPU_LOG_HEADER, CpuLog};
pub use error::{CaptureError, Place};
pub use network::{Flow, Network, NotNetwork, network};
pub use packet_log::{LoggedPacket, PacketLog};
pub use reader::{Format, LinkType, Reader, Record};
