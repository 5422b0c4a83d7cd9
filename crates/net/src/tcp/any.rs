//! Connection to the first of several addresses that answers.

use std::net::SocketAddr;

use tokio::net::TcpStream;

use super::{TcpError, TcpOptions, connect};
use crate::happy_eyeballs::connect_in_order;

/// Opens a connection to the first of these addresses that answers, as [`connect_in_order`] does.
/// The remote address of the options is not used; their timeout holds for each attempt.
///
/// # Errors
/// The error of the first address, when all have failed. [`TcpError::NoAddress`] for none.
pub async fn connect_any(
    options: &TcpOptions,
    remotes: &[SocketAddr],
) -> Result<TcpStream, TcpError> {
    let attempt = |remote| async move {
        let options = TcpOptions {
            remote,
            ..options.clone()
        };
        connect(&options).await
    };
    let connected = connect_in_order(remotes.iter().copied(), attempt).await;
    connected.map_err(|errors| errors.into_iter().next().unwrap_or(TcpError::NoAddress))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use tokio::net::TcpListener;

    use super::*;

    fn options() -> TcpOptions {
        TcpOptions::to((Ipv4Addr::UNSPECIFIED, 0).into())
    }

    async fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// An address that refuses connections.
    fn closed() -> SocketAddr {
        mpbond_testing::free_address()
    }

    #[tokio::test]
    async fn refused_addresses_are_passed_over() {
        let (_listener, open) = listener().await;
        let tcp = connect_any(&options(), &[closed(), closed(), open]).await;
        assert_eq!(tcp.unwrap().peer_addr().unwrap(), open);
    }

    #[tokio::test]
    async fn a_listener_that_does_not_answer_is_passed_over() {
        // A backlog that is full drops further SYNs.
        let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let full = full.unwrap();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        full.bind(&any.into()).unwrap();
        full.listen(0).unwrap();
        let silent = full.local_addr().unwrap().as_socket().unwrap();
        let within = Duration::from_millis(500);
        let mut held = Vec::new();
        while let Ok(tcp) = std::net::TcpStream::connect_timeout(&silent, within) {
            held.push(tcp);
        }
        let (_listener, open) = listener().await;
        let tcp = connect_any(&options(), &[silent, open]).await;
        assert_eq!(tcp.unwrap().peer_addr().unwrap(), open);
    }

    #[tokio::test]
    async fn the_error_is_that_of_the_first() {
        let (first, second) = (closed(), closed());
        let error = connect_any(&options(), &[first, second]).await.unwrap_err();
        assert!(error.to_string().contains(&first.to_string()), "{error}");
        let none = connect_any(&options(), &[]).await.unwrap_err();
        assert!(matches!(none, TcpError::NoAddress));
    }
}
