//! Direct connections: past the proxy, over one path.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use mpbond_intercept::{Destination, Intercepted, Refusal};
use socket2::{Domain, Socket, Type};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::timeout;
use tracing::{debug, info};

/// `SO_MARK` of our own connections, which are not intercepted: "mp" and a one.
pub(super) const OWN_MARK: u32 = 0x6d70_0001;

/// Time within which a destination has to answer.
pub(super) const DIRECT_WITHIN: Duration = Duration::from_secs(10);

/// Serves an intercepted connection without the session.
pub(super) async fn serve(connection: Intercepted, to: &Destination) {
    let mut origin = match timeout(DIRECT_WITHIN, connect(to)).await {
        Ok(Ok(origin)) => origin,
        Ok(Err(e)) => {
            info!(%to, error = %e, "destination not reached");
            let refusal = match e.kind() {
                io::ErrorKind::ConnectionRefused => Refusal::ConnectionRefused,
                io::ErrorKind::NotFound => Refusal::NameNotFound,
                _ => Refusal::HostUnreachable,
            };
            return connection.refused(refusal).await;
        }
        Err(_) => return connection.refused(Refusal::TimedOut).await,
    };
    match connection.accepted().await {
        Ok(mut client) => {
            if let Err(e) = copy_bidirectional(&mut client, &mut origin).await {
                debug!(%to, error = %e, "direct connection broke");
            }
        }
        Err(e) => debug!(%to, error = %e, "client left"),
    }
}

/// Connects to a destination past our own interception.
pub(super) async fn connect(to: &Destination) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = match to {
        Destination::Addr(a) => vec![*a],
        Destination::Name { host, port } => lookup_host((host.as_str(), *port)).await?.collect(),
    };
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM.nonblocking().cloexec(),
            None,
        )?;
        // Needs CAP_NET_ADMIN, as interception does; without interception nothing needs it.
        if let Err(e) = socket.set_mark(OWN_MARK) {
            debug!(error = %e, "cannot mark a direct connection");
        }
        match TcpSocket::from_std_stream(socket.into())
            .connect(address)
            .await
        {
            Ok(tcp) => return Ok(tcp),
            Err(e) => last = e,
        }
    }
    Err(last)
}
