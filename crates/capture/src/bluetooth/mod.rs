//! Bluetooth at the host: HCI packets of any capture, their L2CAP and RFCOMM, modes of links, and
//! the state machine of either side ("Understanding the Networking Performance of Wear OS", section
//! 3).

mod analysis;
mod decoder;
mod hci;
mod infer;
mod l2cap;
mod link_id;
mod picture;
mod rfcomm;
mod throughput;

pub use analysis::{
    Analysis, BluetoothReport, Commands, Dwell, Interval, Link, ModeChange, Sniffs, analyse,
};
pub use decoder::{Decoder, Happening};
pub use hci::{HciKind, HciPacket, hci};
pub use infer::{Inferred, ResetBy, Side, StateMachine};
pub use l2cap::PSM_RFCOMM;
pub use link_id::LinkId;
pub use rfcomm::{RfcommFrame, RfcommKind, rfcomm};
pub use throughput::{Blackouts, Direction, Throughput};
