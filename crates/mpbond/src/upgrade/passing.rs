//! Connections for the process that ran before, and those that the next one passes on. Their first
//! octets carry the label of the process that they are for, and are read without being taken.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use mpbond_net::tls::{Label, Peeked};
use tokio::net::TcpStream;
use tracing::debug;

use super::handover::Successor;
use super::predecessor::Predecessor;
use crate::admission::{Door, Visitor};

/// Interval at which an opening that came in parts is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Form of the beginning of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// Octets from which any label can be read.
    pub(crate) most_bytes: usize,
    pub(crate) label: fn(&[u8]) -> Peeked<Label>,
}

/// Passes a connection on to the process that ran before, while that runs, if the connection has
/// the label of another process than this one. Otherwise it is returned, unread. The caller limits
/// the time.
pub(crate) async fn pass_on(
    tcp: TcpStream,
    form: Form,
    own: Label,
    before: Option<&Predecessor>,
) -> io::Result<Option<TcpStream>> {
    let Some(before) = before.filter(|before| !before.has_ended()) else {
        return Ok(Some(tcp));
    };
    match label(&tcp, form).await? {
        Some(label) if label != own => {
            debug!(%label, "passed on");
            before.pass(tcp).await;
            Ok(None)
        }
        _ => Ok(Some(tcp)),
    }
}

async fn label(tcp: &TcpStream, form: Form) -> io::Result<Option<Label>> {
    let mut octets = vec![0; form.most_bytes];
    loop {
        let read = tcp.peek(&mut octets).await?;
        match (form.label)(octets.get(..read).unwrap_or_default()) {
            Peeked::Whole(label) => return Ok(label),
            Peeked::Incomplete if read == 0 => return Ok(None),
            Peeked::Incomplete => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

/// Serves the connections that the new process passes on, within the limits of all others.
pub(crate) async fn receive<F>(
    successor: Successor,
    door: Rc<Door>,
    serve: impl Fn(TcpStream, SocketAddr, Visitor) -> F,
) where
    F: Future<Output = ()> + 'static,
{
    while let Some(tcp) = successor.connection().await {
        // It fails for a connection that is closed already.
        if let Ok(from) = tcp.peer_addr() {
            door.admit(tcp, from, &serve);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;
    use tokio::task::LocalSet;

    use super::*;
    use crate::admission::Limits;
    use crate::driver::Clock;
    use crate::upgrade::handover::Handover;
    use crate::upgrade::predecessor::{Inherited, take_over};

    #[tokio::test]
    async fn connections_that_are_passed_on_have_the_limits_of_all_others() {
        let folder = tempfile::tempdir().unwrap();
        let status_socket = folder.path().join("proxy.sock");
        let mut none = Inherited::default();
        let mut old = Handover::bind(&status_socket, "proxy", &mut none).unwrap();
        let door = Door::new(
            Limits {
                all: 8,
                reserved: 2,
                each: 3,
                crowd: 8,
            },
            Clock::start(),
        );
        let served = Rc::new(Cell::new(0));
        let count = Rc::clone(&served);
        let serve = move |tcp, _, visitor| {
            count.set(count.get() + 1);
            async move {
                let _both: (TcpStream, Visitor) = (tcp, visitor);
                pending().await
            }
        };
        let receiving = async {
            let successor = old.wait(|| ()).await;
            receive(successor, door, serve).await;
        };
        let passing = async {
            let (before, _) = take_over(&status_socket, "proxy").await.unwrap();
            before.ready().await.unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut clients = Vec::new();
            for _ in 0..5 {
                let to = listener.local_addr().unwrap();
                clients.push(TcpStream::connect(to).await.unwrap());
                before.pass(listener.accept().await.unwrap().0).await;
            }
            for client in &mut clients[3..] {
                assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "closed");
            }
        };
        let both = async {
            tokio::select! {
                () = receiving => panic!("the new process has ended"),
                () = passing => {}
            }
        };
        LocalSet::new().run_until(both).await;
        assert_eq!(served.get(), 3);
    }
}
