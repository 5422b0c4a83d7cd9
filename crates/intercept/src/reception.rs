//! Treatment of clients that have not connected yet, by the kernel.

use std::io;
use std::net::Shutdown;

use socket2::{SockFilter, SockRef};
use tokio::net::TcpListener;

use crate::original::BACKLOG;

/// Treatment of new clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// The kernel accepts them.
    Accept,
    /// It answers with a reset: their connection attempts fail at once (`ECONNREFUSED`).
    Refuse,
    /// It does not answer: they try again after a second (RFC 6298, section 2). Setting this may
    /// need privileges, ending it needs none.
    Defer,
}

/// A filter that drops all packets (`BPF_RET | BPF_K` with length 0).
const DROP_ALL: [SockFilter; 1] = [SockFilter::new(0x06, 0, 0, 0)];

/// A listener and its treatment of new clients.
///
/// A listener that refuses keeps its address, so that no other program gets it, and its options,
/// which this process may have lost the privileges to set.
#[derive(Debug)]
pub(crate) enum Listening {
    /// The kernel accepts clients, or defers them.
    Open(TcpListener),
    /// It refuses them.
    Shut(std::net::TcpListener),
    /// There is no listener any more.
    Closed,
}

impl Listening {
    /// A listener that exists, in whichever state it is.
    pub(crate) fn of(listener: TcpListener) -> io::Result<Self> {
        match SockRef::from(&listener).is_listener()? {
            true => Ok(Self::Open(listener)),
            false => Ok(Self::Shut(listener.into_std()?)),
        }
    }

    pub(crate) fn set(&mut self, reception: Reception) -> io::Result<()> {
        let socket = match &*self {
            Self::Open(listener) => SockRef::from(listener),
            Self::Shut(listener) => SockRef::from(listener),
            Self::Closed => return Ok(()),
        };
        match reception {
            Reception::Refuse => {
                // Otherwise another program that sets this option could listen there.
                socket.set_reuse_address(false)?;
                // Clients of a socket that is shut down once more would be, too.
                if socket.is_listener()? {
                    socket.shutdown(Shutdown::Both)?;
                }
                return self.shut();
            }
            Reception::Defer => socket.attach_filter(&DROP_ALL)?,
            Reception::Accept => {
                // Fails where there is no filter.
                let _ = socket.detach_filter();
            }
        }
        if !socket.is_listener()? {
            // Connections of before still have this address.
            socket.set_reuse_address(true)?;
            socket.listen(BACKLOG)?;
        }
        self.open()
    }

    /// Nothing is to be accepted: the event loop would report that again and again.
    pub(crate) fn shut(&mut self) -> io::Result<()> {
        *self = match std::mem::replace(self, Self::Closed) {
            Self::Open(listener) => Self::Shut(listener.into_std()?),
            other => other,
        };
        Ok(())
    }

    fn open(&mut self) -> io::Result<()> {
        *self = match std::mem::replace(self, Self::Closed) {
            Self::Shut(listener) => Self::Open(TcpListener::from_std(listener)?),
            other => other,
        };
        Ok(())
    }
}
