//! Connections to the destinations of streams.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use mpbond_net::dest::InternalAddresses;
use mpbond_net::tcp::{self, TcpError, TcpOptions};
use mpbond_session::{Destination, ResetCode};
use tokio::net::TcpStream;
use tracing::debug;

use super::Proxy;

/// Time limit of a connection to an origin.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Maximum number of addresses tried for a name.
const MAX_ADDRESSES: usize = 4;

/// Connects to a stream's destination, if policy allows.
pub(super) async fn dial(proxy: &Proxy, to: &Destination) -> Result<TcpStream, ResetCode> {
    if let Some(service) = proxy.config.serve {
        return connect(service).await;
    }
    let addresses = match to {
        Destination::Addr(a) => vec![*a],
        Destination::Name { host, port } => resolve(host, *port).await?,
    };
    let mut refused = None;
    for address in addresses.into_iter().take(MAX_ADDRESSES) {
        let checked = proxy.internal.with(|i| proxy.policy.check_from(address, i));
        if let Err(e) = checked {
            debug!(%to, %address, reason = %e, "destination refused");
            refused.get_or_insert(ResetCode::Forbidden);
            continue;
        }
        match connect(address).await {
            Ok(tcp) if is_own(proxy, &tcp) => {
                debug!(%to, %address, "destination refused: this proxy itself");
                refused.get_or_insert(ResetCode::Forbidden);
            }
            Ok(tcp) => return Ok(tcp),
            Err(code) => refused = Some(code),
        }
    }
    Err(refused.unwrap_or(ResetCode::NameNotFound))
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

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, ResetCode> {
    let lookup = tokio::net::lookup_host((host, port));
    match tokio::time::timeout(CONNECT_WITHIN, lookup).await {
        Ok(Ok(addresses)) => Ok(addresses.collect()),
        Ok(Err(e)) => {
            debug!(host, error = %e, "name does not resolve");
            Err(ResetCode::NameNotFound)
        }
        Err(_) => Err(ResetCode::TimedOut),
    }
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
