//! Server name in the ClientHello of an intercepted connection (RFC 6066, section 3).
//!
//! The octets are looked at while they wait in the client's socket, and stay there.

use std::io;
use std::time::Duration;

use mpbond_net::tls::{MAX_HELLO_BYTES, Peeked, server_name_of_hello};
use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};

/// Interval at which a ClientHello that is not complete is looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The server name that a client sends first, if its ClientHello arrives within this time.
pub(in crate::primary) async fn server_name(
    client: &TcpStream,
    within: Duration,
) -> Option<String> {
    let deadline = Instant::now() + within;
    loop {
        timeout_at(deadline, client.readable()).await.ok()?.ok()?;
        match client.try_io(Interest::READABLE, || peek(client)) {
            Ok(Peeked::Whole(name)) => return name,
            Ok(Peeked::Incomplete) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        if Instant::now() >= deadline {
            return None;
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Looks at the octets in a socket. Nothing of them is held meanwhile: a silent client costs no
/// memory.
fn peek(client: &TcpStream) -> io::Result<Peeked<String>> {
    let mut octets = [0; MAX_HELLO_BYTES];
    let (length, _) = recv(client, &mut octets, RecvFlags::PEEK)?;
    match server_name_of_hello(octets.get(..length).unwrap_or_default()) {
        Peeked::Incomplete if length == 0 => Ok(Peeked::Whole(None)),
        peeked => Ok(peeked),
    }
}
