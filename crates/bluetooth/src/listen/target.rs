//! The helper's socket, and the devices whose connections are carried to it.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

use crate::address::DeviceAddress;

/// Destination of the connections.
pub(super) struct Target {
    /// Unix socket of the helper.
    pub socket: PathBuf,
    /// Devices that may connect; all, if there are none.
    pub devices: Vec<DeviceAddress>,
}

impl Target {
    /// Whether a device may connect.
    pub fn admits(&self, device: Option<DeviceAddress>) -> bool {
        self.devices.is_empty() || device.is_some_and(|d| self.devices.contains(&d))
    }
}

/// A connection of a device, for log lines.
pub(super) struct Line(pub Option<DeviceAddress>);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(device) => device.fmt(f),
            None => f.write_str("a device without an address"),
        }
    }
}

/// Connects to the helper's socket, without waiting for a helper that does not accept.
pub(super) fn connect(path: &Path) -> io::Result<Socket> {
    let far = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    far.set_nonblocking(true)?;
    far.connect(&SockAddr::unix(path)?).map_err(|e| {
        let text = match e.kind() {
            ErrorKind::NotFound => "there is no such socket: is `mpbond helper` running?",
            ErrorKind::ConnectionRefused => {
                "nobody listens there: `mpbond helper` has ended, or has another `listen`"
            }
            ErrorKind::WouldBlock => "the helper does not accept connections",
            ErrorKind::PermissionDenied => {
                "this user may not connect: run as the helper's user, or share the socket's folder"
            }
            _ => return e,
        };
        io::Error::new(e.kind(), text)
    })?;
    Ok(far)
}
