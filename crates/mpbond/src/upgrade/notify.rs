//! Messages to the service manager (sd_notify(3)): a datagram to the socket that NOTIFY_SOCKET
//! names.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::{debug, warn};

/// Connection to the service manager, if there is one.
#[derive(Debug)]
pub(crate) struct Notify(Option<UnixDatagram>);

impl Notify {
    /// Connects. To be called before the sandbox is entered, which may block the socket's file.
    pub(crate) fn connect() -> Self {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
            return Self(None);
        };
        let connected = address(name.as_bytes()).and_then(|address| {
            let socket = UnixDatagram::unbound()?;
            socket.connect_addr(&address)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        match connected {
            Ok(socket) => Self(Some(socket)),
            Err(e) => {
                warn!(error = %e, "the service manager cannot be told anything");
                Self(None)
            }
        }
    }

    /// Tells that this process is the daemon from now on, and ready.
    pub(crate) fn ready(&self) {
        self.send(&format!("READY=1\nMAINPID={}\n", std::process::id()));
    }

    fn send(&self, text: &str) {
        if let Some(socket) = &self.0
            && let Err(e) = socket.send(text.as_bytes())
        {
            debug!(error = %e, "the service manager was not told");
        }
    }
}

/// A path, or a name in the abstract namespace after an @.
fn address(name: &[u8]) -> io::Result<SocketAddr> {
    match name.split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)),
    }
}
