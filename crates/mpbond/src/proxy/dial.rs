//! Connections to the destinations of streams.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use mpbond_net::DeviceId;
use mpbond_net::dest::{InternalAddresses, Refused};
use mpbond_net::happy_eyeballs::{self, Failure};
use mpbond_net::resolve::{LookupError, Resolver};
use mpbond_net::tcp::{self, TcpError, TcpOptions};
use mpbond_session::{Destination, ResetCode};
use tokio::net::TcpStream;

use super::state::Proxy;

/// Time limit of a connection to an origin.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// A destination that was not reached.
#[derive(Debug)]
pub(super) struct NotReached {
    /// The reason, for the primary.
    pub(super) code: ResetCode,
    /// The reason with the rule or error behind it, for this proxy's log.
    pub(super) why: String,
}

impl NotReached {
    fn new(code: ResetCode, why: impl Display) -> Self {
        Self {
            code,
            why: why.to_string(),
        }
    }
}

/// Connects to the destination of a device's stream, if policy allows.
pub(super) async fn dial(
    proxy: &Proxy,
    resolver: &Rc<Resolver<DeviceId>>,
    device: DeviceId,
    to: &Destination,
) -> Result<TcpStream, NotReached> {
    if let Some(service) = proxy.config.serve {
        return connect(service).await;
    }
    let (host, port) = match to {
        Destination::Addr(address) => return attempt(proxy, *address).await,
        Destination::Name { host, port } => (host, *port),
    };
    let not_found = |e| {
        let code = match e {
            LookupError::NotFound => ResetCode::NameNotFound,
            LookupError::NoAnswer => ResetCode::TimedOut,
        };
        NotReached::new(code, e)
    };
    let lookup = resolver.look_up(host, device).await.map_err(not_found)?;
    let attempt = |address| attempt(proxy, address);
    let reached = happy_eyeballs::connect(lookup, port, attempt).await;
    reached.map_err(|failure| match failure {
        Failure::Lookup(e) => not_found(e),
        Failure::Attempts(mut errors) => {
            // A refusal tells least: the others were allowed, and did not answer.
            let told = errors.iter().rposition(|e| e.code != ResetCode::Forbidden);
            let told = told.or(errors.len().checked_sub(1));
            told.map(|at| errors.swap_remove(at)).unwrap_or_else(|| {
                NotReached::new(ResetCode::NameNotFound, "the name has no address")
            })
        }
    })
}

/// Connects to one address, if policy allows. A name's addresses are checked each: its owner may
/// let it lead anywhere.
async fn attempt(proxy: &Proxy, address: SocketAddr) -> Result<TcpStream, NotReached> {
    let policy = proxy.policy();
    let checked = proxy.internal.with(|i| policy.check_from(address, i));
    checked.map_err(|e| NotReached::new(ResetCode::Forbidden, forbidden(&e)))?;
    let tcp = connect(address).await?;
    if is_own(proxy, &tcp) {
        let why = format!("{address} is this proxy itself");
        return Err(NotReached::new(ResetCode::Forbidden, why));
    }
    Ok(tcp)
}

/// The rule that forbids a destination, and the setting that would allow it.
fn forbidden(refused: &Refused) -> String {
    match refused {
        Refused::Denied(_) => format!("{refused}: a rule of `deny` in [destinations] covers it"),
        Refused::NotPublic { address, .. } => {
            format!(
                "{refused}: `allow = [\"{}\"]` in [destinations] would",
                address.ip()
            )
        }
        Refused::NoPort(_) => refused.to_string(),
    }
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
    listens || proxy.policy().check_from(peer, &own).is_err()
}

async fn connect(address: SocketAddr) -> Result<TcpStream, NotReached> {
    let options = TcpOptions {
        connect_timeout: CONNECT_WITHIN,
        ..TcpOptions::to(address)
    };
    tcp::connect(&options).await.map_err(|e| {
        let code = match &e {
            TcpError::TimedOut { .. } => ResetCode::TimedOut,
            TcpError::Connect { cause, .. } => reset_code(cause),
            _ => ResetCode::Unreachable,
        };
        NotReached::new(code, e)
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
