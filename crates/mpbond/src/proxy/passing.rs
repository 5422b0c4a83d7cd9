//! Connections for the process that ran before, and those that the next one passes on.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use mpbond_net::tls::{Label, MAX_HELLO_BYTES, Peeked, label_of_hello};
use tokio::net::TcpStream;
use tracing::debug;

use crate::admission::{Door, Visitor};
use crate::upgrade::{Predecessor, Successor};

/// Interval at which a ClientHello that came in parts is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Passes a connection on to the process that ran before, if it joins a session there. Otherwise it
/// is returned, unread.
pub(super) async fn pass_on(
    tcp: TcpStream,
    own: Label,
    before: Option<&Predecessor>,
) -> io::Result<Option<TcpStream>> {
    let Some(before) = before else {
        return Ok(Some(tcp));
    };
    match label(&tcp).await? {
        Some(label) if label != own => {
            debug!(label = label.server_name(), "passed on");
            before.pass(tcp).await;
            Ok(None)
        }
        _ => Ok(Some(tcp)),
    }
}

/// The label in the ClientHello, which stays unread.
async fn label(tcp: &TcpStream) -> io::Result<Option<Label>> {
    let mut octets = vec![0; MAX_HELLO_BYTES];
    loop {
        let read = tcp.peek(&mut octets).await?;
        match label_of_hello(octets.get(..read).unwrap_or_default()) {
            Peeked::Whole(label) => return Ok(label),
            Peeked::Incomplete if read == 0 => return Ok(None),
            Peeked::Incomplete => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

/// Serves the connections that the new process passes on, within the limits of all others.
pub(super) async fn receive<F>(
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
