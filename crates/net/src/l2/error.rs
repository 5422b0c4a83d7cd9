//! Reasons for which no frames can be sent on an interface.

use std::io;

/// Failure to open a socket for frames. Pipes over TCP need none.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No such interface.
    #[error("there is no interface {0}")]
    NoInterface(String),
    /// The interface has no Ethernet addresses: a tunnel, a modem.
    #[error("{0} is not an Ethernet or WiFi interface: its pipes use TCP")]
    NotEthernet(String),
    /// The capability is missing.
    #[error("no Ethernet frames on {0} without CAP_NET_RAW: its pipes use TCP")]
    NotPermitted(String),
    /// The capability was missing when the process began.
    #[error("no Ethernet frames without CAP_NET_RAW: pipes use TCP")]
    NoCapability,
    /// The process may not open such sockets: systemd refuses their family to it.
    #[error(
        "no Ethernet frames: this process may open no packet sockets; with systemd, its unit needs \
         `RestrictAddressFamilies=AF_PACKET`"
    )]
    NoFamily,
    /// No socket could be opened when the process began.
    #[error("no Ethernet frames: {0}")]
    NoSockets(io::Error),
    /// As many channels as there are sockets.
    #[error("all {0} sockets for Ethernet frames are in use: further pipes use TCP")]
    AllInUse(usize),
    /// Another error of the kernel.
    #[error("no Ethernet frames on {interface}: {error}")]
    Failed {
        /// Name of the interface.
        interface: String,
        /// Error of the kernel.
        error: io::Error,
    },
}

impl OpenError {
    /// The reason for an error of the kernel.
    pub(super) fn of(interface: &str, error: io::Error) -> Self {
        let interface = interface.to_owned();
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted(interface),
            _ => Self::Failed { interface, error },
        }
    }
}
