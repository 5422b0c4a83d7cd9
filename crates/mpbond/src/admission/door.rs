//! The unauthenticated connections of a daemon's listeners, each served by a task.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::AbortHandle;
use tracing::{debug, trace, warn};

use super::{Admission, Limits};
use crate::driver::Clock;
use crate::rate_limited_log::RateLimitedLog;

/// Pause after a failure to accept that nothing can be done about.
const PAUSE: Duration = Duration::from_millis(100);

/// Connections accepted in a row; then those that are admitted get a turn.
const IN_A_ROW: usize = 32;

/// A listener of one kind of connections.
pub(crate) trait Listener {
    /// A connection.
    type Connection;

    /// The next connection, with the address of its source.
    async fn next(&self) -> io::Result<(Self::Connection, SocketAddr)>;
}

impl Listener for TcpListener {
    type Connection = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.accept().await
    }
}

/// Connections of this host have no address: all of them count as one source, 0.0.0.0.
impl Listener for UnixListener {
    type Connection = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (unix, _) = self.accept().await?;
        Ok((unix, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))))
    }
}

/// Admission to a daemon, for use on one thread.
pub(crate) struct Door {
    clock: Clock,
    admission: RefCell<Admission>,
    /// Tasks of admitted connections.
    tasks: RefCell<HashMap<u64, AbortHandle>>,
    failed: RateLimitedLog,
}

impl Door {
    pub(crate) fn new(limits: Limits, clock: Clock) -> Rc<Self> {
        Rc::new(Self {
            clock,
            admission: RefCell::new(Admission::new(limits)),
            tasks: RefCell::default(),
            failed: RateLimitedLog::default(),
        })
    }

    /// Accepts connections for good and serves each in a task, which is cancelled if the
    /// connection has to make room before its peer is authenticated.
    pub(crate) async fn accept<L: Listener, F>(
        self: Rc<Self>,
        listener: L,
        serve: impl Fn(L::Connection, SocketAddr, Visitor) -> F,
    ) where
        F: Future<Output = ()> + 'static,
    {
        let mut in_a_row = 0;
        loop {
            in_a_row += 1;
            if in_a_row % IN_A_ROW == 0 {
                tokio::task::yield_now().await;
            }
            let accepted = tokio::select! {
                accepted = listener.next() => accepted,
                () = self.until_overdue() => {
                    let overdue = self.admission.borrow_mut().overdue(self.clock.now());
                    overdue.into_iter().for_each(|number| self.drop_one(number));
                    continue;
                }
            };
            match accepted {
                Ok((connection, from)) => self.admit(connection, from, &serve),
                Err(e) => self.cannot_accept(&e).await,
            }
        }
    }

    /// Serves one connection in the same way.
    pub(crate) fn admit<C, F>(
        self: &Rc<Self>,
        connection: C,
        from: SocketAddr,
        serve: impl Fn(C, SocketAddr, Visitor) -> F,
    ) where
        F: Future<Output = ()> + 'static,
    {
        let arrived = self.admission.borrow_mut().arrive(from, self.clock.now());
        let admitted = match arrived {
            Ok(admitted) => admitted,
            Err(e) => return debug!(%from, error = %e, "connection refused"),
        };
        if let Some(number) = admitted.instead_of {
            self.drop_one(number);
        }
        let door = Rc::clone(self);
        let number = admitted.number;
        let visitor = Visitor { door, number };
        let task = crate::task::spawn_local(serve(connection, from, visitor));
        self.tasks.borrow_mut().insert(number, task.abort_handle());
    }

    /// Descriptors are probably used up, which lasts: do not spin.
    async fn cannot_accept(&self, e: &io::Error) {
        if self.failed.is_due() {
            warn!(error = %e, "cannot accept connections");
        }
        let dropped = self.admission.borrow_mut().make_room();
        match dropped {
            Some(number) => {
                self.drop_one(number);
                // Its task ends and closes the socket.
                tokio::task::yield_now().await;
            }
            None => tokio::time::sleep(PAUSE).await,
        }
    }

    fn drop_one(&self, number: u64) {
        if let Some(task) = self.tasks.borrow_mut().remove(&number) {
            trace!(
                number,
                "unauthenticated connection dropped: others need the room"
            );
            task.abort();
        }
    }

    async fn until_overdue(&self) {
        let next = self.admission.borrow().next_overdue();
        match next {
            Some(at) => tokio::time::sleep_until(self.clock.instant(at)).await,
            None => std::future::pending().await,
        }
    }
}

/// An admitted connection's place, given back when dropped.
pub(crate) struct Visitor {
    door: Rc<Door>,
    number: u64,
}

impl Visitor {
    /// Waits for the first octet, or the end, of its connection: until it is `readable`.
    pub(crate) async fn first_octet(
        &self,
        readable: impl Future<Output = io::Result<()>>,
    ) -> io::Result<()> {
        readable.await?;
        self.door.admission.borrow_mut().spoke(self.number);
        Ok(())
    }

    /// The peer is authenticated: its connection no longer makes room for others.
    pub(crate) fn authenticated(self) {
        let now = self.door.clock.now();
        let mut admission = self.door.admission.borrow_mut();
        admission.authenticated(self.number, now);
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.door.tasks.borrow_mut().remove(&self.number);
        self.door.admission.borrow_mut().left(self.number);
    }
}
