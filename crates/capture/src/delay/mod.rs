//! One-way delay by segment ("Understanding the Networking Performance of Wear OS", sections 4.2
//! and 6.3): from server to phone, through the phone's kernel and its proxy, and over Bluetooth;
//! phases of a handover; and probes on the wire.

mod arrivals;
mod clock;
mod handover;
mod interface_log;
mod owd;
mod phases;
mod probes;
mod rssi;
mod tcp;

pub use arrivals::Arrivals;
pub use clock::{ClockBound, ClockSegment};
pub use handover::{Handover, HandoverRssi, Phases, PhasesReport};
pub use owd::{
    DelayReport, OwdError, Places, Segment, Segments, Transfer, one_way, proxy_log, rfcomm_stream,
    tcp_transfer,
};
pub use phases::phases;
pub use probes::{OnWire, Protocol, WireClock, WireProbes, WireTimes, wire_probes};
pub use rssi::add_rssi;
pub use tcp::{TcpSegment, tcp};
