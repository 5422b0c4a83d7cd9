//! Connection to the first of several addresses that answers (RFC 8305, section 5).

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{TcpError, TcpOptions, connect};

/// Connection Attempt Delay (RFC 8305, section 5): after it the next address is tried as well.
const NEXT_AFTER: Duration = Duration::from_millis(250);

/// Opens a connection to one of these addresses, which are tried in order: each when the one before
/// it has failed, or has not answered for 250 ms. The first connection that is up is returned, and
/// the other attempts are aborted. The remote address of the options is not used; their timeout
/// holds for each attempt.
///
/// # Errors
/// The error of the first address, when all have failed. [`TcpError::NoAddress`] for none.
pub async fn connect_any(
    options: &TcpOptions,
    remotes: &[SocketAddr],
) -> Result<TcpStream, TcpError> {
    let mut attempts = JoinSet::new();
    let mut errors: Vec<(usize, TcpError)> = Vec::new();
    let mut waiting = remotes.iter().enumerate();
    loop {
        let more = waiting.next();
        if let Some((place, &remote)) = more {
            let options = TcpOptions {
                remote,
                ..options.clone()
            };
            attempts.spawn(async move { (place, connect(&options).await) });
        }
        let pause = async {
            match more {
                Some(_) => sleep(NEXT_AFTER).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            done = attempts.join_next() => match done {
                Some(Ok((_, Ok(tcp)))) => return Ok(tcp),
                Some(Ok((place, Err(e)))) => errors.push((place, e)),
                // A task that was aborted with the runtime.
                Some(Err(_)) => {}
                None => {
                    let first = errors.into_iter().min_by_key(|(place, _)| *place);
                    return Err(first.map_or(TcpError::NoAddress, |(_, e)| e));
                }
            },
            () = pause => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

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
    async fn closed() -> SocketAddr {
        listener().await.1
    }

    #[tokio::test]
    async fn refused_addresses_are_passed_over() {
        let (_listener, open) = listener().await;
        let tcp = connect_any(&options(), &[closed().await, closed().await, open]).await;
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
        let (first, second) = (closed().await, closed().await);
        let error = connect_any(&options(), &[first, second]).await.unwrap_err();
        assert!(error.to_string().contains(&first.to_string()), "{error}");
        let none = connect_any(&options(), &[]).await.unwrap_err();
        assert!(matches!(none, TcpError::NoAddress));
    }
}
