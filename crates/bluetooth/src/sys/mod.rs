//! Sockets of Bluetooth.

pub(crate) mod hci;
pub(crate) mod rfcomm;
pub(crate) mod rssi;
