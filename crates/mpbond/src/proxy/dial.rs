//! Connections to the destinations of streams.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use mpbond_net::DeviceId;
use mpbond_net::dest::InternalAddresses;
use mpbond_net::happy_eyeballs::{self, Failure};
use mpbond_net::resolve::{LookupError, Resolver};
use mpbond_net::tcp::{self, TcpError, TcpOptions};
use mpbond_session::{Destination, ResetCode};
use tokio::net::TcpStream;
use tracing::debug;

use super::Proxy;

/// Time limit of a connection to an origin.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Connects to the destination of a device's stream, if policy allows.
pub(super) async fn dial(
    proxy: &Proxy,
    resolver: &Rc<Resolver<DeviceId>>,
    device: DeviceId,
    to: &Destination,
) -> Result<TcpStream, ResetCode> {
    if let Some(service) = proxy.config.serve {
        return connect(service).await;
    }
    let (host, port) = match to {
        Destination::Addr(address) => return attempt(proxy, to, *address).await,
        Destination::Name { host, port } => (host, *port),
    };
    let not_found = |e| {
        debug!(host, error = %e, "name does not resolve");
        match e {
            LookupError::NotFound => ResetCode::NameNotFound,
            LookupError::NoAnswer => ResetCode::TimedOut,
        }
    };
    let lookup = resolver.look_up(host, device).await.map_err(not_found)?;
    let attempt = |address| attempt(proxy, to, address);
    let reached = happy_eyeballs::connect(lookup, port, attempt).await;
    reached.map_err(|failure| match failure {
        Failure::Lookup(e) => not_found(e),
        Failure::Attempts(codes) => {
            // A refusal tells least: the others were allowed, and did not answer.
            let mut others = codes.into_iter().filter(|c| *c != ResetCode::Forbidden);
            others.next_back().unwrap_or(ResetCode::Forbidden)
        }
    })
}

/// Connects to one address, if policy allows. A name's addresses are checked each: its owner may
/// let it lead anywhere.
async fn attempt(
    proxy: &Proxy,
    to: &Destination,
    address: SocketAddr,
) -> Result<TcpStream, ResetCode> {
    let checked = proxy.internal.with(|i| proxy.policy.check_from(address, i));
    if let Err(e) = checked {
        debug!(%to, %address, reason = %e, "destination refused");
        return Err(ResetCode::Forbidden);
    }
    let tcp = connect(address).await?;
    if is_own(proxy, &tcp) {
        debug!(%to, %address, "destination refused: this proxy itself");
        return Err(ResetCode::Forbidden);
    }
    Ok(tcp)
}

/// Whether a connection has reached this host: one of the proxy's listening ports, or an address
/// that the policy does not allow. The kernel gives such a connection its destination as source,
/// also where the address has been added since, or belongs to a local prefix.
fn is_own(proxy: &Proxy, tcp: &TcpStream) -> bool {
    let (Ok(local), Ok(peer)) = (tcp.local_addr(), tcp.peer_addr()) else {
        return false;
    };
    if local.ip() != peer.ip() {
        return false;
    }
    let listens = proxy.config.listen.iter().any(|a| a.port() == peer.port());
    let own = InternalAddresses::new([peer.ip()], "");
    listens || proxy.policy.check_from(peer, &own).is_err()
}

async fn connect(address: SocketAddr) -> Result<TcpStream, ResetCode> {
    let options = TcpOptions {
        connect_timeout: CONNECT_WITHIN,
        ..TcpOptions::to(address)
    };
    tcp::connect(&options).await.map_err(|e| {
        debug!(%address, error = %e, "destination not reached");
        match e {
            TcpError::TimedOut { .. } => ResetCode::TimedOut,
            TcpError::Connect { source, .. } => reset_code(&source),
            _ => ResetCode::Unreachable,
        }
    })
}

fn reset_code(e: &io::Error) -> ResetCode {
    match e.kind() {
        io::ErrorKind::ConnectionRefused => ResetCode::ConnectionRefused,
        io::ErrorKind::ConnectionReset => ResetCode::ConnectionReset,
        io::ErrorKind::TimedOut => ResetCode::TimedOut,
        // EMFILE and ENFILE have no `ErrorKind`.
        _ if matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => ResetCode::Overloaded,
        _ => ResetCode::Unreachable,
    }
}
