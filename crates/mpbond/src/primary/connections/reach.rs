//! Destinations that a client may reach on a direct connection.
//!
//! A connection that goes past the proxy leaves from this host: without a policy, a host of the
//! local network would reach what only this host may reach.

use std::io;
use std::net::{IpAddr, SocketAddr};

use mpbond_net::dest::{DestinationPolicy, InternalAddresses};
use tokio::net::TcpStream;

use crate::addresses;
use crate::internal::Internal;

/// Destinations within reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::primary) enum Reach {
    /// All: an application of this host could connect to them itself.
    Any,
    /// The public Internet, as at a proxy: neither this host's own addresses nor private networks.
    Public,
}

impl Reach {
    /// The reach of a client with this address.
    pub(in crate::primary) fn of(client: IpAddr) -> Self {
        let client = client.to_canonical();
        // Where own addresses are not known, only loopback is this host for certain.
        let is_own = || addresses::own().is_ok_and(|own| own.contains(&client));
        match client.is_loopback() || is_own() {
            true => Self::Any,
            false => Self::Public,
        }
    }

    /// Whether a connection to `address` may be made.
    ///
    /// # Errors
    /// `PermissionDenied`, with the reason.
    pub(super) fn check(self, address: SocketAddr) -> io::Result<()> {
        match self {
            Self::Any => Ok(()),
            Self::Public => Internal::read().with(|internal| permits(address, internal)),
        }
    }

    /// Checks a connection that was made: it may have reached this host at an address that has
    /// been added since.
    ///
    /// # Errors
    /// As [`Reach::check`].
    pub(super) fn confirm(self, tcp: TcpStream) -> io::Result<TcpStream> {
        let (local, peer) = (tcp.local_addr()?, tcp.peer_addr()?);
        if self == Self::Public && local.ip() == peer.ip() {
            permits(peer, &InternalAddresses::new([peer.ip()], ""))?;
        }
        Ok(tcp)
    }
}

fn permits(address: SocketAddr, internal: &InternalAddresses) -> io::Result<()> {
    let checked = DestinationPolicy::default().check_from(address, internal);
    checked.map_err(|e| io::Error::new(io::ErrorKind::PermissionDenied, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_the_local_network_reaches_public_addresses_only() {
        let stranger = Reach::of([192, 0, 2, 9].into());
        assert_eq!(stranger, Reach::Public);
        for address in [
            "127.0.0.1:80",
            "[::1]:80",
            "[::ffff:127.0.0.1]:80",
            "10.0.0.1:80",
            "192.168.1.1:80",
            "169.254.169.254:80",
            "[fe80::1]:80",
        ] {
            let denied = stranger.check(address.parse().unwrap()).unwrap_err();
            assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied, "{address}");
        }
        for own in addresses::own().unwrap() {
            assert!(stranger.check((own, 80).into()).is_err(), "{own}");
            assert_eq!(Reach::of(own), Reach::Any, "{own}");
        }
        assert!(stranger.check("9.9.9.9:443".parse().unwrap()).is_ok());
        assert_eq!(Reach::of("::ffff:127.0.0.1".parse().unwrap()), Reach::Any);
        assert!(Reach::Any.check("127.0.0.1:80".parse().unwrap()).is_ok());
    }

    #[tokio::test]
    async fn a_connection_that_has_reached_this_host_is_closed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap());
        assert!(Reach::Any.confirm(connect().await.unwrap()).is_ok());
        let denied = Reach::Public.confirm(connect().await.unwrap());
        assert_eq!(denied.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
