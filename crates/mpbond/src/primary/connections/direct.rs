//! Direct connections: past the proxy, over one path.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use mpbond_intercept::{Destination, Intercepted, Refusal};
use mpbond_net::happy_eyeballs::{self, Failure};
use mpbond_net::resolve::{Files, LookupError, Resolver, ResolverConfig, Sockets};
use socket2::{Domain, Socket, Type};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tracing::{debug, info};

use super::reach::Reach;
use crate::driver::{AppSocket as _, Budget, Client, keep_alive, reset_on_close};
use crate::own_mark::OWN_MARK;

/// Time within which a destination has to answer.
pub(super) const DIRECT_WITHIN: Duration = Duration::from_secs(10);

/// Maximum number of name look-ups under way; a resolver admits a quarter of these for one session,
/// and all that go direct are one.
const MAX_LOOKUPS: usize = 256;

/// A resolver for direct connections. Its sockets pass our own interception.
pub(in crate::primary) fn resolver() -> Rc<Resolver<()>> {
    Resolver::new(ResolverConfig {
        files: Files::default(),
        further: Vec::new(),
        sockets: Sockets {
            mark: Some(OWN_MARK),
            ..Sockets::default()
        },
        most: MAX_LOOKUPS,
    })
}

/// Serves an intercepted connection without the session, within the budget of its rule.
pub(in crate::primary) async fn serve(
    resolver: &Rc<Resolver<()>>,
    connection: Intercepted,
    to: &Destination,
    budget: Option<Rc<Budget>>,
) {
    let reach = Reach::of(connection.peer().ip());
    let mut origin = match timeout(DIRECT_WITHIN, connect(resolver, to, reach)).await {
        Ok(Ok(origin)) => origin,
        Ok(Err(e)) => {
            info!(%to, error = %e, "destination not reached");
            let refusal = match e.kind() {
                io::ErrorKind::ConnectionRefused => Refusal::ConnectionRefused,
                io::ErrorKind::NotFound => Refusal::NameNotFound,
                io::ErrorKind::TimedOut => Refusal::TimedOut,
                io::ErrorKind::PermissionDenied => Refusal::NotAllowed,
                _ => Refusal::HostUnreachable,
            };
            return connection.refused(refusal).await;
        }
        Err(_) => return connection.refused(Refusal::TimedOut).await,
    };
    match connection.accepted().await {
        Ok(client) => {
            let mut client = Client::new(client, None, budget, ());
            if let Err(e) = copy_bidirectional(&mut client, &mut origin).await {
                debug!(%to, error = %e, "direct connection broke");
                // What is cut short is not complete, at either end.
                reset_on_close(&origin);
                Box::new(client).abort(None);
            }
        }
        Err(e) => debug!(%to, error = %e, "client left"),
    }
}

/// Connects to a destination past our own interception, if it is within reach.
///
/// # Errors
/// `PermissionDenied` for a destination out of reach; other errors of look-up and connection.
pub(in crate::primary) async fn connect(
    resolver: &Rc<Resolver<()>>,
    to: &Destination,
    reach: Reach,
) -> io::Result<TcpStream> {
    let (host, port) = match to {
        Destination::Addr(address) => return attempt(*address, reach).await,
        Destination::Name { host, port } => (host, *port),
    };
    let not_found = |e| {
        let kind = match e {
            LookupError::NotFound => io::ErrorKind::NotFound,
            LookupError::NoAnswer => io::ErrorKind::TimedOut,
        };
        io::Error::new(kind, e)
    };
    let lookup = resolver.look_up(host, ()).await.map_err(not_found)?;
    let reached = happy_eyeballs::connect(lookup, port, |to| attempt(to, reach)).await;
    reached.map_err(|failure| match failure {
        Failure::Lookup(e) => not_found(e),
        Failure::Attempts(mut errors) => {
            let last = errors.pop();
            last.unwrap_or_else(|| io::ErrorKind::NotFound.into())
        }
    })
}

async fn attempt(address: SocketAddr, reach: Reach) -> io::Result<TcpStream> {
    reach.check(address)?;
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking().cloexec(),
        None,
    )?;
    // Needs CAP_NET_ADMIN, as interception does; without interception nothing needs it.
    if let Err(e) = socket.set_mark(OWN_MARK) {
        debug!(error = %e, "cannot mark a direct connection");
    }
    let tcp = TcpSocket::from_std_stream(socket.into())
        .connect(address)
        .await?;
    keep_alive(&tcp);
    reach.confirm(tcp)
}
