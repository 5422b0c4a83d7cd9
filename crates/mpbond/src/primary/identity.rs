//! Owner of a client's socket, which the kernel is asked for at most once for each connection.

use std::cell::{OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use mpbond_intercept::{Destination, Intercepted, Via};
use mpbond_net::sock_diag::{SockDiag, SocketOwner};

/// Ends of a client's connection, as its own socket has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) client: SocketAddr,
    pub(super) remote: Option<SocketAddr>,
    pub(super) via: Via,
}

impl Ends {
    pub(super) fn of(connection: &Intercepted) -> Self {
        let via = connection.via();
        // A redirected socket goes on naming the destination that it was to reach.
        let remote = match (via, connection.destination()) {
            (Via::Transparent, Destination::Addr(address)) => Some(*address),
            _ => connection.socket().local_addr().ok(),
        };
        Self {
            client: connection.peer(),
            remote,
            via,
        }
    }
}

/// Connection to the kernel by which owners of clients' sockets are looked up. It is opened at the
/// first look-up, and all clones share it.
#[derive(Clone, Default)]
pub(super) struct Owners(Rc<RefCell<Option<SockDiag>>>);

impl Owners {
    /// Owner of the client's socket, if it is one of this host that still exists, and the kernel
    /// can be asked.
    pub(super) fn of(&self, ends: Ends) -> Option<SocketOwner> {
        let mut diag = self.0.borrow_mut();
        if diag.is_none() {
            *diag = SockDiag::open().ok();
        }
        diag.as_ref()?
            .find(ends.client, ends.remote?)
            .ok()
            .flatten()
    }
}

/// Identity of a client.
pub(super) struct Identity {
    ends: Ends,
    owners: Owners,
    owner: OnceCell<Option<SocketOwner>>,
}

impl Identity {
    pub(super) fn of(owners: &Owners, connection: &Intercepted) -> Self {
        Self {
            ends: Ends::of(connection),
            owners: owners.clone(),
            owner: OnceCell::new(),
        }
    }

    pub(super) const fn ends(&self) -> Ends {
        self.ends
    }

    /// Owner of its socket. The kernel is asked at the first call.
    pub(super) fn owner(&self) -> Option<SocketOwner> {
        *self.owner.get_or_init(|| self.owners.of(self.ends))
    }
}
