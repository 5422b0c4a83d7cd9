//! Connection over a link that may work again at any moment.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::sleep;

use super::{TcpError, TcpOptions, connect};

/// Interval of SYNs of the second socket, and time from the first socket's to the first of these.
const EVERY: Duration = Duration::from_secs(1);
const FIRST: Duration = Duration::from_millis(500);

/// Opens a connection as [`connect`] does, and sends a SYN each 500 ms: another socket tries each
/// second, between the kernel's own repetitions. Those are 1, 3 and 7 s after the first one before
/// Linux 6.5, and from then on 1, 2, 3, 4 and 5 s after it. The socket that connects first is
/// kept. When the first one fails, or its time is up, both are given up.
///
/// # Errors
/// As [`connect`].
pub async fn connect_again(options: &TcpOptions) -> Result<TcpStream, TcpError> {
    let again = async {
        sleep(FIRST).await;
        let options = TcpOptions {
            connect_timeout: EVERY,
            ..options.clone()
        };
        loop {
            match connect(&options).await {
                Ok(tcp) => return tcp,
                Err(TcpError::TimedOut { .. }) => {}
                Err(_) => sleep(EVERY).await,
            }
        }
    };
    tokio::select! {
        tcp = connect(options) => tcp,
        tcp = again => Ok(tcp),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};
    use std::time::Instant;

    use mpbond_testing::namespaces::{is_called_for, play, sh};
    use socket2::{Domain, Socket, Type};

    use super::*;

    /// SYNs that were dropped in this namespace since a listener's queue was full.
    fn dropped() -> u64 {
        let text = std::fs::read_to_string("/proc/net/netstat").unwrap();
        let mut lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("TcpExt: "));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let mut both = names.split(' ').zip(values.split(' '));
        let found = both.find(|(name, _)| *name == "ListenOverflows");
        found.unwrap().1.parse().unwrap()
    }

    #[test]
    fn a_lost_syn_is_repeated_twice_a_second() {
        play("-Urn", "tcp::again::tests::repeated");
    }

    /// The fifth SYN comes after 2 s. The kernel's alone comes after 4 s or more.
    #[tokio::test]
    #[ignore = "a role: see mpbond_testing::namespaces"]
    async fn repeated() {
        if !is_called_for() {
            return;
        }
        sh("ip link set lo up");
        let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        full.bind(&any.into()).unwrap();
        full.listen(0).unwrap();
        let remote = full.local_addr().unwrap().as_socket().unwrap();
        let mut held = Vec::new();
        while dropped() == 0 {
            held.push(std::net::TcpStream::connect_timeout(&remote, FIRST));
        }
        let (before, begin) = (dropped(), Instant::now());
        let options = TcpOptions::to(remote);
        let connecting = tokio::spawn(async move { connect_again(&options).await });
        while dropped() < before + 5 {
            sleep(Duration::from_millis(10)).await;
        }
        let took = begin.elapsed();
        assert!(took < Duration::from_millis(3_500), "{took:?}");
        // It has room again.
        let full = TcpListener::from(full);
        while !connecting.is_finished() {
            full.set_nonblocking(true).unwrap();
            let _ = full.accept();
            sleep(Duration::from_millis(10)).await;
        }
        assert!(connecting.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_refusal_is_told_at_once() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let options = TcpOptions::to(listener.local_addr().unwrap());
        drop(listener);
        let begin = Instant::now();
        let refused = connect_again(&options).await;
        assert!(matches!(refused, Err(TcpError::Connect { .. })));
        assert!(begin.elapsed() < options.connect_timeout / 2);
    }
}
